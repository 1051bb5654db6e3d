"""The models that a target lists, and the choice where nobody named one."""

from typing import Any

from harness.base.errors import SetupError
from harness.load.client.exchange import bounded
from harness.load.client.plain_http import PlainHttp, Reply

TIMEOUT_S = 10.0
MAX_SHOWN = 50


def listed_models(models: Any) -> tuple[str, ...]:
    """Ids in the answer of `/v1/models`."""
    entries = models.get("data") if isinstance(models, dict) else None
    return tuple(
        entry["id"]
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict) and isinstance(entry.get("id"), str)
    )


def only_model(url: str, reply: Reply) -> str:
    """The one model that this answer of `/v1/models` lists.

    Raises:
        SetupError: none or several; the message lists the choices.
    """
    models = listed_models(reply.json())
    if len(models) == 1:
        return models[0]
    if models:
        listed = "\n".join(f"  {bounded(model)}" for model in models[:MAX_SHOWN])
        raise SetupError(f"{url} serves several models; choose one with --model:\n{listed}")
    if reply.status in {401, 403}:
        raise SetupError(
            f"{url}: /v1/models answered {reply.status}: {reply.shown()}; name the variable that "
            "holds the key (--api-key-env, or target.api_key_env in a scenario)"
        )
    raise SetupError(
        f"{url}: /v1/models answered {reply.status} and lists no model; name one with --model "
        "(is this an OpenAI-compatible server, and is the address right?)"
    )


def ask_only_model(url: str, api_key: str | None) -> str:
    """The one model that the target serves.

    Raises:
        SetupError: nothing answers, or none or several are listed.
    """
    http = PlainHttp(url, api_key, timeout_s=TIMEOUT_S)
    try:
        return only_model(url, http.get("/v1/models"))
    finally:
        http.close()
