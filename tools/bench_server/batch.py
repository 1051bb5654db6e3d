"""What decodes: how many sequences, from which length, for how many timed steps."""

from typing import NamedTuple

import numpy as np


class Batch(NamedTuple):
    """One decode workload."""

    n_seqs: int
    context: int
    n_steps: int

    def prompts(self) -> list[list[int]]:
        """Give ordinary tokens, no two prompts alike, the same in every run."""
        random = np.random.default_rng(self.n_seqs * 10_000 + self.context)
        tokens: list[list[int]] = random.integers(300, 4000, (self.n_seqs, self.context)).tolist()
        return tokens
