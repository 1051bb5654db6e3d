import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKE_SAYS_5 = re.compile(r"^make(\[\d+\])?: \*\*\* .*Error 5$", re.MULTILINE)
TAKEN_ALONG = ("Makefile", "pyproject.toml", "constraints.txt", "README.md", "tools", "locustfiles",
               "scenarios")  # fmt: skip


def commands() -> list[str]:
    """Every `$ ` line of the README's console blocks."""
    blocks = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout as a reader has it, its scenarios cut down to seconds."""
    for name in TAKEN_ALONG:
        source, copy = ROOT / name, tmp_path / name
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, copy)
    venv = tmp_path / ".venv"
    (venv / "bin").mkdir(parents=True)
    for name in ("python", "tailbreak", "locust"):
        (venv / "bin" / name).symlink_to(Path(sys.executable).parent / name)
    (venv / ".installed").touch()
    for path in (tmp_path / "scenarios").glob("*.toml"):
        text = path.read_text(encoding="utf-8")
        text = re.sub(r"requests_per_cell = \d+", "requests_per_cell = 4", text)
        text = re.sub(r"segments_per_cell = \d+", "segments_per_cell = 1", text)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_the_readme_names_its_two_commands_first() -> None:
    """A newcomer finds `make demo` and `make test` before anything else."""
    assert commands()[:2] == ["make demo", "make test"]


def test_make_test_runs_every_test() -> None:
    """The second command is pytest over the whole tree with coverage."""
    plan = subprocess.run(
        ["make", "-n", "test"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert re.search(r"-m pytest --cov(?! .*(-k|-m |tests/))", plan), plan


def is_accepted(code: str, said: str) -> bool:
    """Exit 0, or 5 (no verdict), which `make` passes on as its own exit 2 and "Error 5"."""
    return code in {"0", "5"} or (code == "2" and MAKE_SAYS_5.search(said) is not None)


@pytest.mark.parametrize(
    ("code", "said", "is_fine"),
    [
        ("0", "", True),
        ("5", "", True),
        ("2", "make: *** [Makefile:20: demo] Error 5\n", True),
        ("2", "make[1]: *** [Makefile:2: demo] Error 5\nmake[1]: Leaving directory 'x'\n", True),
        ("2", "make: *** [Makefile:20: demo] Error 2\n", False),
        ("2", "make: *** [Makefile:20: demo] Error 55\n", False),
        ("2", "x.toml: load.users: got 0", False),
        ("1", "make: *** [Makefile:20: demo] Error 5\n", False),
    ],
)
def test_only_a_verdict_or_its_lack_is_accepted(code: str, said: str, *, is_fine: bool) -> None:
    """Input errors, failed requests and broken recipes are never taken for "no verdict"."""
    assert is_accepted(code, said) is is_fine


@pytest.mark.e2e
@pytest.mark.slow
def test_every_readme_command_runs(checkout: Path) -> None:
    """Each command of the README, in its order, in one shell; only `make test` is left out.

    Exit 5 is allowed where four requests a cell can support no verdict.
    """
    port = "8000"
    free = subprocess.run(
        [sys.executable, "-c", ("import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); "
         "print(s.getsockname()[1])")],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    lines = ["set -m"]
    for number, command in enumerate(commands()):
        if command == "make test":
            continue
        here = command.replace(port, free)
        if here.endswith("&"):
            lines.append(here.replace("&", "> serve.log 2>&1 &"))
            lines.append(
                f"for i in $(seq 300); do curl -sf http://127.0.0.1:{free}/healthz >/dev/null "
                "&& break; sleep 0.2; done"
            )
        else:
            lines.append(f"{here} > out{number}.log 2>&1; echo '{number}' $?")
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("LOCUST", "COV", "MAKE"))
    }
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=checkout,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    codes = dict(
        line.split() for line in done.stdout.splitlines() if re.fullmatch(r"\d+ \d+", line)
    )
    said = {n: (checkout / f"out{n}.log").read_text(encoding="utf-8")[-2000:] for n in codes}
    bad = {
        commands()[int(n)]: said[n] for n, code in codes.items() if not is_accepted(code, said[n])
    }
    assert not bad, bad
    assert len(codes) == len([c for c in commands() if c != "make test" and not c.endswith("&")])
    assert list(checkout.glob("reports/runs/*/report.html"))
