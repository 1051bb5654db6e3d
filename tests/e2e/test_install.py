import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PACKAGES = ("harness/", "kernels/", "locustfiles/", "dashboards/")
SERVE = ("serve", "--port", "0", "--ends-with-stdin")
NOT_SHIPPED = (".cpp", ".hpp", "CMakeLists.txt")


def tracked() -> set[str]:
    """Every file of the packages that belongs into a wheel."""
    done = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("not a git checkout: the list of files is not to be had")
    return {name for name in done.stdout.split() if not name.endswith(NOT_SHIPPED)}


def build(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build a wheel of this checkout, with the environment's changes."""
    command = ["pip", "--disable-pip-version-check", "wheel", "--no-deps", "-w", str(folder), "."]
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def unpack(folder: Path) -> tuple[set[str], Path]:
    """Names of the one wheel's files, and where they lie unpacked."""
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
        return set(archive.namelist()), folder / "site"


def away(site: Path) -> dict[str, str]:
    """An environment for `python -S`: the unpacked package, beside the others that are installed.

    Without -S the editable install of this checkout would be imported in its place.
    """
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(site), sysconfig.get_path("purelib")))}


def backend_of(site: Path) -> str:
    """What the unpacked package says about its kernels, away from this checkout."""
    code = (
        "import kernels.cpu as cpu, kernels.backend as b; "
        "print(b.choose_backend('op', 'cpu'), cpu.PROBLEM, cpu.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=site,
        env=away(site),
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(site) in done.stdout
    return done.stdout


def test_a_wheel_holds_every_file_and_its_kernels(tmp_path: Path) -> None:
    """Nothing of the packages is left out, and the native kernels run from the wheel."""
    done = build(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    names, site = unpack(tmp_path)
    assert tracked() <= names
    assert not [name for name in names if name.endswith(NOT_SHIPPED)]
    assert backend_of(site).startswith("cpu None")


def test_without_native_kernels_the_package_works_and_says_so(tmp_path: Path) -> None:
    """TAILBREAK_NATIVE=0 makes a pure wheel that names what it lacks and how to get it."""
    done = build(tmp_path, TAILBREAK_NATIVE="0")
    assert done.returncode == 0, done.stdout + done.stderr
    names, site = unpack(tmp_path)
    assert tracked() <= names
    assert not [name for name in names if name.endswith(".so")]
    said = backend_of(site)
    assert said.startswith("torch tailbreak was installed without native kernels")
    assert "apt-get install g++" in said
    served = subprocess.run(
        [sys.executable, "-S", "-m", "harness.cli.main", *SERVE],
        cwd=site,
        env=away(site),
        input="",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert served.returncode == 0
    assert "tailbreak serve: slower than it could be" in served.stderr


def test_without_a_compiler_the_install_says_what_to_install(tmp_path: Path) -> None:
    """A machine without a compiler is told which one, and the way around it."""
    done = build(tmp_path, PATH=str(tmp_path), CC="", CXX="")
    assert done.returncode != 0
    for words in ("GCC 11 or Clang 14", "apt-get install g++", "TAILBREAK_NATIVE=0"):
        assert words in done.stdout + done.stderr
