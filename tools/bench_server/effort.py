"""How much is timed."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Effort:
    """Blocks per comparison, decode steps a block, tokens per stream."""

    n_blocks: int
    n_steps: int
    n_stream_tokens: int


FULL: Final = Effort(n_blocks=15, n_steps=24, n_stream_tokens=400)
QUICK: Final = Effort(n_blocks=6, n_steps=8, n_stream_tokens=120)
