"""`X-MC-Accel`: which accelerated features a request asks for, and which this build has.

Absent or `false` is the baseline path; `true` is every exact feature; a comma list is just those.
A lossy feature may change the answer and runs only when it is named. An unknown word is refused,
never ignored: a measurement must not run something else than it says.
"""

from __future__ import annotations

from typing import Final

from harness.server.api_error import ApiError
from harness.server.block_manager import BLOCK_SIZE, blocks_for
from harness.server.contiguous import capacity_for
from harness.server.sequence import Layout, Mode
from kernels.backend import has_native

HEADER: Final = "x-mc-accel"
EXACT_FEATURES: Final[tuple[str, ...]] = (
    "adaptive_batching",
    "prefix_cache",
    "paged_kv",
    *(("fused_sampling",) if has_native() else ()),
    "async_store",
    "gc_tuned",
    "device_pool",
)
"""What this build has: without native kernels nothing is fused."""
LOSSY_FEATURES: Final[tuple[str, ...]] = (
    *(("packed_state",) if has_native() else ()),
    "depth_clip",
)
"""The same for features with limits of their own."""
FEATURES: Final = (*EXACT_FEATURES, *LOSSY_FEATURES)


def read_features(header: str | None, pools: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Turn the header's value into the features to run, in this build's order.

    Args:
        header: Of the request.
        pools: Words that name this server's pools of another dtype.

    Raises:
        ApiError: A word is unknown, or needs another; the message lists what this build has.
    """
    words = [word.strip().lower() for word in (header or "false").split(",")]
    if words == ["false"]:
        return ()
    known = (*FEATURES, *pools)
    unknown = [word for word in words if word not in {"true", *known}]
    if unknown:
        raise _refusal(
            f"got {', '.join(map(repr, unknown))}, allowed false, true (every exact feature), or a "
            f"comma list of true, {', '.join(known)}; {', '.join(LOSSY_FEATURES)} and pools of "
            "another dtype may change the answer"
        )
    if "true" in words:
        words += EXACT_FEATURES
    if "prefix_cache" in words and not {"paged_kv", "packed_state"} & set(words):
        raise _refusal(
            "got 'prefix_cache' without 'paged_kv', whose blocks it shares; "
            "allowed true, or both: prefix_cache,paged_kv"
        )
    return tuple(feature for feature in known if feature in words)


def _refusal(problem: str) -> ApiError:
    return ApiError(400, f"X-MC-Accel: {problem}", param="X-MC-Accel", code="unknown_feature")


def path_of(features: tuple[str, ...]) -> str:
    """Name the path that runs with these features."""
    return "accelerated" if features else "baseline"


def mode_of(features: tuple[str, ...]) -> Mode:
    """Choose how the engine runs a request; `async_store` and pools are the front's business."""
    return Mode(
        layout=_layout_of(features),
        has_prefix_cache="prefix_cache" in features,
        is_adaptive="adaptive_batching" in features,
        is_gc_tuned="gc_tuned" in features,
        is_fused="fused_sampling" in features,
        is_depth_clipped="depth_clip" in features,
    )


def _layout_of(features: tuple[str, ...]) -> Layout:
    """Packed state lies in blocks, whether `paged_kv` is named beside it or not."""
    if "packed_state" in features:
        return "packed"
    return "paged" if "paged_kv" in features else "contiguous"


def slots_needed(layout: Layout, n_tokens: int) -> int:
    """Give the slots of its layout that a context of `n_tokens` occupies when it is alone."""
    if layout == "contiguous":
        return capacity_for(n_tokens)
    return blocks_for(n_tokens) * BLOCK_SIZE
