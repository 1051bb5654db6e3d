"""Train the bundled model: `python -m harness.server.training.train --out DIR --minutes 40`.

Reads the corpus, trains the tokenizer, then the model: AdamW, warm-up and cosine decay, the loss of
held-out documents in bits per byte. Every batch is drawn from a stream named by its step, so a run
of `--steps N` is the same run each time; with `--minutes` only the number of steps depends on the
machine. A checkpoint is replaced atomically, and `--resume` continues from it exactly.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import logging
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.base.rng import seed_for
from harness.server.checkpoint import save_model
from harness.server.model import Llama
from harness.server.model_config import ModelConfig
from harness.server.training.corpus import build_corpus
from harness.server.training.held_out import bits_per_byte, window_nats
from harness.server.training.token_stream import (
    LENGTH,
    LONG_LENGTH,
    TokenStream,
    build_stream,
    draw_batch,
    train_tokenizer,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

LOG = logging.getLogger("tailbreak.training")

CHECKPOINT_FILE = "checkpoint.pt"
REPORT_FILE = "training.json"
PEAK_RATE, FINAL_SHARE, WARM_UP_STEPS = 3e-3, 0.02, 100
WEIGHT_DECAY, BETAS, CLIP_NORM = 0.1, (0.9, 0.95), 1.0


@dataclass(frozen=True, kw_only=True)
class Options:
    """What one training run was asked for.

    Attributes:
        minutes: Time budget, used when `steps` is not given.
        steps: Exact number of steps; makes the run reproducible bit for bit on one machine.
        save_every_s: Seconds between checkpoints.
        bf16: Multiply in bfloat16; parameters and optimiser stay in float32.
    """

    out: Path
    root: Path = Path("/")
    minutes: float = 40.0
    steps: int | None = None
    threads: int = 1
    seed: int = 0
    save_every_s: float = 180.0
    bf16: bool = True
    resume: bool = False


@dataclass(kw_only=True)
class Progress:
    """How far training has come; stored in the checkpoint and in the report.

    Attributes:
        seconds: Time spent in training steps, evaluation and reading excluded.
        curve: One entry per evaluation: step, seconds, training loss, held-out bits per byte.
    """

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    curve: list[dict[str, float]]


# ---- the model --------------------------------------------------------------------------------


def init_parameters(model: Llama, seed: int) -> None:
    """Draw the weights: N(0, 1/fan_in), residual outputs smaller by sqrt(2 n_layers).

    Source: Radford et al., GPT-2, section 2.3 (residual scaling).
    """
    draw = torch.Generator().manual_seed(seed_for(seed, "weights") % 2**63)
    shrink = 1.0 / math.sqrt(2 * model.config.n_layers)
    for name, parameter in model.named_parameters():
        if parameter.ndim < 2:
            continue
        std = 0.02 if "embed" in name else parameter.shape[1] ** -0.5
        std *= shrink if name.endswith(("o_proj.weight", "down_proj.weight")) else 1.0
        nn.init.normal_(parameter, std=std, generator=draw)


def build_optimizer(model: Llama) -> torch.optim.AdamW:
    """AdamW; norm weights do not decay."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=PEAK_RATE, betas=BETAS)


def learning_rate(step: int, share_done: float) -> float:
    """Linear warm-up, then a half cosine from the peak to `FINAL_SHARE` of it."""
    warm_up = min(1.0, (step + 1) / WARM_UP_STEPS)
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, share_done)))
    return PEAK_RATE * warm_up * (FINAL_SHARE + (1 - FINAL_SHARE) * cosine)


def batch_loss(model: Llama, batch: Tensor, *, bf16: bool) -> Tensor:
    """Mean cross entropy of the next token, in nats."""
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        logits = model(batch[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def take_step(
    model: Llama, optimizer: torch.optim.AdamW, batch: Tensor, rate: float, *, bf16: bool
) -> float:
    """One update; returns the loss before it, in nats per token."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    loss = batch_loss(model, batch, bf16=bf16)
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


# ---- checkpoints ------------------------------------------------------------------------------


def save_checkpoint(
    folder: Path, model: Llama, optimizer: torch.optim.AdamW, progress: Progress
) -> None:
    """Write everything a resumed run needs, replaced atomically."""
    part = folder / f"{CHECKPOINT_FILE}.part"
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "progress": asdict(progress),
    }
    torch.save(state, part)
    part.replace(folder / CHECKPOINT_FILE)


def load_checkpoint(folder: Path, model: Llama, optimizer: torch.optim.AdamW) -> Progress:
    """Restore the model and the optimiser in place; returns the progress made."""
    state = torch.load(folder / CHECKPOINT_FILE, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return Progress(**state["progress"])


# ---- the run ----------------------------------------------------------------------------------


class Trainer:
    """One run: holds the data, the model and the progress."""

    def __init__(self, options: Options) -> None:
        torch.set_num_threads(options.threads)
        self.options = options
        self.documents = build_corpus(options.root, options.seed)
        train = [document for document in self.documents if document.split == "train"]
        self.tokenizer = train_tokenizer(
            (turn for document in train for turn in document.turns), ModelConfig().vocab_size
        )
        self.stream = build_stream(self.tokenizer, train, options.seed)
        self.held_out = self._held_out_streams()
        config = ModelConfig(bos_id=self.tokenizer.bos_id, eos_id=self.tokenizer.eos_id)
        self.model = Llama(config)
        init_parameters(self.model, options.seed)
        self.optimizer = build_optimizer(self.model)
        self.progress = Progress(curve=[])
        if options.resume:
            self.progress = load_checkpoint(options.out, self.model, self.optimizer)

    def _held_out_streams(self) -> dict[str, TokenStream]:
        """Held-out documents, one stream per source."""
        held_out = [document for document in self.documents if document.split == "held_out"]
        return {
            name: build_stream(
                self.tokenizer, [d for d in held_out if d.source == name], self.options.seed
            )
            for name in sorted({document.source for document in held_out})
        }

    def share_done(self) -> float:
        """How much of the budget is used, in [0, 1]."""
        if self.options.steps is not None:
            return self.progress.step / self.options.steps
        return self.progress.seconds / (self.options.minutes * 60)

    def run(self) -> None:
        """Train until the budget is used, saving on the way and at the end."""
        n_tokens = len(self.stream.ids)
        LOG.info("%d training tokens, %d steps done", n_tokens, self.progress.step)
        losses: list[float] = []
        last_save = time.perf_counter()
        while (share := self.share_done()) < 1.0:
            losses.append(self._timed_step(share))
            if self.progress.step % 50 == 0:
                self._log(losses[-50:])
            if time.perf_counter() - last_save > self.options.save_every_s:
                self._evaluate_and_save(losses[-50:])
                last_save = time.perf_counter()
        self._evaluate_and_save(losses[-50:])

    def _timed_step(self, share: float) -> float:
        """One step, added to the progress."""
        step, began = self.progress.step, time.perf_counter()
        batch = draw_batch(self.stream, self.options.seed, step)
        rate = learning_rate(step, share)
        loss = take_step(self.model, self.optimizer, batch, rate, bf16=self.options.bf16)
        self.progress.seconds += time.perf_counter() - began
        self.progress.tokens += batch.shape[0] * (batch.shape[1] - 1)
        self.progress.step += 1
        return loss

    def _log(self, losses: list[float]) -> None:
        """One line of progress."""
        done = self.progress
        LOG.info(
            "step %d  %.0f s  loss %.3f nats/token  %.0f tokens/s",
            done.step,
            done.seconds,
            sum(losses) / len(losses),
            done.tokens / done.seconds,
        )

    def _evaluate_and_save(self, losses: list[float]) -> None:
        """Measure held-out text, then write checkpoint, weights, tokenizer and report."""
        held_out = self.evaluate()
        point = {
            "step": self.progress.step,
            "seconds": round(self.progress.seconds, 1),
            "loss": round(sum(losses) / max(1, len(losses)), 4),
            "bits_per_byte": round(held_out["all"], 4),
        }
        if losses:  # a finished run, resumed, only measures again
            self.progress.curve.append(point)
        LOG.info("held out: %s", json.dumps(held_out))
        self.options.out.mkdir(parents=True, exist_ok=True)
        save_checkpoint(self.options.out, self.model, self.optimizer, self.progress)
        save_model(self.model, self.options.out)
        self.tokenizer.save(self.options.out)
        self._write_report(held_out)

    def evaluate(self) -> dict[str, float]:
        """Held-out bits per byte of each source, and of all of them weighted by their bytes.

        Measured with the weights as they are stored: rounded to bfloat16.
        """
        stored = copy.deepcopy(self.model).to(torch.bfloat16).to(torch.float32)
        rows = {
            name: (bits_per_byte(stored, self.tokenizer, stream.ids), self._bytes(stream.ids))
            for name, stream in self.held_out.items()
        }
        total = sum(n_bytes for _, n_bytes in rows.values())
        overall = sum(bits * n_bytes for bits, n_bytes in rows.values()) / total
        return {"all": overall} | {name: bits for name, (bits, _) in rows.items()}

    def nats_by_position(self) -> dict[str, float]:
        """Held-out loss by how much context a token has, up to the longest the model takes.

        Units: nats per token; keys are ranges of positions.
        """
        ids = np.concatenate([stream.ids for stream in self.held_out.values()])
        nats = window_nats(self.model, ids, self.model.config.max_context)
        edges = [0, LENGTH, LONG_LENGTH, self.model.config.max_context]
        return {
            f"{start}-{end - 1}": round(float(nats[:, start:end].mean()), 3)
            for start, end in itertools.pairwise(edges)
        }

    def _bytes(self, ids: NDArray[np.int64]) -> int:
        """Text bytes of a stream."""
        return sum(len(self.tokenizer.token_bytes(int(token))) for token in ids)

    def _write_report(self, held_out: dict[str, float]) -> None:
        """Write what was measured, for the model card."""
        sources = {
            name: {
                "bytes": sum(d.n_bytes for d in self.documents if d.source == name),
                "held_out_bytes": self._bytes(stream.ids),
            }
            for name, stream in self.held_out.items()
        }
        report = {
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "seed": self.options.seed,
            "bf16": self.options.bf16,
            "torch": torch.__version__,
            "steps": self.progress.step,
            "tokens": self.progress.tokens,
            "seconds": round(self.progress.seconds, 1),
            "corpus_tokens": len(self.stream.ids),
            "chat_bytes": sum(d.n_bytes for d in self.documents if d.is_chat),
            "sources": sources,
            "held_out_bits_per_byte": {name: round(bits, 4) for name, bits in held_out.items()},
            "held_out_nats_by_position": self.nats_by_position(),
            "curve": self.progress.curve,
        }
        part = self.options.out / f"{REPORT_FILE}.part"
        part.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        part.replace(self.options.out / REPORT_FILE)


def read_options(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m harness.server.training.train")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    parser.add_argument("--root", type=Path, default=Path("/"), help="where the packages lie")
    parser.add_argument("--minutes", type=float, default=40.0, help="time budget")
    parser.add_argument("--steps", type=int, help="exact number of steps, instead of --minutes")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save-every-s", type=float, default=180.0)
    parser.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint")
    return Options(**vars(parser.parse_args(arguments)))


def main() -> None:
    """Entry point."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    Trainer(read_options()).run()


if __name__ == "__main__":
    main()
