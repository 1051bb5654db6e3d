"""One rank comes last to the collectives, far more often than by luck, and the others wait."""

from harness.findings.symptoms.symptom import Context, Figure, Symptom
from harness.stats.barrier import lateness_p

CHANCE = 1e-3
"""Of being last so often by luck, over all ranks together."""
LEAST_SHARE = 0.05
"""Of the time that would be saved, had the late rank come with the second last."""


def check(context: Context) -> Symptom | None:
    """The rank whose lateness costs most, from the table of ranks."""
    if context.ranks is None or context.ranks.empty:
        return None
    ready = context.ranks.pivot_table(index="collective", columns="rank", values="ready_s")
    told = context.ranks[context.ranks["is_last"]]
    ordered = ready.to_numpy().copy()
    ordered.sort(axis=1)
    margin = dict(zip(ready.index, ordered[:, -1] - ordered[:, -2], strict=True))
    n_last = [int((told["rank"] == rank).sum()) for rank in ready.columns]
    saves = [sum(margin[c] for c in told[told["rank"] == r]["collective"]) for r in ready.columns]
    place = max(range(len(saves)), key=saves.__getitem__)
    span_s = float(context.ranks["end_s"].max() - context.ranks["ready_s"].min())
    share = saves[place] / span_s if span_s > 0 else 0.0
    if lateness_p(n_last, len(told))[place] >= CHANCE or share < LEAST_SHARE:
        return None
    rank = int(ready.columns[place])
    wait_s = float(context.ranks[context.ranks["rank"] != rank]["wait_s"].sum())
    return Symptom(
        name="straggler",
        seen=(
            f"rank {rank} came last to {n_last[place]} of {len(ready)} collectives; the others "
            f"waited {wait_s:.3g} s, which their profiles show as transfer"
        ),
        cause=f"rank {rank} is late: its own work before the collective takes longer",
        fix=(
            f"look at rank {rank} and not at the network: its share of the batch, its clocks and "
            "throttling, its host's processors, its data loading"
        ),
        strength=share / LEAST_SHARE,
        evidence=(
            Figure(what="time saved if it came with the second last", value=share, unit="share"),
            Figure(
                what="share of collectives to which it came last",
                value=n_last[place] / len(ready),
                unit="share",
            ),
            Figure(what="waiting of the other ranks", value=wait_s, unit="s"),
        ),
    )
