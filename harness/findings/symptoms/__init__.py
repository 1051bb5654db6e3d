"""One symptom a file: each looks at telemetry, records or a profile and says what is wrong."""

from harness.findings.symptoms.symptom import Context, Figure, Rule, Symptom

RULES: tuple[Rule, ...] = ()
"""Causes before what follows from them."""

__all__ = ["RULES", "Context", "Figure", "Rule", "Symptom"]
