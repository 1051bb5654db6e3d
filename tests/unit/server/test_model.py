import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from harness.base.errors import RecordError
from harness.server.checkpoint import load_model, save_model
from harness.server.model import Block, Llama, causal_attention, rope_tables, rotate
from harness.server.model_config import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    ModelConfig,
    config_from_json,
    config_to_json,
    load_config,
)

ROOT = Path(__file__).parents[3]
SMALL = ModelConfig(
    vocab_size=50, width=24, n_layers=2, n_heads=6, n_kv_heads=2, head_dim=8, ffn_width=40
)


def small_model(config: ModelConfig = SMALL, seed: int = 0) -> Llama:
    """A model with seeded weights large enough for every part to matter."""
    model = Llama(config)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3, generator=draw)
    return model.requires_grad_(requires_grad=False).eval()


def seeded(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def tokens(length: int, seed: int = 2) -> Tensor:
    return torch.randint(50, (1, length), generator=torch.Generator().manual_seed(seed))


def stepwise_logits(model: Llama, ids: Tensor) -> Tensor:
    """Token by token with a key/value list, through the pieces an engine uses."""
    caches: list[list[tuple[Tensor, Tensor]]] = [[] for _ in range(model.config.n_layers)]
    rows = []
    for position, token in enumerate(ids):
        cos, sin = rope_tables(model.config, torch.tensor([position]))
        hidden = model.embed(token[None])
        for block, cache in zip(model.blocks(), caches, strict=True):
            q, k, v = block.qkv(hidden, cos, sin)
            cache.append((k[0], v[0]))
            hidden = hidden + block.attention_output(attend_one(q[0], cache)[None])
            hidden = hidden + block.feed_forward(hidden)
        rows.append(model.logits(hidden))
    return torch.cat(rows)


def attend_one(q: Tensor, cache: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Grouped-query attention of one token, in loops over heads and cached tokens."""
    n_groups = q.shape[0] // cache[0][0].shape[0]
    out = torch.zeros_like(q)
    for head in range(q.shape[0]):
        group = head // n_groups
        scores = [float(q[head] @ k[group]) / math.sqrt(q.shape[1]) for k, _ in cache]
        top = max(scores)
        weights = [math.exp(score - top) for score in scores]
        for weight, (_, v) in zip(weights, cache, strict=True):
            out[head] += weight / sum(weights) * v[group]
    return out


def test_forward_is_causal() -> None:
    """Changing a token leaves the logits of every earlier position as they were."""
    model, ids = small_model(), tokens(12)
    changed = ids.clone()
    changed[0, 7] = (ids[0, 7] + 1) % 50
    before, after = model(ids), model(changed)
    torch.testing.assert_close(before[:, :7], after[:, :7])
    assert (before[:, 7:] - after[:, 7:]).abs().amax(dim=-1).min() > 1e-3


def test_every_later_position_sees_the_first_token() -> None:
    """Changing the first token changes the logits of every position."""
    model, ids = small_model(), tokens(12)
    changed = ids.clone()
    changed[0, 0] = (ids[0, 0] + 1) % 50
    assert (model(ids) - model(changed)).abs().amax(dim=-1).min() > 1e-4


def test_pieces_token_by_token_equal_the_full_forward() -> None:
    """An engine that keeps keys and values and attends in naive loops gets the oracle's logits."""
    model, ids = small_model(), tokens(9)
    torch.testing.assert_close(stepwise_logits(model, ids[0]), model(ids)[0], atol=1e-4, rtol=1e-4)


def test_batch_rows_do_not_mix() -> None:
    """A sequence's logits do not depend on the other rows of its batch."""
    model = small_model()
    first, second = tokens(6, seed=3), tokens(6, seed=4)
    together = model(torch.cat((first, second)))
    torch.testing.assert_close(together[:1], model(first), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(together[1:], model(second), atol=1e-5, rtol=1e-5)


def test_grouped_attention_equals_the_loop() -> None:
    """Query head h reads key/value head h // n_groups, softmax over what came before."""
    q, k, v = seeded(1, 5, 6, 8), seeded(1, 5, 2, 8, seed=5), seeded(1, 5, 2, 8, seed=6)
    got = causal_attention(q, k, v)
    for position in range(5):
        cache = [(k[0, i], v[0, i]) for i in range(position + 1)]
        torch.testing.assert_close(got[0, position], attend_one(q[0, position], cache))


def test_rope_scores_depend_on_the_distance_only() -> None:
    """Shifting query and key by the same number of positions keeps their product."""
    q, k = seeded(1, 1, 8), seeded(1, 1, 8, seed=7)

    def score(at_q: int, at_k: int) -> float:
        q_turned = rotate(q, *rope_tables(SMALL, torch.tensor([at_q])))
        k_turned = rotate(k, *rope_tables(SMALL, torch.tensor([at_k])))
        return float((q_turned * k_turned).sum())

    assert score(3, 1) == pytest.approx(score(103, 101), abs=1e-4)
    assert score(3, 1) != pytest.approx(score(3, 2), abs=1e-3)


def test_rope_matches_complex_rotation() -> None:
    """The pair (i, i + head_dim/2) turns by position / theta^(2i/head_dim)."""
    heads, position = seeded(1, 1, 8), 5
    got = rotate(heads, *rope_tables(SMALL, torch.tensor([position])))[0, 0]
    for i in range(4):
        angle = position / SMALL.rope_theta ** (2 * i / 8)
        turned = complex(heads[0, 0, i], heads[0, 0, i + 4]) * complex(
            math.cos(angle), math.sin(angle)
        )
        assert float(got[i]) == pytest.approx(turned.real, abs=1e-5)
        assert float(got[i + 4]) == pytest.approx(turned.imag, abs=1e-5)


def test_position_zero_is_not_turned() -> None:
    """At position 0 the rotation is the identity."""
    heads = seeded(1, 2, 8)
    torch.testing.assert_close(rotate(heads, *rope_tables(SMALL, torch.tensor([0]))), heads)


def test_logits_are_float32_in_bfloat16() -> None:
    """A bfloat16 model still hands float32 logits to sampling."""
    assert small_model().to(torch.bfloat16)(tokens(3)).dtype == torch.float32


def test_default_model_has_the_stated_size() -> None:
    """The default configuration has 2,361,024 parameters and 2 KiB of float32 KV per token."""
    model = Llama(ModelConfig())
    assert sum(p.numel() for p in model.parameters()) == 2_361_024
    assert model.config.kv_bytes_per_token(4) == 2 * 4 * 2 * 32 * 4


def test_state_dict_has_the_hugging_face_names() -> None:
    """Parameter names are those of a Hugging Face Llama checkpoint with tied embeddings."""
    layer = {
        f"model.layers.0.{name}.weight"
        for name in (
            *(f"self_attn.{p}_proj" for p in "qkvo"),
            *(f"mlp.{p}_proj" for p in ("gate", "up", "down")),
            "input_layernorm",
            "post_attention_layernorm",
        )
    }
    outer = {"model.embed_tokens.weight", "model.norm.weight"}
    one_layer = Llama(ModelConfig(vocab_size=8, n_layers=1))
    assert set(one_layer.state_dict()) == layer | outer


def test_layers_are_blocks() -> None:
    """`layers` holds one `Block` per layer, in order."""
    model = small_model()
    assert [type(layer) for layer in model.layers] == [Block, Block]
    assert list(model.blocks()) == list(model.layers)


@pytest.mark.parametrize("tied", [True, False])
def test_save_and_load_round_trip(tmp_path: Path, *, tied: bool) -> None:
    """What is loaded is the saved model rounded to bfloat16, with the same configuration."""
    config = ModelConfig(**(vars(SMALL) | {"tied": tied}))
    model = small_model(config)
    save_model(model, tmp_path)
    loaded = load_model(tmp_path)
    assert loaded.config == config
    for name, value in model.state_dict().items():
        rounded = value.to(torch.bfloat16).to(torch.float32)
        assert torch.equal(loaded.state_dict()[name], rounded), name
    assert not any(parameter.requires_grad for parameter in loaded.parameters())


def test_save_after_load_writes_the_same_bytes(tmp_path: Path) -> None:
    """Saving a loaded model reproduces its file, and leaves no partial file behind."""
    save_model(small_model(), tmp_path / "a")
    save_model(load_model(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "a" / WEIGHTS_FILE).read_bytes() == (
        tmp_path / "b" / WEIGHTS_FILE
    ).read_bytes()
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == [CONFIG_FILE, WEIGHTS_FILE]


def test_load_in_bfloat16(tmp_path: Path) -> None:
    """The dtype asked for is the dtype of every parameter."""
    save_model(small_model(), tmp_path)
    loaded = load_model(tmp_path, torch.bfloat16)
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.bfloat16}


def test_empty_folder_names_what_is_missing(tmp_path: Path) -> None:
    """A folder without a model gives an error that names it and what it should hold."""
    with pytest.raises(RecordError, match=r"no config\.json there.*tokenizer\.json") as caught:
        load_model(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_missing_weights_say_how_to_retrain(tmp_path: Path) -> None:
    """A folder with a configuration but no weights says how to get them."""
    save_model(small_model(), tmp_path)
    (tmp_path / WEIGHTS_FILE).unlink()
    with pytest.raises(RecordError, match=r"no model\.safetensors there.*training\.train"):
        load_model(tmp_path)


@pytest.mark.parametrize("keep", [0, 4, 100, -10])
def test_truncated_weights_are_refused(tmp_path: Path, keep: int) -> None:
    """Weights cut anywhere are reported as damaged, with their path."""
    save_model(small_model(), tmp_path)
    file = tmp_path / WEIGHTS_FILE
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(RecordError, match=r"model\.safetensors: damaged weights"):
        load_model(tmp_path)


def test_foreign_weights_are_refused(tmp_path: Path) -> None:
    """Weights of another shape than the configuration's are refused, naming a tensor."""
    save_model(small_model(), tmp_path)
    raw = json.loads((tmp_path / CONFIG_FILE).read_text())
    (tmp_path / CONFIG_FILE).write_text(json.dumps(raw | {"intermediate_size": 48}))
    with pytest.raises(RecordError, match=r"do not fit.*gate_proj.*\(40, 24\).*\(48, 24\)"):
        load_model(tmp_path)


def test_missing_layer_is_refused(tmp_path: Path) -> None:
    """Weights with fewer layers than the configuration's are refused as missing."""
    save_model(small_model(), tmp_path)
    raw = json.loads((tmp_path / CONFIG_FILE).read_text())
    (tmp_path / CONFIG_FILE).write_text(json.dumps(raw | {"num_hidden_layers": 3}))
    with pytest.raises(RecordError, match=r"missing model\.layers\.2"):
        load_model(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[1]", "\udcff"])
def test_broken_config_is_refused(tmp_path: Path, text: str) -> None:
    """A configuration that is no JSON object is refused with its path."""
    (tmp_path / CONFIG_FILE).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(RecordError, match=r"config\.json"):
        load_config(tmp_path)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model_type": "mamba"}, "model_type"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"attention_bias": True}, "attention_bias"),
        ({"rope_scaling": {"rope_type": "llama3"}}, "llama3"),
        ({"hidden_size": "wide"}, "hidden_size"),
        ({"num_key_value_heads": 4}, "must divide"),
    ],
)
def test_models_of_another_arithmetic_are_refused(change: dict[str, object], named: str) -> None:
    """A setting this implementation does not compute is refused by name, not ignored."""
    with pytest.raises(RecordError, match=named):
        config_from_json(config_to_json(SMALL) | change, "config.json")


def test_missing_config_keys_are_listed_together() -> None:
    """Every missing key is named in one message."""
    with pytest.raises(RecordError, match="vocab_size, hidden_size"):
        config_from_json({"model_type": "llama"}, "config.json")


def test_config_survives_its_json() -> None:
    """Writing a configuration and reading it back changes nothing."""
    assert config_from_json(config_to_json(SMALL), "config.json") == SMALL


def test_absent_head_dim_follows_from_the_width() -> None:
    """A null head_dim means width / heads, and of several stop ids the first is taken."""
    raw = config_to_json(ModelConfig()) | {"head_dim": None, "eos_token_id": [7, 8]}
    config = config_from_json(raw, "config.json")
    assert config.head_dim == 32
    assert config.eos_id == 7


def test_loading_imports_no_compiler() -> None:
    """A model is loaded without torch's compiler, which would take seconds at every start."""
    code = (
        "import sys, torch; from harness.server.checkpoint import load_model; "
        "from harness.server.options import WEIGHTS_FOLDER; "
        "model = load_model(WEIGHTS_FOLDER / 'tiny'); "
        "assert torch.nn.Linear(8, 8).weight.abs().sum() > 0; "
        "print('torch._dynamo' in sys.modules or 'sympy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "False\n"
