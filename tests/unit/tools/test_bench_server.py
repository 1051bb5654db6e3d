"""The bench of the server: what it compares with is right, and small comparisons run through."""

import math
import socket

import pytest
import torch

from harness.server.matrix import Matrix
from tests.unit.server import build
from tools.bench_server.bare_model import BareModel, plain
from tools.bench_server.decode import compare_decode, compare_penalties
from tools.bench_server.effort import Effort
from tools.bench_server.event_streams import Stream
from tools.bench_server.prefill import compare_prefill
from tools.bench_server.ratio import ratio, time_in_turns
from tools.bench_server.stream import compare_streams
from tools.bench_server.table import Table

SMALL = Effort(n_blocks=1, n_steps=2, n_stream_tokens=32)


@pytest.mark.parametrize("prepare", [plain, Matrix])
def test_the_bare_model_is_the_model(prepare: type[Matrix]) -> None:
    """It writes the tokens that the full causal pass finds likeliest, whatever it multiplies by."""
    prompts = [build.prompt(20, salt=salt) for salt in range(3)]
    bare = BareModel(build.model(), prepare, n_seqs=3, longest=30)
    with torch.inference_mode():
        token_ids = bare.run(torch.tensor(prompts))
        written = [token_ids]
        for _ in range(6):
            token_ids = bare.run(token_ids[:, None])
            written.append(token_ids)
    for prompt, output in zip(prompts, torch.stack(written, dim=1).tolist(), strict=True):
        with torch.no_grad():
            logits = build.model()(torch.tensor([prompt + output]))[0, len(prompt) - 1 : -1]
        assert logits.argmax(dim=-1).tolist() == output


def test_contenders_take_turns_and_ratios_are_within_a_block() -> None:
    """The order turns around from block to block; a slow block slows both sides and cancels."""
    order: list[str] = []

    def contender(name: str, factor: float) -> float:
        order.append(name)
        return factor * (1 + (len(order) - 1) // 2)

    times = time_in_turns(
        {"a": lambda: contender("a", 1.0), "b": lambda: contender("b", 3.0)}, n_blocks=6
    )
    assert "".join(order) == "ba" + "abba" * 3
    assert ratio(times["b"], times["a"]) == (3.0, 3.0, 3.0, 6)


def test_an_event_that_a_read_cuts_in_two_counts_once() -> None:
    """However the bytes arrive, every event is one."""
    data = b'data: {"a": 1}\n\n' * 3 + b"data: [DONE]\n\n"
    for cut in range(1, len(data)):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            stream = Stream(ours)
            theirs.sendall(data[:cut])
            is_open = stream.read()
            theirs.sendall(data[cut:])
            if is_open:
                assert not stream.read()
            assert stream.n_events == 3


def test_small_comparisons_give_positive_figures_and_ratios() -> None:
    """Engines, penalties, first tokens and streams of a real server, once each, both paths."""
    tables: list[Table] = [
        compare_decode(build.model(), (2,), (16,), SMALL),
        compare_penalties(build.model(), (1,), 16, SMALL),
        compare_prefill(build.model(), (16,), SMALL),
        compare_streams(build.model(), (2,), SMALL),
    ]
    for table in tables:
        assert {row[table.columns.index("path")] for row in table.rows} == {
            "baseline",
            "accelerated",
        }
        for cells in table.to_json()["rows"]:
            figures = [cell for cell in cells.values() if isinstance(cell, float)]
            figures += [cell["value"] for cell in cells.values() if isinstance(cell, dict)]
            assert figures
            assert all(figure > 0 and math.isfinite(figure) for figure in figures)
