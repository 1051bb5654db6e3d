"""Locust user classes, and the wiring of a run into Locust's events.

The only module of the package that imports Locust, which patches the standard library on import.
Locust lends greenlets, processes, the command line and the web page; our own records are the truth.
`environment.tailbreak` is the run of this process: alone, as the master of several, or as a worker.
"""

import logging
import os
import sys
from functools import partial
from typing import Any

import gevent
from locust import User, events, task
from locust.dispatch import UsersDispatcher
from locust.exception import RPCError, StopUser
from locust.runners import STATE_MISSING, STATE_RUNNING, STATE_SPAWNING, MasterRunner, WorkerRunner

from harness.base.errors import ExitCode, SetupError, TailbreakError
from harness.load.conductor import Conductor
from harness.load.locust_options import add_options, check_form, require_free_web_port
from harness.load.locust_page import answer_refusal, fill_form
from harness.load.locust_run import (
    Run,
    catch_interrupts,
    finish,
    fire_request,
    leave,
    new_session,
    watch_parent,
)
from harness.load.messages import Closed, Message, decode, encode
from harness.load.run_metrics import RunMetrics
from harness.load.runner import PARENT_VARIABLE
from harness.load.solo import SoloRun
from harness.load.verdict import FinalReport
from harness.load.worker import LoadWorker

MESSAGE = "tailbreak"

logger = logging.getLogger("tailbreak")


class TailbreakUser(User):  # type: ignore[misc]  # locust is not typed here
    """A user that works through the run's plan; how many there are is the scenario's business."""

    abstract = True

    @task  # type: ignore[untyped-decorator]  # locust is not typed here
    def work(self) -> None:
        """Send until the plan is over, then leave."""
        run: Run | None = self.environment.tailbreak
        user = None if run is None else run.enter()
        if user is not None:
            user.run()
        raise StopUser


class GridUser(TailbreakUser):
    """Works through a scenario's grid."""

    abstract = False


class ScenarioUsers(UsersDispatcher):  # type: ignore[misc]  # locust is not typed here
    """Spawns the users that the scenario needs, at once, whatever number was typed.

    Users beyond them go to the locustfile's other classes. A worker that joins a run in its middle
    takes no part: moving users to it would cut their requests.
    """

    def new_dispatch(
        self, target_user_count: int, spawn_rate: float, user_classes: Any = None
    ) -> None:
        """Start a ramp to at least the scenario's users."""
        n_users = sum(each.fixed_count for each in _ours(self._original_user_classes))
        target = max(target_user_count, n_users)
        super().new_dispatch(target, max(spawn_rate, n_users), user_classes)

    def add_worker(self, worker_node: Any) -> None:
        """Leave the users where they are."""
        logger.warning("%s joined too late for this run", worker_node.id)


class _MasterPost:
    """To the workers, over Locust's connection."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner

    def send(self, message: Message, to: str | None = None) -> None:
        """Send it to this worker."""
        try:
            self._runner.send_message(MESSAGE, encode(message), client_id=to)
        except RPCError as error:
            logger.warning("worker %s cannot be told: %s", to, error)

    def present(self) -> set[str]:
        """Workers whose heartbeats come."""
        clients = self._runner.clients
        return {name for name in clients if clients[name].state != STATE_MISSING}


class _WorkerPost:
    """To the master, over Locust's connection."""

    def __init__(self, environment: Any) -> None:
        self._environment = environment
        self._runner = environment.runner

    def send(self, message: Message, to: str | None = None) -> None:  # noqa: ARG002  one master
        """Send it to the master; before the last one, what Locust's own tables still lack."""
        try:
            if isinstance(message, Closed):
                self._send_stats()
            self._runner.send_message(MESSAGE, encode(message))
        except RPCError as error:
            logger.warning("the master cannot be told: %s", error)

    def present(self) -> set[str]:
        """A worker knows no other."""
        return set()

    def _send_stats(self) -> None:
        data: dict[str, Any] = {}
        name = self._runner.client_id
        self._environment.events.report_to_master.fire(client_id=name, data=data)
        self._runner.send_message("stats", data)


def _ours(user_classes: Any) -> list[Any]:
    return [each for each in user_classes if issubclass(each, TailbreakUser)]


def _on_parser(parser: Any, **_kwargs: Any) -> None:
    add_options(parser)


def _on_init(environment: Any, runner: Any, web_ui: Any, **_kwargs: Any) -> None:
    environment.tailbreak = environment.tailbreak_report = None
    environment.tailbreak_metrics = RunMetrics(None)
    environment.events.quitting.add_listener(_on_quitting)  # so it comes before Locust's own
    runner.register_message(MESSAGE, _on_message)
    catch_interrupts()
    if isinstance(runner, WorkerRunner):
        if environment.parsed_options.processes:
            gevent.spawn(watch_parent, environment, os.getppid())
        return
    environment.dispatcher_class = ScenarioUsers
    environment.events.quit.add_listener(partial(_tell_verdict, environment))
    try:
        require_free_web_port(environment.parsed_options)
        if web_ui is None:
            _open_run(environment)
        else:
            RunMetrics(environment.parsed_options.metrics_port).kill()  # taken? now, not at a start
            fill_form(environment)
            is_on = partial(_is_on, runner)
            web_ui.app.before_request(partial(answer_refusal, environment, is_on))
    except TailbreakError as error:
        leave(error)
    except KeyboardInterrupt:
        leave(SetupError("interrupted before anything was sent"))
    parent = os.environ.get(PARENT_VARIABLE)
    if parent is not None:
        gevent.spawn(watch_parent, environment, int(parent))


def _is_on(runner: Any) -> bool:
    return runner.state in {STATE_RUNNING, STATE_SPAWNING}


def _open_run(environment: Any) -> None:
    """The next run of this process, with nothing sent yet.

    Raises:
        TailbreakError: the scenario, the target or the folder is not as it must be.
    """
    options, runner = environment.parsed_options, environment.runner
    if not _ours(environment.user_classes):
        raise SetupError("no class of this run works through a scenario; pick GridUser")
    check_form(options, environment.host)
    environment.tailbreak_metrics.kill()  # of the page's run before this one
    environment.tailbreak_metrics = metrics = RunMetrics(options.metrics_port)
    session, url = new_session(options, environment.host)
    environment.host = url
    if isinstance(runner, MasterRunner):
        run: SoloRun | Conductor = Conductor(session, url, _MasterPost(runner))
    else:
        run = SoloRun(session, url, partial(fire_request, environment))
    environment.tailbreak = run
    metrics.start(session.run)
    metrics.watch("load", os.getpid())
    if PARENT_VARIABLE not in os.environ:
        environment.tailbreak_report = FinalReport(session.run)
    _set_user_count(environment, run.n_users)


def _set_user_count(environment: Any, n_users: int) -> None:
    """Our classes get the scenario's users, the others what was asked for beyond them."""
    options = environment.parsed_options
    ours = _ours(environment.user_classes)
    others = [each.__name__ for each in environment.user_classes if each not in ours]
    for number, each in enumerate(ours):
        each.fixed_count = len(range(number, n_users, len(ours)))
    typed = options.num_users
    if others and (typed or 0) <= n_users:
        logger.warning(
            "the scenario needs %d users; none is left for %s: ask for more than that (-u %d)",
            n_users, ", ".join(others), n_users + len(others),
        )  # fmt: skip
    elif not others and typed not in {None, n_users}:
        logger.warning("-u %d is not used: the scenario needs %d users", typed, n_users)
    options.num_users = max(typed or 0, n_users) if others else n_users
    options.spawn_rate = options.num_users


def _on_message(environment: Any, msg: Any, **_kwargs: Any) -> None:
    run: Run | None = environment.tailbreak
    if isinstance(run, Conductor):
        run.hear(msg.node_id, decode(msg.data))
    elif isinstance(run, LoadWorker):
        run.hear(decode(msg.data))


def _on_test_start(environment: Any, **_kwargs: Any) -> None:
    while not hasattr(environment, "tailbreak"):
        gevent.sleep(0.01)  # a worker may be told to spawn before Locust has let it initialise
    runner = environment.runner
    if isinstance(runner, WorkerRunner):
        report = partial(fire_request, environment)
        environment.tailbreak = LoadWorker(_WorkerPost(environment), report)
        return
    try:
        if environment.tailbreak is None or environment.tailbreak.is_begun:
            environment.tailbreak = None
            _open_run(environment)
    except TailbreakError as error:
        logger.error("%s", error)  # noqa: TRY400  the message is the whole story
        environment.process_exit_code = int(error.exit_code)
        gevent.spawn(_end_test, environment)
    else:
        gevent.spawn(_run_plan, environment, environment.tailbreak)


def _run_plan(environment: Any, run: SoloRun | Conductor) -> None:
    """Run the plan, then end the test, unless somebody else is ending it.

    When all workers are missing Locust stops the test, but a headless master would wait for ever.
    """
    run.run()
    if not run.is_stopped or run.state.lost or _has_no_workers(environment.runner):
        finish(run)
        _end_test(environment)


def _has_no_workers(runner: Any) -> bool:
    """Whether this is a master that nobody works for."""
    return isinstance(runner, MasterRunner) and runner.worker_count == 0


def _end_test(environment: Any) -> None:
    if environment.parsed_options.headless:
        environment.runner.quit()
    else:
        environment.runner.stop()


def _on_stopping(environment: Any, **_kwargs: Any) -> None:
    """Before Locust kills its users: let what is in flight finish, or be recorded as cancelled."""
    _stop(environment.tailbreak)


def _stop(run: Run | None) -> None:
    """Locust is ending this run."""
    if run is not None:
        run.is_stopped = True
        finish(run)


def _on_test_stop(environment: Any, **_kwargs: Any) -> None:
    """A run that the web page started is over: make its report; the page goes on being served."""
    environment.tailbreak_metrics.end()
    run = _led(environment)
    if run is not None and not environment.parsed_options.headless and _has_verdict(environment):
        sys.stderr.write(f"{run.state.summary}\n")
        gevent.spawn(environment.tailbreak_report.tell)


def _on_quitting(environment: Any, **_kwargs: Any) -> None:
    _stop(environment.tailbreak)
    environment.tailbreak_metrics.end()
    run = _led(environment)
    if run is None:
        return
    state = run.state
    sys.stderr.write(f"{state.summary}\n")
    environment.process_exit_code = int(state.exit_code)
    if run.is_begun and state.exit_code == ExitCode.INPUT_OR_SETUP:
        sys.stderr.write(f"what was recorded is kept: tailbreak report {state.session.run.path}\n")
    if _has_verdict(environment):
        environment.process_exit_code = environment.tailbreak_report.verdict().exit_code


def _tell_verdict(environment: Any, **_kwargs: Any) -> None:
    """Below Locust's own tables; the last values of its metrics are taken meanwhile."""
    if _has_verdict(environment):
        environment.tailbreak_report.tell()
    environment.tailbreak_metrics.wait()


def _has_verdict(environment: Any) -> bool:
    """Whether this process, and not `tailbreak run`, reports a run that has something to report."""
    run = _led(environment)
    if run is None or environment.tailbreak_report is None:
        return False
    return run.is_begun and run.state.exit_code != ExitCode.INPUT_OR_SETUP


def _led(environment: Any) -> SoloRun | Conductor | None:
    """The run, where this process leads it."""
    run = environment.tailbreak
    return run if isinstance(run, (SoloRun, Conductor)) else None


events.init_command_line_parser.add_listener(_on_parser)
events.init.add_listener(_on_init)
events.test_start.add_listener(_on_test_start)
events.test_stopping.add_listener(_on_stopping)
events.test_stop.add_listener(_on_test_stop)
