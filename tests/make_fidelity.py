"""A stored comparison of answers, with defaults of a path that is the same."""

from harness.records.fidelity import Choices, Fidelity, Path, Positions, Setting, Spread


def make_path(asked: str, *problems: str, lossy: tuple[str, ...] = ()) -> Path:
    """One path; what is past its limit is about penalties."""
    tiny = Spread(mean=5e-13, p999=4e-12, maximum=6e-12)
    positions = Positions(
        n=296, n_close=0, n_infinite=0, kl=tiny, reverse_kl=tiny, js=tiny, variation=tiny,
        same_top1=1.0, pass_limit=1e-5, pass_rate=1.0,
    )  # fmt: skip
    setting = Setting(
        name="penalties",
        params={"temperature": 0.9},
        positions=positions,
        choices=Choices(n=296, n_close=0, n_different=0),
        draws=None,
        problems=list(problems),
    )
    return Path(
        asked=asked, features=["paged_kv", *lossy], lossy=list(lossy), limits=[], n_cached=0,
        n_evictions=0, settings=[setting], caveats=[],
    )  # fmt: skip


def make_fidelity(*paths: Path) -> Fidelity:
    """A comparison of these paths with the baseline."""
    return Fidelity(
        model="tiny", fingerprint="fp_0", seed=1, baseline="false", alpha=1e-4, options={},
        paths=list(paths), duration_s=1.0,
    )  # fmt: skip
