"""Write a model's card and samples: `python -m harness.server.training.card --model DIR`.

Every number comes from `training.json`, which the training run measured; the samples are drawn
here, with a seed, from the weights as they are stored.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from harness.base.rng import seed_for
from harness.server.checkpoint import load_model
from harness.server.model import Llama
from harness.server.tokenizer import Message, TextTokenizer
from harness.server.training.corpus import SOURCES
from harness.server.training.train import REPORT_FILE

CARD_FILE, SAMPLES_FILE = "MODEL_CARD.md", "samples.md"
SAMPLE_TOKENS = 120


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One sample to draw: a prompt, as plain text or as a user's message, and a temperature."""

    prompt: str
    temperature: float
    is_chat: bool = False


ASKS = (
    Ask(prompt="It was a truth which Elizabeth", temperature=0.8),
    Ask(prompt="And it came to pass in those days, that", temperature=0.8),
    Ask(prompt="What is a hacker?", temperature=0.8, is_chat=True),
    Ask(prompt="Define MARRIAGE.", temperature=0.8, is_chat=True),
    Ask(prompt="And the LORD spake unto Moses, saying,", temperature=0.0),
)


@torch.inference_mode()
def generate(model: Llama, ids: list[int], *, n: int, temperature: float, seed: int) -> list[int]:
    """Continue `ids` by up to `n` tokens with the plain full pass; stops at <|eos|>.

    Temperature 0 takes the likeliest token.
    """
    draw = torch.Generator().manual_seed(seed)
    made: list[int] = []
    while len(made) < n:
        logits = model(torch.tensor([ids + made]))[0, -1]
        if temperature == 0.0:
            token = int(logits.argmax())
        else:
            chances = torch.softmax(logits / temperature, dim=-1)
            token = int(torch.multinomial(chances, 1, generator=draw))
        made.append(token)
        if token == model.config.eos_id:
            break
    return made


def build_samples(folder: Path) -> str:
    """Draw every sample; an answer ends at the end token of its turn."""
    model, tokenizer = load_model(folder), TextTokenizer.load(folder)
    parts = ["# Samples", "Seeded, unedited, drawn from the stored weights."]
    for index, ask in enumerate(ASKS):
        plain = [tokenizer.bos_id, *tokenizer.encode(ask.prompt)]
        ids = tokenizer.chat([Message("user", ask.prompt)]) if ask.is_chat else plain
        made = generate(
            model,
            ids,
            n=SAMPLE_TOKENS,
            temperature=ask.temperature,
            seed=seed_for(0, "sample", index) % 2**63,
        )
        if ask.is_chat and tokenizer.end_id in made:
            made = made[: made.index(tokenizer.end_id)]
        parts += [_title(index, ask), f"> **{ask.prompt}**{_quoted(tokenizer.decode(made), ask)}"]
    return "\n\n".join(parts) + "\n"


def _title(index: int, ask: Ask) -> str:
    """Heading of one sample."""
    how = "greedy" if ask.temperature == 0.0 else f"temperature {ask.temperature}"
    return f"## {index + 1}. {'chat' if ask.is_chat else 'text'}, {how}"


def _quoted(text: str, ask: Ask) -> str:
    """The continuation as part of a Markdown quotation; an answer starts a paragraph."""
    text = text.replace("<", "&lt;").replace("*", "\\*").rstrip()
    return ("\n\n" + text if ask.is_chat else text).replace("\n", "\n> ")


def build_card(report: dict[str, Any]) -> str:
    """The model card of the bundled model, from a training report."""
    bits = report["held_out_bits_per_byte"]
    return _CARD.format(
        parameters=report["parameters"],
        torch=report["torch"],
        sources="\n".join(_source_row(source.name, report) for source in SOURCES),
        bytes=_kb(sum(row["bytes"] for row in report["sources"].values())),
        held_out_bytes=_kb(sum(row["held_out_bytes"] for row in report["sources"].values())),
        chat_share=report["chat_bytes"] / sum(row["bytes"] for row in report["sources"].values()),
        corpus_tokens=report["corpus_tokens"],
        steps=report["steps"],
        tokens=report["tokens"],
        epochs=report["tokens"] / report["corpus_tokens"],
        seconds=report["seconds"],
        rate=report["tokens"] / report["seconds"],
        precision="bfloat16 multiplication, float32 parameters" if report["bf16"] else "float32",
        seed=report["seed"],
        bits=bits["all"],
        positions=", ".join(
            f"{nats:.2f} at positions {where}"
            for where, nats in report["held_out_nats_by_position"].items()
        ),
        curve="\n".join(_curve_row(point) for point in _thinned(report["curve"])),
    )


def _source_row(name: str, report: dict[str, Any]) -> str:
    """One row of the data table."""
    source = next(source for source in SOURCES if source.name == name)
    row, bits = report["sources"][name], report["held_out_bits_per_byte"][name]
    return (
        f"| {source.work} | `{source.package}` | {source.licence} | {_kb(row['bytes'])} "
        f"| {_kb(row['held_out_bytes'])} | {bits:.3f} |"
    )


def _curve_row(point: dict[str, float]) -> str:
    """One row of the learning curve."""
    return (
        f"| {point['step']:.0f} | {point['seconds']:.0f} | {point['loss']:.3f} "
        f"| {point['bits_per_byte']:.3f} |"
    )


def _thinned(curve: list[dict[str, float]]) -> list[dict[str, float]]:
    """About eight points of the curve, the last among them."""
    return curve[:: -max(1, len(curve) // 8)][::-1]


def _kb(n_bytes: int) -> str:
    """Bytes in kB, for people."""
    return f"{n_bytes / 1000:.0f} kB"


_CARD = """\
# tiny: the bundled model

A small Llama-layout language model so that the reference server has something real to serve on
any machine: it has learned English text well enough to spell, to form sentences, to repeat
itself and to stop, which is what penalties, temperature, entropy and stop conditions need in
order to mean something. It knows nothing worth knowing.

## Architecture

{parameters:,} parameters: 4 layers, width 192, 6 query heads and 2 key/value heads of size 32,
SwiGLU of width 512, RMSNorm, rotary positions (theta 10000), tied embeddings, vocabulary 4096
(byte-level BPE, five special tokens). Stored in bfloat16 with the Hugging Face names. Trained
on windows of 512 and 1024 tokens, offered up to 2048.

Chat template: `<|bos|>`, then for each turn `<|user|>` or `<|assistant|>`, the text, `<|end|>`;
the model answers after `<|assistant|>`. A system message is rendered as a user's.

## Data

| Work | Debian package | Why it may be used | Text | Held out | Held-out bits/byte |
|---|---|---|---|---|---|
{sources}
| **all** | | | {bytes} | {held_out_bytes} | **{bits:.3f}** |

A document is a chapter or a dictionary entry; whether it is held out follows from a hash of its
title. {chat_share:.0%} of the text is formatted as conversations: a headword is asked for and
its definition answered, or one or two sentences of prose are said and the next ones answered.

The Jargon File's editors ask to be cited: "Jargon File 4.4.7".

## Training

{corpus_tokens:,} training tokens; {steps:,} steps of 4,096 tokens: {tokens:,} tokens,
{epochs:.1f} passes, in {seconds:,.0f} seconds of training steps ({rate:,.0f} tokens/s) on at
most two CPU cores that did other work as well. torch {torch}, {precision}, AdamW (peak rate
0.003, betas 0.9 and 0.95, weight decay 0.1, gradient norm clipped at 1), 100 steps of warm-up,
cosine decay, seed {seed}.

| Step | Seconds | Training loss (nats/token) | Held-out bits/byte |
|---|---|---|---|
{curve}

Bits per byte = sum of -log2 p(token), special tokens included, over the bytes of the held-out
text; windows of 512 tokens without overlap, float32 arithmetic. The numbers in the data table
are those of the weights as stored. For comparison, 8 is uniform over bytes.

The learning rate follows the time budget, so a run with `--minutes` depends on the machine's
speed; one with `--steps` is the same run each time on the same machine and library versions.

    apt-get install --no-install-recommends bible-kjv r-cran-janeaustenr dict-devil dict-jargon
    python -m harness.server.training.train --out DIR --steps {steps} --threads 1 --seed {seed}
    python -m harness.server.training.card --model DIR

Thread count and machine change the order of sums, so a retrained model has the same quality,
not the same bits.

## Limits

No facts, no instructions, no safety training: answers are pastiche of the four sources and
carry their age's views. English only; other scripts are encoded byte by byte and continued
badly. Windows longer than 1024 tokens were never trained on, and it shows: held-out loss in
nats per token is {positions}. Greedy decoding falls into loops (sample 5), on purpose left so.
The text of `harness/plan/text/prose.txt` is mostly training text.

Licence of weights, tokenizer and samples: Apache-2.0, like the project.

Samples: `samples.md`. Everything measured: `training.json`.
"""


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m harness.server.training.card")
    parser.add_argument("--model", type=Path, required=True, help="folder written by training")
    folder: Path = parser.parse_args().model
    report = json.loads((folder / REPORT_FILE).read_text(encoding="utf-8"))
    (folder / CARD_FILE).write_text(build_card(report), encoding="utf-8")
    (folder / SAMPLES_FILE).write_text(build_samples(folder), encoding="utf-8")


if __name__ == "__main__":
    main()
