"""SLO files: what may be promised, and what is refused with its place."""

from pathlib import Path

import pytest

from harness.base.errors import ScenarioError
from harness.scenario.slo import read_slo

HEAD = 'schema = 1\nservice = "chat"\n'
TTFT = 'name = "a"\nmetric = "ttft_s"\nlimit_s = 0.5\ntarget = 0.99\n'


def read(tmp_path: Path, text: str) -> object:
    path = tmp_path / "slo.toml"
    path.write_text(text)
    return read_slo(path)


@pytest.mark.parametrize("path", sorted(Path("scenarios/slo").glob("*.toml")))
def test_every_example_is_valid(path: Path) -> None:
    """What is committed can be used."""
    assert read_slo(path).objectives


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (HEAD, "objectives"),
        (HEAD + "[[objectives]]\n" + TTFT.replace("limit_s = 0.5\n", ""), "needs limit_s"),
        (HEAD + "[[objectives]]\n" + TTFT.replace('"ttft_s"', '"availability"'), "has none"),
        (HEAD + "[[objectives]]\n" + TTFT.replace("0.99", "1.0"), "0.99999"),
        (HEAD + "[[objectives]]\n" + TTFT + 'window = "1h"\n', "window"),
        (HEAD + "[[objectives]]\n" + TTFT + 'window = "3d"\n', "7d to 99d"),
        (HEAD + "[[objectives]]\n" + TTFT + "[[objectives]]\n" + TTFT, "named twice: a"),
        (HEAD + '[labels]\nservice = "x"\n[[objectives]]\n' + TTFT, "'service' cannot be a label"),
        (HEAD + '[labels]\n"a-b" = "x"\n[[objectives]]\n' + TTFT, "'a-b' cannot be a label"),
        (HEAD + "[[objectives]]\n" + TTFT + "limits = 2\n", "limit_s"),
    ],
)
def test_what_cannot_be_promised_is_refused(tmp_path: Path, text: str, told: str) -> None:
    """Each mistake is told with what is allowed."""
    with pytest.raises(ScenarioError, match=told):
        read(tmp_path, text)
