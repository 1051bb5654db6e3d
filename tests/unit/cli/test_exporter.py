"""`tailbreak exporter`'s own words: what it refuses, and where it says it is."""

import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from harness.base.errors import SetupError
from harness.cli.main import app


@pytest.mark.parametrize(
    ("option", "value"), [("--port", "70000"), ("--port", "-1"), ("--pid", "-1"), ("--pid", "0")]
)
def test_what_no_port_and_no_process_can_be_is_refused(option: str, value: str) -> None:
    """A number out of range is wrong usage, told with its option."""
    result = CliRunner().invoke(app, ["exporter", "--once", option, value])
    assert result.exit_code == 2
    assert option in result.output


@pytest.mark.parametrize("host", ["", "no.such.host.invalid", "a" * 70])
def test_an_address_that_cannot_be_bound_is_told(host: str) -> None:
    """No name, a name of nobody and one that is none: an error, never every address."""
    error = CliRunner().invoke(app, ["exporter", "--port", "0", "--host", host]).exception
    assert isinstance(error, SetupError)
    assert "--host" in str(error)


def test_an_ipv6_address_is_shown_as_a_url_that_works() -> None:
    """Its colons stand in brackets, before the port."""
    command = [sys.executable, "-m", "harness.cli.main", "exporter", "--port", "0", "--host", "::1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        said = running.stdout.readline()
        running.send_signal(signal.SIGTERM)
    assert said.startswith("tailbreak exporter: http://[::1]:")
