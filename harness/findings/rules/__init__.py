"""One rule a file: each looks at a finished run and says what must be doubted."""

from harness.findings.rules import (
    clock_step,
    coalesced_stream,
    dispatch_lag,
    failed_requests,
    gpu_faults,
    lengths,
    lost_workers,
    missing_requests,
    path_mismatch,
    planted_faults,
    scraped_metrics,
    sessions,
    stamp_source,
)
from harness.findings.rules.rule import Doubt, Rule

RULES: tuple[Rule, ...] = (
    failed_requests.check,
    missing_requests.check,
    lost_workers.check,
    sessions.check,
    path_mismatch.check,
    planted_faults.check,
    dispatch_lag.check,
    clock_step.check,
    stamp_source.check,
    coalesced_stream.check,
    lengths.check,
    scraped_metrics.check,
    gpu_faults.check,
)

__all__ = ["RULES", "Doubt", "Rule"]
