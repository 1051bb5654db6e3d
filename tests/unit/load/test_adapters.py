"""What each adapter sends: the fields a server knows, under the names it knows them by."""

import json
from typing import Any, get_args

import pytest

from harness.load.client.adapter import Ask
from harness.load.client.adapters import NAMES, build_adapter
from harness.scenario.schema import Api, OmittableField, Sampling

SAMPLING = Sampling(repetition_penalty=1.3, temperature=0.5).model_dump()


def body(api: str, *omit: str) -> dict[str, Any]:
    """The JSON body of a request with every sampling field."""
    request = build_adapter(api, omit).request(
        Ask(model="m", prompt="p", max_tokens=3, sampling=SAMPLING, seed=5, ignore_eos=True)
    )
    value: dict[str, Any] = json.loads(request.body)
    return value


def test_scenario_and_client_know_the_same_names() -> None:
    """Every `target.api` has its adapter, every sampling field can be left out."""
    assert set(NAMES) == set(get_args(Api))
    assert set(get_args(OmittableField)) == {*Sampling.model_fields, "seed", "stream_options"}


@pytest.mark.parametrize("api", NAMES)
def test_every_sampling_value_is_sent_under_one_name(api: str) -> None:
    """Nothing is left to a server's default; llama.cpp gets its own spelling and window."""
    sent = body(api)
    is_llama = api.startswith("llamacpp")
    name = "repeat_penalty" if is_llama else "repetition_penalty"
    assert sent[name] == 1.3
    assert ("repeat_last_n" in sent, "repetition_penalty" in sent) == (is_llama, not is_llama)
    assert sent["top_k"] == 0
    assert sent["temperature"] == 0.5
    assert sent["stream_options"] == {"include_usage": True}
    assert ("messages" in sent) == api.endswith("chat") == build_adapter(api).is_chat


@pytest.mark.parametrize("api", NAMES)
def test_what_a_target_refuses_is_left_out(api: str) -> None:
    """`target.omit` takes fields out and leaves the others alone."""
    sent = body(api, "top_k", "repetition_penalty", "seed", "stream_options")
    left_out = {"top_k", "repetition_penalty", "repeat_penalty", "seed", "stream_options"}
    assert not left_out & set(sent)
    assert sent["min_p"] == 0.0
