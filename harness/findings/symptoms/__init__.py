"""One symptom a file: each looks at telemetry, records or a profile and says what is wrong."""

from typing import Final

from harness.findings.symptoms import (
    broken_answers,
    candidate_copies,
    client_late,
    errors_5xx,
    garbage,
    gc_pauses,
    gpu_bandwidth,
    gpu_errors,
    gpu_straggler,
    gpu_throttled,
    host_starved,
    kv_pressure,
    loop_blocked,
    memory_growth,
    more_load,
    nvlink_uneven,
    off_topic,
    pool_dead,
    prefix_cache_lost,
    queueing,
    repeated_rewards,
    repeated_text,
    slow_phase,
    store_exhausted,
    store_slow,
    straggler,
    tiny_kernels,
)
from harness.findings.symptoms.symptom import Context, Figure, Rule, Symptom

RULES: Final[tuple[Rule, ...]] = (
    more_load.check,
    host_starved.check,
    gpu_errors.check,
    gpu_throttled.check,
    nvlink_uneven.check,
    gpu_straggler.check,
    gpu_bandwidth.check,
    straggler.check,
    candidate_copies.check,
    tiny_kernels.check,
    repeated_rewards.check,
    pool_dead.check,
    garbage.check,
    memory_growth.check,
    gc_pauses.check,
    store_slow.check,
    store_exhausted.check,
    prefix_cache_lost.check,
    kv_pressure.check,
    loop_blocked.check,
    slow_phase.check,
    queueing.check,
    errors_5xx.check,
    client_late.check,
    repeated_text.check,
    off_topic.check,
    broken_answers.check,
)
"""What may be a cause stands before what may follow from it."""

__all__ = ["RULES", "Context", "Figure", "Rule", "Symptom"]
