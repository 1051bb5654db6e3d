import json
import math
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from harness.base.errors import SetupError
from harness.server.checkpoint import load_model
from harness.server.model import Llama
from harness.server.model_config import ModelConfig
from harness.server.tokenizer import SPECIAL_TOKENS, TextTokenizer
from harness.server.training import corpus
from harness.server.training.card import build_card, generate
from harness.server.training.corpus import Document, build_corpus
from harness.server.training.held_out import bits_per_byte, window_nats
from harness.server.training.token_stream import (
    TokenStream,
    build_stream,
    draw_batch,
    encode_document,
    train_tokenizer,
)
from harness.server.training.train import (
    FINAL_SHARE,
    PEAK_RATE,
    Progress,
    batch_loss,
    build_optimizer,
    init_parameters,
    learning_rate,
    load_checkpoint,
    read_options,
    save_checkpoint,
    take_step,
)

ROOT = Path(__file__).parents[3]
TINY = ROOT / "harness" / "server" / "weights" / "tiny"
PROSE = ROOT / "harness" / "plan" / "text" / "prose.txt"

# From Emma, chapter 27 (Jane Austen, 1815; public domain), a chapter held out of training.
HELD_OUT = """\
Emma did not repent her condescension in going to the Coles. The visit afforded her many pleasant \
recollections the next day; and all that she might be supposed to have lost on the side of \
dignified seclusion, must be amply repaid in the splendour of popularity. She must have delighted \
the Coles--worthy people, who deserved to be made happy!--And left a name behind her that would \
not soon die away.

Perfect happiness, even in memory, is not common; and there were two points on which she was not \
quite easy. She doubted whether she had not transgressed the duty of woman by woman, in betraying \
her suspicions of Jane Fairfax's feelings to Frank Churchill. It was hardly right; but it had been \
so strong an idea, that it would escape her, and his submission to all that she told, was a \
compliment to her penetration, which made it difficult for her to be quite certain that she ought \
to have held her tongue.
"""


# ---- the shipped weights ----------------------------------------------------------------------


def unigram_bits_per_byte(tokenizer: TextTokenizer, ids: list[int]) -> float:
    """What knowing only how frequent each token is would give, add-one smoothed."""
    counts = Counter(tokenizer.encode(PROSE.read_text(encoding="utf-8")))
    total = sum(counts.values()) + tokenizer.vocab_size
    bits = -sum(math.log2((counts[token] + 1) / total) for token in ids)
    return bits / sum(len(tokenizer.token_bytes(token)) for token in ids)


def test_shipped_weights_learned_english() -> None:
    """On a held-out page the model needs under 2/3 of what token frequencies alone need."""
    tokenizer, model = TextTokenizer.load(TINY), load_model(TINY)
    ids = tokenizer.encode(HELD_OUT)
    model_bits = bits_per_byte(model, tokenizer, np.array([tokenizer.bos_id, *ids]))
    assert unigram_bits_per_byte(tokenizer, ids) > 2.2
    assert model_bits < 1.5


def test_shipped_weights_know_how_to_end_a_turn() -> None:
    """Spoken to in the chat template, the model ends most answers by itself."""
    tokenizer, model = TextTokenizer.load(TINY), load_model(TINY)
    prompt = [
        tokenizer.bos_id,
        tokenizer.user_id,
        *tokenizer.encode("And God said,"),
        tokenizer.end_id,
        tokenizer.assistant_id,
    ]
    ended = [
        tokenizer.end_id in generate(model, prompt, n=150, temperature=0.8, seed=seed)
        for seed in range(6)
    ]
    assert sum(ended) >= 5


def test_shipped_folder_is_complete_and_small() -> None:
    """The folder holds weights, tokenizer, configuration, card and samples in under 20 MB."""
    names = {path.name for path in TINY.iterdir()}
    assert {
        "model.safetensors",
        "tokenizer.json",
        "config.json",
        "training.json",
        "MODEL_CARD.md",
        "samples.md",
    } <= names
    assert sum(path.stat().st_size for path in TINY.iterdir()) < 20e6


def test_shipped_configuration_fits_its_tokenizer() -> None:
    """Vocabulary and special ids agree between the model and its tokenizer."""
    tokenizer, config = TextTokenizer.load(TINY), load_model(TINY).config
    assert config == ModelConfig()
    assert tokenizer.vocab_size == config.vocab_size
    assert (tokenizer.bos_id, tokenizer.eos_id) == (config.bos_id, config.eos_id)


def test_card_is_built_from_the_shipped_report() -> None:
    """The card says what the training report says: no number is typed by hand."""
    report = json.loads((TINY / "training.json").read_text(encoding="utf-8"))
    card = (TINY / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert card == build_card(report)
    assert f"**{report['held_out_bits_per_byte']['all']:.3f}**" in card


def test_prompt_text_is_there() -> None:
    """The prompt text is about 400 kB of ASCII prose in whole paragraphs, with its sources."""
    text = PROSE.read_text(encoding="ascii")
    assert 380_000 < len(text) < 450_000
    paragraphs = text.strip().split("\n\n")
    assert len(paragraphs) > 1000
    assert not any("\n" in paragraph or paragraph != paragraph.strip() for paragraph in paragraphs)
    assert "public domain" in (PROSE.parent / "SOURCES.md").read_text(encoding="utf-8")


# ---- the corpus -------------------------------------------------------------------------------


def r_record(strings: list[str]) -> bytes:
    """One record of an R lazy-load data base, as R writes a character vector."""
    body = b"X\n" + struct.pack(">iii", 3, 0x040201, 0x030500) + struct.pack(">i", 5) + b"UTF-8"
    body += struct.pack(">ii", 16, len(strings))
    for string in strings:
        data = string.encode()
        body += struct.pack(">ii", 0x00040009, len(data)) + data
    return struct.pack(">I", len(body)) + zlib.compress(body)


def test_novels_are_read_from_the_r_data_base(tmp_path: Path) -> None:
    """Chapters are cut at their headings and unwrapped; title pages and volumes are dropped."""
    lines = ["EMMA", "", "VOLUME I", "", "CHAPTER I", "", "Emma was _clever_", "and rich.", ""]
    lines += ["She was.", "", "VOLUME II", "CHAPTER I", "", "Later."]
    file = tmp_path / corpus.AUSTEN_FILE
    file.parent.mkdir(parents=True)
    file.write_bytes(r_record(lines) + r_record(["SANDITON", "", "Chapter 1", "", "Sea."]))
    assert corpus.read_austen(tmp_path) == [
        ("Emma, Chapter 1", "Emma was clever and rich.\n\nShe was."),
        ("Emma, Chapter 2", "Later."),
        ("Sanditon, Chapter 1", "Sea."),
    ]


def test_bible_chapters_lose_their_verse_numbers() -> None:
    """Headings part chapters, verses are unwrapped and joined five to a paragraph."""
    verses = "".join(f"  {n} Verse {n}\ngoes on.\n" for n in range(1, 7))
    printed = f"\nGenesis 1\n\n{verses}\n1 Samuel 2\n\n  1 And Hannah prayed.\n"
    chapters = list(corpus._bible_chapters(printed))
    assert [title for title, _ in chapters] == ["Genesis 1", "1 Samuel 2"]
    first, second = chapters[0][1].split("\n\n")
    assert first.startswith("Verse 1 goes on. Verse 2 goes on.")
    assert second == "Verse 6 goes on."
    assert chapters[1][1] == "And Hannah prayed."


def test_jargon_entries_are_dedented_and_unbraced() -> None:
    """Cross-references lose their braces, also where a line break fell inside."""
    body = " //, n.\n\n    See also: {spam}, {\n    big\n    win}.\n"
    assert corpus._jargon_body(body) == "n.\n\nSee also: spam, big win."


def test_missing_packages_are_all_named_with_both_remedies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the packages the error lists all four and how to install or unpack them."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError) as caught:
        build_corpus(tmp_path, seed=0)
    for words in ("bible-kjv r-cran-janeaustenr dict-devil dict-jargon", "apt-get", "dpkg-deb -x"):
        assert words in str(caught.value)


def test_dialogue_keeps_the_text_and_alternates() -> None:
    """Turns come in pairs, abbreviations do not end a sentence, order is kept."""
    text = "Mr. Elton came. " + " ".join(f"Sentence {n}." for n in range(40))
    turns = corpus._dialogue(text, np.random.default_rng(0))
    assert len(turns) % 2 == 0
    assert turns[0].startswith("Mr. Elton came.")
    assert text.startswith(" ".join(turns))


def test_the_split_depends_on_the_document_only() -> None:
    """About 1 document in 40 is held out, the same ones whatever else is in the corpus."""
    splits = [Document(source="s", title=str(n), turns=("x",)).split for n in range(4000)]
    assert 60 < splits.count("held_out") < 140
    assert splits[7] == Document(source="s", title="7", turns=("other", "text")).split


# ---- the run ----------------------------------------------------------------------------------

DOCUMENTS = [
    Document(source="s", title=str(n), turns=(f"The {n} hens sat on {n} eggs. " * 30,))
    for n in range(60)
]
SMALL = ModelConfig(
    vocab_size=300, width=16, n_layers=1, n_heads=2, n_kv_heads=1, head_dim=8, ffn_width=32
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small matrices lose more to a second thread than they gain, above all on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tokenizer() -> TextTokenizer:
    return train_tokenizer((document.turns[0] for document in DOCUMENTS), SMALL.vocab_size)


@pytest.fixture(scope="module")
def stream(tokenizer: TextTokenizer) -> TokenStream:
    return build_stream(tokenizer, DOCUMENTS, seed=0)


def fresh(seed: int = 0) -> tuple[Llama, torch.optim.AdamW]:
    model = Llama(SMALL)
    init_parameters(model, seed)
    return model, build_optimizer(model)


def train_some(
    model: Llama, optimizer: torch.optim.AdamW, stream: TokenStream, steps: range
) -> list[float]:
    return [
        take_step(model, optimizer, draw_batch(stream, 0, step)[:, :65], 0.01, bf16=False)
        for step in steps
    ]


def test_conversations_are_framed_like_the_chat_template(tokenizer: TextTokenizer) -> None:
    """A training conversation starts with exactly what the server will send for its first turn."""
    document = Document(source="s", title="t", turns=("The hens", "sat on eggs."))
    ids = encode_document(tokenizer, document)
    asked = [tokenizer.bos_id, tokenizer.user_id, *tokenizer.encode("The hens"), tokenizer.end_id]
    assert ids[: len(asked) + 1] == [*asked, tokenizer.assistant_id]
    assert ids[-2:] == [tokenizer.end_id, tokenizer.eos_id]


def test_special_tokens_take_the_first_ids(tokenizer: TextTokenizer) -> None:
    """A newly trained tokenizer gives the special tokens ids 0 to 4, in their order."""
    found = [tokenizer._tokenizer.token_to_id(name) for name in SPECIAL_TOKENS]
    assert found == [0, 1, 2, 3, 4]


def test_batches_depend_on_seed_and_step_only(stream: TokenStream) -> None:
    """The same step draws the same windows; another step or seed draws others."""
    assert torch.equal(draw_batch(stream, 0, 5), draw_batch(stream, 0, 5))
    assert not torch.equal(draw_batch(stream, 0, 5), draw_batch(stream, 0, 6))
    assert not torch.equal(draw_batch(stream, 0, 5), draw_batch(stream, 1, 5))


def test_every_fourth_batch_is_long(stream: TokenStream) -> None:
    """Batches hold 4096 predicted tokens in windows of 512, every fourth in windows of 1024."""
    shapes = [tuple(draw_batch(stream, 0, step).shape) for step in range(5)]
    assert shapes == [(4, 1025), (8, 513), (8, 513), (8, 513), (4, 1025)]


def test_some_windows_begin_with_a_document(stream: TokenStream, tokenizer: TextTokenizer) -> None:
    """Windows are moved to a document's first token far more often than chance would."""
    firsts = torch.cat([draw_batch(stream, 0, step)[:, 0] for step in range(1, 40, 2)])
    assert 0.2 < float((firsts == tokenizer.bos_id).float().mean()) < 0.45


def test_learning_rate_warms_up_and_decays() -> None:
    """The rate rises linearly, peaks, and ends at its final share."""
    assert learning_rate(0, 0.0) == pytest.approx(PEAK_RATE / 100)
    assert learning_rate(99, 0.0) == pytest.approx(PEAK_RATE)
    assert learning_rate(1000, 0.5) == pytest.approx(PEAK_RATE * (1 + FINAL_SHARE) / 2)
    assert learning_rate(1000, 1.0) == pytest.approx(PEAK_RATE * FINAL_SHARE)


def test_training_lowers_the_loss(stream: TokenStream) -> None:
    """Thirty steps on a small text cut the loss by half or more."""
    losses = train_some(*fresh(), stream, range(30))
    assert losses[0] == pytest.approx(math.log(SMALL.vocab_size), rel=0.05)
    assert losses[-1] < losses[0] / 2


def test_resumed_training_continues_exactly(tmp_path: Path, stream: TokenStream) -> None:
    """Stopping after a checkpoint and resuming gives bit for bit the uninterrupted weights."""
    whole, whole_optimizer = fresh()
    train_some(whole, whole_optimizer, stream, range(6))
    first, first_optimizer = fresh()
    train_some(first, first_optimizer, stream, range(3))
    done = Progress(step=3, tokens=12288, seconds=1.5, curve=[{"step": 3.0}])
    save_checkpoint(tmp_path, first, first_optimizer, done)
    second, second_optimizer = fresh(seed=9)
    assert load_checkpoint(tmp_path, second, second_optimizer) == done
    train_some(second, second_optimizer, stream, range(3, 6))
    for name, value in whole.state_dict().items():
        assert torch.equal(second.state_dict()[name], value), name


def test_bits_per_byte_of_a_uniform_model(tokenizer: TextTokenizer, stream: TokenStream) -> None:
    """A model that knows nothing needs log2(vocabulary) bits a token, spread over its bytes."""
    model = Llama(SMALL)
    torch.nn.init.zeros_(model.model.embed_tokens.weight)
    ids = stream.ids[:1300]
    n_bytes = sum(len(tokenizer.token_bytes(int(token))) for token in ids[1:])
    expected = (len(ids) - 1) * math.log2(SMALL.vocab_size) / n_bytes
    assert bits_per_byte(model, tokenizer, ids) == pytest.approx(expected, rel=1e-5)


def test_window_nats_sum_to_the_same_bits(tokenizer: TextTokenizer, stream: TokenStream) -> None:
    """Loss by position, summed, is the information that bits per byte counts."""
    model, _ = fresh()
    ids = stream.ids[:1025]
    nats = window_nats(model, ids, 512)
    assert nats.shape == (2, 512)
    n_bytes = sum(len(tokenizer.token_bytes(int(token))) for token in ids[1:])
    bits = float(nats.sum()) / math.log(2) / n_bytes
    assert bits == pytest.approx(bits_per_byte(model, tokenizer, ids), rel=1e-4)


def test_bf16_multiplication_gives_nearly_the_same_loss(stream: TokenStream) -> None:
    """The loss in bfloat16 agrees with float32 to its three digits."""
    model, _ = fresh()
    batch = draw_batch(stream, 0, 1)[:, :65]
    exact, rough = (batch_loss(model, batch, bf16=bf16).item() for bf16 in (False, True))
    assert rough == pytest.approx(exact, rel=1e-2)


def test_command_line_reaches_the_options() -> None:
    """Every switch of the documented command is read."""
    options = read_options(["--out", "x", "--steps", "7", "--threads", "2", "--no-bf16"])
    assert (options.out, options.steps, options.threads) == (Path("x"), 7, 2)
    assert not options.bf16
