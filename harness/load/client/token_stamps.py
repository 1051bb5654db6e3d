"""How many tokens each text chunk carried, hence one receive stamp per token.

Servers put one token or several into a chunk and say how many only in `usage`: per chunk when they
send it continuously, else once for all.
"""

from collections.abc import Sequence
from itertools import pairwise


def tokens_per_chunk(cumulative: Sequence[int | None], total: int | None) -> list[int]:
    """Tokens of each text chunk.

    With usage on every text chunk, that usage decides. Else the total is spread evenly, the
    remainder over the front: chunk i of C gets ceil((i+1)N/C) - ceil(iN/C), so the first chunk
    always has a token. Without a total each chunk counts one.

    Args:
        cumulative: output tokens so far as each text chunk's own usage said, None where it did not.
        total: output tokens of the whole answer by usage, None when unknown.
    """
    n_chunks = len(cumulative)
    if n_chunks == 0:
        return []
    steps = _continuous_steps(cumulative)
    if steps is not None and (total is None or total >= sum(steps)):
        # Tokens without text of their own, such as the end mark, come last.
        steps[-1] += 0 if total is None else total - sum(steps)
        return steps
    if not total:
        return [1] * n_chunks
    edges = [-(-(i * total) // n_chunks) for i in range(n_chunks + 1)]
    return [after - before for before, after in pairwise(edges)]


def _continuous_steps(cumulative: Sequence[int | None]) -> list[int] | None:
    """Differences of a usage that is present on every chunk and never falls, else None."""
    steps, before = [], 0
    for count in cumulative:
        if count is None or count < before:
            return None
        steps.append(count - before)
        before = count
    return steps if before > 0 else None
