"""The engine's layers against the blocks whose weights they run, and matrices against float64."""

import pytest
import torch

from harness.server import matrix
from harness.server.checkpoint import load_model
from harness.server.decoder_layer import DecoderLayer, sign_halves
from harness.server.matrix import Matrix
from harness.server.model import rope_tables
from tests.unit.server.build import WEIGHTS


@pytest.mark.parametrize("worth_it", [0, 1 << 60], ids=["oneDNN", "torch"])
@pytest.mark.parametrize("n_rows", [1, 7, 40])
def test_a_matrix_is_the_product(
    n_rows: int, worth_it: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ways give the product to float32's rounding."""
    monkeypatch.setattr(matrix, "WORTH_IT", worth_it)
    random = torch.Generator().manual_seed(n_rows)
    weight = torch.randn((24, 192), generator=random)
    rows = torch.randn((n_rows, 192), generator=random)
    exact = rows.double() @ weight.double().T
    torch.testing.assert_close(Matrix(weight)(rows).double(), exact, rtol=1e-5, atol=1e-4)


def test_large_products_go_to_onednn_and_small_ones_do_not() -> None:
    """What ran is seen by the profiler; without oneDNN every product is torch's own."""
    weight = torch.ones(64, 64)
    rows = torch.ones(matrix.WORTH_IT // weight.numel(), 64)

    def names(rows: torch.Tensor) -> set[str]:
        product = Matrix(weight)
        with torch.profiler.profile() as profile, torch.inference_mode():
            product(rows)
        return {event.key for event in profile.key_averages()}

    has_onednn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    assert ("mkldnn::_linear_pointwise" in names(rows)) == has_onednn
    assert "mkldnn::_linear_pointwise" not in names(rows[1:])


@pytest.mark.parametrize("n_tokens", [1, 9, 130])
def test_a_layer_computes_what_its_block_does(n_tokens: int) -> None:
    """Queries, keys, values and both residual updates agree with the block's."""
    model = load_model(WEIGHTS)
    hidden = model.embed(torch.arange(n_tokens) + 300).detach()
    cos, sin = rope_tables(model.config, torch.arange(n_tokens) + 17)
    for block in model.blocks():
        layer = DecoderLayer(block)
        q, kv = layer.qkv(hidden, cos[:, None], sign_halves(sin)[:, None])
        for got, expected in zip((q, *kv.unbind(1)), block.qkv(hidden, cos, sin), strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
        attended = hidden + block.attention_output(q)
        torch.testing.assert_close(layer.add_attention(hidden.clone(), q), attended)
        after = attended + block.feed_forward(attended)
        torch.testing.assert_close(layer.add_feed_forward(attended.clone()), after)
        hidden = after.detach()


def test_a_block_keeps_views_of_the_joined_weights() -> None:
    """A change of the block's parameter is a change of the layer's matrix."""
    block = next(load_model(WEIGHTS).blocks())
    layer = DecoderLayer(block)
    hidden = torch.ones(1, block.config.width)
    cos, sin = torch.ones(1, 1, block.config.head_dim), torch.zeros(1, 1, block.config.head_dim)
    with torch.no_grad():
        block.self_attn.v_proj.weight.zero_()
        _, kv = layer.qkv(hidden, cos, sin)
    assert kv[:, 0].abs().max() > 0
    assert kv[:, 1].abs().max() == 0
