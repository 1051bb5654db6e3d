import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from harness.base.errors import SetupError
from harness.server.accel import slots_needed
from harness.server.api_error import ApiError
from harness.server.generation import Limits, build_segments, require_fit
from harness.server.options import ServerOptions
from harness.server.process import to_arguments
from harness.server.schemas import CompletionBody
from harness.server.sequence import Layout, Segment
from harness.server.timings import Timings, in_seconds

LIMITS = Limits(max_model_len=2048, kv_tokens=1000)


def answer(n_tokens: int) -> tuple[Segment, ...]:
    return (Segment(kind="content", n_tokens=n_tokens),)


@pytest.mark.parametrize(
    ("n_tokens", "features", "limits", "fits"),
    [
        (2048, (), Limits(max_model_len=2048, kv_tokens=2560), True),
        (2049, (), Limits(max_model_len=2048, kv_tokens=2560), False),
        (512, (), LIMITS, True),
        (513, (), LIMITS, False),  # doubles to 1024 slots
        (513, ("paged_kv",), LIMITS, True),
        (992, ("paged_kv",), LIMITS, True),
        (993, ("paged_kv",), LIMITS, False),  # 63 blocks of 16
    ],
)
def test_a_context_that_could_never_fit_is_refused(
    n_tokens: int, features: tuple[str, ...], limits: Limits, *, fits: bool
) -> None:
    """The model's length and the layout's rounding both count; the message has the numbers."""
    if fits:
        require_fit(n_tokens - 10, answer(10), features, limits)
        return
    with pytest.raises(ApiError, match=f"= {n_tokens} tokens") as caught:
        require_fit(n_tokens - 10, answer(10), features, limits)
    assert caught.value.param == "max_tokens"
    assert caught.value.code == "context_length_exceeded"


@pytest.mark.parametrize(
    ("layout", "n_tokens", "slots"),
    [
        ("contiguous", 1, 64),
        ("contiguous", 64, 64),
        ("contiguous", 65, 128),
        ("contiguous", 257, 512),
        ("paged", 1, 16),
        ("paged", 16, 16),
        ("paged", 257, 272),
        ("packed", 257, 272),
    ],
)
def test_slots_by_layout(layout: Layout, n_tokens: int, slots: int) -> None:
    """Contiguous capacities double from 64; paged ones round up to 16."""
    assert slots_needed(layout, n_tokens) == slots


def test_separators_stand_between_steps_and_before_the_answer() -> None:
    """Depth 2 forces `Step 2` after the first step and `Answer` after the second."""
    body = CompletionBody(prompt="x", cot_depth=2, cot_step_tokens=5)
    segments = build_segments(body, lambda text: [len(text)], default_tokens=16, room=100)
    assert [(part.kind, part.n_tokens, part.forced) for part in segments] == [
        ("reasoning", 5, (len("\nStep 2: "),)),
        ("reasoning", 5, (len("\nAnswer: "),)),
        ("content", 16, ()),
    ]
    cramped = build_segments(body, lambda text: [len(text)], default_tokens=16, room=20)
    assert cramped[-1].n_tokens == 8


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5"])
def test_a_network_host_needs_a_key(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only with a key, or with `--insecure`, is the server open to a network."""
    monkeypatch.setenv("SOME_KEY", "secret")
    monkeypatch.setenv("EMPTY_KEY", "")
    with pytest.raises(SetupError, match="--insecure"):
        ServerOptions(host=host).require_safe()
    with pytest.raises(SetupError, match="EMPTY_KEY"):
        ServerOptions(host=host, api_key_env="EMPTY_KEY").require_safe()
    assert ServerOptions(host=host, api_key_env="SOME_KEY").require_safe() == "secret"
    assert ServerOptions(host=host, insecure=True).require_safe() is None
    assert ServerOptions().require_safe() is None


def test_options_are_checked() -> None:
    """KV slots must be whole blocks, and an unknown option is an error."""
    for wrong in ({"kv_tokens": 100}, {"max_num_seqs": 0}, {"port": 70000}, {"colour": "red"}):
        with pytest.raises(ValidationError):
            ServerOptions.model_validate(wrong)


def test_command_line_carries_what_differs_from_the_defaults(tmp_path: Path) -> None:
    """Starting a server by options writes the options users would type, and no secret."""
    options = ServerOptions(port=0, kv_tokens=512, insecure=True, journal=tmp_path / "j")
    assert to_arguments(options) == [
        *("--port", "0"),
        *("--kv-tokens", "512"),
        *("--journal", str(tmp_path / "j")),
        "--insecure",
    ]


def test_starting_a_server_imports_no_torch() -> None:
    """`harness.server.process` stays small: the load side imports it."""
    code = (
        "import sys, harness.server.process\n"
        "print([name for name in ('torch', 'uvicorn', 'tokenizers') if name in sys.modules])"
    )
    root = Path(__file__).parents[3]
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_timings_name_what_they_leave_over() -> None:
    """`unattributed_s` is the wall time minus the sum of the phases."""
    timings = Timings(
        phases=in_seconds({"ffn": 600_000_000}, {"ffn": 100_000_000, "queue": 200_000_000}),
        ttft_phases={},
        wall_s=1.0,
        ttft_s=None,
        path="baseline",
        features=(),
        pool="cpu",
    )
    assert timings.to_json()["unattributed_s"] == pytest.approx(0.1)
    assert timings.server_timing == "queue;dur=200.000, ffn;dur=700.000"
