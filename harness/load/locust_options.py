"""Our options on Locust's command line: one group, each with an environment variable."""

import argparse
import os
import socket
from pathlib import Path
from typing import Any

from harness.base.errors import SetupError

DEFAULT_RUNS_DIR = "reports/runs"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Register the options."""
    group = parser.add_argument_group("tailbreak", "what to measure, and where the run is written")
    _add(group, "--scenario", "FILE", "TAILBREAK_SCENARIO", "scenario to run (TOML)")
    _add(group, "--run-folder", "DIR", "TAILBREAK_RUN_FOLDER", "run folder prepared beforehand")
    _add(
        group, "--runs-dir", "DIR", "TAILBREAK_RUNS_DIR",
        "where run folders are made", default=DEFAULT_RUNS_DIR,
    )  # fmt: skip


def _add(
    group: Any, option: str, metavar: str, env_var: str, text: str, default: str | None = None
) -> None:
    action = group.add_argument(
        option, metavar=metavar, env_var=env_var, default=default, help=f"{text} [{env_var}]"
    )
    action.include_in_web_ui = False  # paths are the operator's business


def given_path(value: str | None) -> Path | None:
    """The path that was given, if one was."""
    return Path(value) if value else None


def require_free_web_port(options: Any) -> None:
    """Require that Locust's page can be served, before a run folder is made.

    Raises:
        SetupError: the port is taken, or the address is not this machine's.
    """
    if options.headless or options.worker:
        return
    host = "" if options.web_host in {None, "*"} else options.web_host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, options.web_port), family=family).close()
    except OSError as error:
        raise SetupError(
            f"the web page cannot be served at {host or '*'}:{options.web_port}: "
            f"{os.strerror(error.errno or 0)}; choose another with --web-port or --web-host"
        ) from error
