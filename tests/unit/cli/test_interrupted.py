import subprocess
import sys
from pathlib import Path

import pytest

from harness.base.errors import MeasurementInvalid
from harness.cli.drive import finish
from harness.load.session import prepare
from tests.make_records import make_scenario

TWICE = """
import atexit, os, signal
from harness.cli import main
def interrupted(**_): raise KeyboardInterrupt
atexit.register(os.kill, os.getpid(), signal.SIGINT)
main.app = interrupted
main.main()
"""


def test_a_second_ctrl_c_on_the_way_out_changes_nothing() -> None:
    """The exit code stays 2, without a trace, however impatient somebody is."""
    done = subprocess.run(
        [sys.executable, "-c", TWICE], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (2, "tailbreak: interrupted\n")


def test_a_load_process_interrupted_while_it_starts_says_so(tmp_path: Path) -> None:
    """Ctrl-C reaches it amid its imports: one sentence, not the end of a trace."""
    run = prepare(make_scenario(), "http://127.0.0.1:9", tmp_path)
    (run.path / "load.log").write_text("Traceback ...\n  line\nKeyboardInterrupt\n", "utf-8")
    with pytest.raises(MeasurementInvalid, match="interrupted before anything was sent") as caught:
        finish(run, 130)
    assert "Traceback" not in str(caught.value)
