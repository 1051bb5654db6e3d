"""What a probe's findings mean for a scenario: what to set, what to expect; pure."""

from collections.abc import Iterator, Mapping

from harness.load.probe.figures import Stream
from harness.load.probe.result import Probe

AXES = ("temperature", "frequency_penalty", "presence_penalty", "repetition_penalty")
OMITTABLE = (*AXES, "top_p", "top_k", "min_p", "seed", "stream_options")
MANY = 0.05


def advise(probe: Probe) -> tuple[str, ...]:
    """Each line says what to set in the scenario, or what a number will not mean."""
    state = {parameter.name: parameter.state for parameter in probe.parameters}
    return (
        *_on_fields(probe.api, state),
        *_on_lengths(probe, state),
        *_on_stream(probe.stream),
        *_on_transport(probe),
    )


def _on_fields(api: str, state: Mapping[str, str]) -> Iterator[str]:
    if state.get("repeat_penalty") == "honoured":
        kind = api.replace("openai", "llamacpp")
        yield (
            f'target.api = "{kind}": the server knows repetition_penalty as repeat_penalty '
            "and ignores our name for it"
        )
    refused = [name for name in OMITTABLE if state.get(name) == "refused"]
    if refused:
        listed = ", ".join(f'"{name}"' for name in refused)
        yield f"target.omit = [{listed}]: the server refuses them"
    ignored = [
        name for name in AXES
        if state.get(name) == "ignored" and not _is_respelt(name, state)
    ]  # fmt: skip
    if ignored:
        yield f"no axis over {', '.join(ignored)}: ignored here, every cell would be the same"
    if state.get("temperature 0") != "honoured":
        yield "greedy answers differ from call to call: do not compare texts or lengths over paths"


def _is_respelt(name: str, state: Mapping[str, str]) -> bool:
    return name == "repetition_penalty" and state.get("repeat_penalty") == "honoured"


def _on_lengths(probe: Probe, state: Mapping[str, str]) -> Iterator[str]:
    if probe.prompt_lengths.state == "estimated":
        yield "prompt lengths are estimates; group by n_prompt_tokens, which usage states exactly"
    elif probe.prompt_lengths.state == "guessed":
        yield "nobody counts prompt tokens here: lengths are guesses and stay unchecked"
    if state.get("ignore_eos") in {"ignored", "refused"}:
        yield (
            "output.ignore_eos = false: the server does not honour it, so answers may be "
            "shorter than asked"
        )


def _on_stream(stream: Stream) -> Iterator[str]:
    if stream.count_source != "usage":
        yield "the stream carries no usage: a chunk counts as a token, TPOT and ITL may be wrong"
    if (stream.late_read_share or 0.0) > MANY:
        yield (
            f"{stream.late_read_share:.0%} of the chunks came together with others (a proxy, or "
            "several events in one write): their gaps are left out of ITL"
        )
    if stream.tokens_per_chunk is not None and stream.tokens_per_chunk > 1 + MANY:
        yield (
            f"{stream.tokens_per_chunk:.1f} tokens a chunk: ITL is a chunk's gap shared among "
            "its tokens"
        )


def _on_transport(probe: Probe) -> Iterator[str]:
    if probe.keeps_connections is False:
        yield (
            "the server closes each connection after its answer and does not say so: every "
            "request opens a new one, which is part of its TTFT"
        )
    if probe.stamps != "kernel":
        yield f"no receive stamps from the system ({probe.stamps_reason}): a late client shows"
