"""Which metrics a PromQL expression names, and which there are."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from harness.metrics.catalogue import gpu, load, process, server
from harness.metrics.catalogue.metric import Metric

METRICS: Final = (
    *(
        each
        for module in (server, load, process, gpu)
        for each in vars(module).values()
        if isinstance(each, Metric)
    ),
    *gpu.DCGM_METRICS,
)
_SUFFIXES: Final = ("_bucket", "_count", "_sum")
KNOWN: Final = frozenset(
    name
    for metric in METRICS
    for name in (
        [metric.name + suffix for suffix in _SUFFIXES]
        if metric.type == "histogram"
        else [metric.name]
    )
)
"""Names of every series that may be exposed."""
_WORDS: Final = frozenset({
    "by", "without", "on", "ignoring", "group_left", "group_right", "and", "or", "unless", "bool",
    "offset", "inf", "nan",
})  # fmt: skip
_OUT: Final = re.compile(
    r'"(?:\\.|[^"\\])*"|\{[^}]*\}|\[[^\]]*\]|\$\w+'
    r"|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)"
)
_NAME: Final = re.compile(r"(?<![\w.])[a-zA-Z_:][\w:]*(?!\s*\()(?![\w:])")


def metrics_of(expr: str) -> frozenset[str]:
    """Names of metrics in an expression; functions, labels and words of the language are none."""
    bare = _OUT.sub(" ", expr)
    return frozenset(name for name in _NAME.findall(bare) if name.lower() not in _WORDS)


@cache
def counters() -> frozenset[str]:
    """Names whose value only grows: counters, and the three of a histogram."""
    growing = {metric.name for metric in METRICS if metric.type == "counter"}
    parts = {m.name + s for m in METRICS if m.type == "histogram" for s in _SUFFIXES}
    return frozenset(growing | parts)
