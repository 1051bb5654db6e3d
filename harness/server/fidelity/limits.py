"""How far a path may be from the baseline: exact features by rounding only, lossy ones by theirs.

Several lossy features together are held to the limits of the loosest of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from harness.server.pool_options import SHORT_DTYPES, dtype_word

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Sequence as AbstractSequence

ALPHA: Final = 1e-4
"""Level at which draws are tested, for all tests of a path together."""


class Limits(NamedTuple):
    """What is allowed.

    Attributes:
        kl_mean: Mean KL from the baseline to the path over all positions.
        kl_each: KL at a position; what stays within it passes. Exact paths may not exceed it.
        least_same_top1: Share of positions at which both find the same token likeliest.
        is_exact: Whether the same seed must give the same token.
    """

    kl_mean: float
    kl_each: float
    least_same_top1: float
    is_exact: bool

    def told(self) -> list[str]:
        """The limits in words."""
        if self.is_exact:
            return [
                f"KL mean below {self.kl_mean:g}, at each position below {self.kl_each:g}",
                "the same seed gives the same token, ties within rounding aside",
                f"draws follow the exact distribution and each other (chi-square, alpha {ALPHA:g})",
            ]
        return [
            f"KL before the filters: mean below {self.kl_mean:g}",
            f"the same likeliest token at {self.least_same_top1:.0%} of positions",
            f"draws follow the path's own distribution (chi-square, alpha {ALPHA:g})",
        ]


EXACT: Final = Limits(kl_mean=1e-7, kl_each=1e-5, least_same_top1=0.0, is_exact=True)
# All arithmetic in the other dtype, not the logits alone.
_OTHER_DTYPE: Final = Limits(kl_mean=5e-4, kl_each=0.05, least_same_top1=0.95, is_exact=False)
LOSSY: Final[Mapping[str, Limits]] = {
    # What the model says is untouched; what is drawn may differ by what is clipped.
    "depth_clip": Limits(kl_mean=1e-7, kl_each=1e-5, least_same_top1=0.99, is_exact=False),
    "packed_state": Limits(kl_mean=0.05, kl_each=0.5, least_same_top1=0.9, is_exact=False),
    **{dtype_word(dtype): _OTHER_DTYPE for dtype in SHORT_DTYPES},
}
"""Whatever is not here is held to what exact features are."""


def limits_for(features: AbstractSequence[str]) -> Limits:
    """The limits of a set of features."""
    lossy = [LOSSY[name] for name in features if name in LOSSY]
    return max(lossy, key=lambda each: each.kl_mean, default=EXACT)
