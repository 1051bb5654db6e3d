"""What Locust's page offers for a run, and what it refuses."""

import logging
from collections.abc import Callable
from typing import Any

from harness.base.errors import SetupError, TailbreakError
from harness.load.dispatcher import n_users_needed
from harness.load.locust_options import check_form
from harness.plan.build import build_plan

logger = logging.getLogger("tailbreak")


def fill_form(environment: Any) -> None:
    """Offer the first run's target and users.

    Raises:
        TailbreakError: the scenario is not valid, or its target does not answer.
    """
    options = environment.parsed_options
    scenario, environment.host = check_form(options, environment.host)
    if options.num_users is None:
        options.num_users = n_users_needed(build_plan(scenario), scenario.load.users)
        options.spawn_rate = options.spawn_rate or options.num_users


def answer_refusal(environment: Any, is_on: Callable[[], bool]) -> Any:
    """Before Locust serves a request: an answer in its own form to a start that cannot be."""
    from flask import jsonify, request  # noqa: PLC0415  Locust's own, there when there is a page

    if request.method != "POST" or not request.path.endswith("/swarm"):
        return None
    try:
        if is_on():
            raise SetupError("a run is going on; stop it, then start another")
        check_form(environment.parsed_options, environment.host, request.form)
    except TailbreakError as error:
        logger.error("%s", error)  # noqa: TRY400  the message is the whole story
        return jsonify({"success": False, "message": str(error), "host": environment.host})
    return None
