"""Our options on Locust's command line: one group, each with an environment variable."""

import argparse
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.base.errors import SetupError
from harness.load.resumed import resumed_target
from harness.load.session import api_key, check_target, reopen
from harness.records.about import read_about
from harness.records.run import RUNS_DIR
from harness.scenario.baseline import require_baseline
from harness.scenario.read import read_scenario
from harness.scenario.schema import Scenario

LOOPBACK = "127.0.0.1"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Register the options; page and workers are this machine's own unless asked otherwise."""
    parser.set_defaults(web_host=LOOPBACK, master_bind_host=LOOPBACK)
    group = parser.add_argument_group("tailbreak", "what to measure, and where the run is written")
    _add(group, "--scenario", "FILE", "TAILBREAK_SCENARIO", "scenario to run (TOML)")
    _add(
        group,
        "--run-folder",
        "DIR",
        "TAILBREAK_RUN_FOLDER",
        "run folder prepared beforehand",
        in_page=False,
    )
    _add(group, "--baseline", "RUN", "TAILBREAK_BASELINE", "earlier run to compare with")
    _add(
        group, "--resume", "RUN", "TAILBREAK_RESUME",
        "finish this run folder, which was killed or stopped: send what it has no record of",
        in_page=False,
    )  # fmt: skip
    _add(
        group, "--metrics-port", "PORT", "TAILBREAK_METRICS_PORT",
        "serve the run's metrics for Prometheus on this port of 127.0.0.1, 0 for a free one",
        type_=int, in_page=False,
    )  # fmt: skip
    _add(
        group, "--runs-dir", "DIR", "TAILBREAK_RUNS_DIR",
        "where run folders are made", default=str(RUNS_DIR),
    )  # fmt: skip


def _add(
    group: Any,
    option: str,
    metavar: str,
    env_var: str,
    text: str,
    default: str | None = None,
    *,
    type_: type[str | int] = str,
    in_page: bool = True,
) -> None:
    action = group.add_argument(
        option,
        metavar=metavar,
        env_var=env_var,
        default=default,
        type=type_,
        help=f"{text} [{env_var}]",
    )
    action.include_in_web_ui = in_page


def given_path(value: str | None) -> Path | None:
    """The path that was given, if one was."""
    return Path(value) if value else None


def read_given(file: str | None) -> Scenario:
    """The scenario that was named.

    Raises:
        SetupError: none was.
        ScenarioError: it is not valid.
    """
    if not file:
        raise SetupError("no scenario: give --scenario scenarios/quickstart.toml")
    return read_scenario(Path(file))


def target_of(scenario: Scenario, file: str, host: str | None) -> str:
    """Where requests go.

    Raises:
        SetupError: neither the command line nor the scenario says.
    """
    url = host or scenario.target.url
    if not url:
        raise SetupError(
            f"{file} names no target.url: give --host http://127.0.0.1:8000, "
            "or `tailbreak run`, which starts the bundled server"
        )
    return url


def check_form(
    options: Any, host: str | None, form: Mapping[str, str] | None = None
) -> tuple[Scenario, str]:
    """Scenario and target of the run that the command line, or the page's form, asks for.

    Raises:
        TailbreakError: it cannot be run: its scenario is not valid, its target does not answer, or
            its baseline is another experiment.
    """
    form = form or {}
    if options.resume:
        session, url = resumed_target(options, form.get("host", host))
        scenario = session.scenario
    elif given_path(options.run_folder) is not None:
        session = reopen(Path(options.run_folder))
        scenario, url = session.scenario, host or str(read_about(session.run)["target"])
    else:
        file = form.get("scenario") or options.scenario
        scenario = read_given(file)
        url = target_of(scenario, file, form.get("host", host))
        require_baseline(given_path(form.get("baseline", options.baseline)), scenario)
    check_target(url, api_key(scenario))
    return scenario, url


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
