"""The two ways others take from logits to tokens, restated with eager torch: the peers of a ratio.

`VllmEager` is what vLLM's torch path does at each step: dense histograms of prompt and output,
where/sub penalties, division, full sort, softmax, cumulative sum, mask, scatter, softmax, and an
exponential race. `SmartEager` is what a careful engineer writes instead: penalties gathered and
scattered at seen tokens, one top-k window, a multinomial draw inside it. The window is exact only
while it holds the nucleus; `is_exact` says whether it does.
Source: behaviour of vllm/v1/sample/sampler.py and vllm/model_executor/layers/utils.py.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from torch import Tensor

WINDOW: Final = 1024


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What every row of a bench asks for; top_k = 0 and top_p = 1 are off."""

    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 1.0
    repetition: float = 1.1
    frequency: float = 0.2
    presence: float = 0.1

    def tell(self) -> str:
        """The filters in words."""
        k = f"top-k {self.top_k}" if self.top_k else ""
        p = f"top-p {self.top_p}" if self.top_p < 1 else ""
        return " + ".join(filter(None, (k, p))) or "no filter"


class VllmEager:
    """vLLM's torch path: every step rebuilds its histograms and sorts the vocabulary."""

    def __init__(
        self, prompts: list[list[int]], outputs: list[list[int]], setting: Setting
    ) -> None:
        self._prompts = torch.tensor(prompts)
        self._outputs = torch.tensor(outputs)
        self._setting = setting

    def step(self, logits: Tensor) -> Tensor:
        """Penalise in place, filter and draw.

        Shapes: logits (n_seqs, vocab_size) to (n_seqs,).
        """
        self.penalise(logits)
        return self.draw(logits)

    def penalise(self, logits: Tensor) -> None:
        """Repetition, frequency and presence from dense int64 histograms."""
        prompt_counts = _histogram(self._prompts, logits.shape[1])
        output_counts = _histogram(self._outputs, logits.shape[1])
        was_generated = output_counts > 0
        strength = self._setting.repetition
        strengths = torch.where((prompt_counts > 0) | was_generated, strength, 1.0)
        logits.copy_(torch.where(logits > 0, logits / strengths, logits * strengths))
        logits.sub_(self._setting.frequency * output_counts)
        logits.sub_(self._setting.presence * was_generated)

    def draw(self, logits: Tensor) -> Tensor:
        """Divide, filter over a full sort, and race exponentials."""
        logits = logits / self._setting.temperature
        if self._setting.top_k or self._setting.top_p < 1:
            logits = self._filter(logits)
        probability = torch.softmax(logits, dim=-1, dtype=torch.float32)
        noise = torch.empty_like(probability).exponential_()
        return probability.div_(noise).argmax(dim=-1)

    def _filter(self, logits: Tensor) -> Tensor:
        ordered, ids = logits.sort(dim=-1, descending=False)
        if self._setting.top_k:
            floor = ordered[:, -self._setting.top_k, None]
            ordered.masked_fill_(ordered < floor, -torch.inf)
        if self._setting.top_p < 1:
            mass = torch.softmax(ordered, dim=-1).cumsum(dim=-1)
            excluded = mass <= 1 - self._setting.top_p
            excluded[:, -1] = False
            ordered.masked_fill_(excluded, -torch.inf)
        return torch.empty_like(ordered).scatter_(1, ids, ordered)


class SmartEager:
    """Sparse penalties and a top-k window: what eager torch can do when it is used well."""

    def __init__(
        self, prompts: list[list[int]], outputs: list[list[int]], setting: Setting
    ) -> None:
        self._setting = setting
        pairs = zip(prompts, outputs, strict=True)
        seen = [sorted(set(prompt) | set(output)) for prompt, output in pairs]
        widest = max(map(len, seen))
        counts = [Counter(output) for output in outputs]
        # Rows are padded with a repeat of their last token, which writes the same value twice.
        self._ids = torch.tensor([ids + ids[-1:] * (widest - len(ids)) for ids in seen])
        self._counts = torch.tensor(
            [
                [float(count[token]) for token in row]
                for row, count in zip(self._ids.tolist(), counts, strict=True)
            ]
        )

    def step(self, logits: Tensor) -> Tensor:
        """Penalise in place, filter and draw.

        Shapes: logits (n_seqs, vocab_size) to (n_seqs,).
        """
        self.penalise(logits)
        return self.draw(logits)

    def penalise(self, logits: Tensor) -> None:
        """Gather the seen tokens, penalise them, scatter them back."""
        setting = self._setting
        values = logits.gather(1, self._ids)
        values = torch.where(values > 0, values / setting.repetition, values * setting.repetition)
        values -= setting.frequency * self._counts
        values -= setting.presence * (self._counts > 0)
        logits.scatter_(1, self._ids, values)

    def draw(self, logits: Tensor) -> Tensor:
        """Draw inside the window; without filters, by Gumbel noise over the row."""
        if not self._setting.top_k and self._setting.top_p >= 1:
            gumbel = -torch.empty_like(logits).exponential_().log_()
            return (logits / self._setting.temperature + gumbel).argmax(dim=-1)
        weight, ids = self._window(logits)
        return ids.gather(1, torch.multinomial(weight, 1))[:, 0]

    def is_exact(self, logits: Tensor) -> bool:
        """Whether the window holds every row's nucleus."""
        if self._setting.top_k or self._setting.top_p >= 1:
            return True
        scaled = logits / self._setting.temperature
        top = scaled.topk(min(WINDOW, logits.shape[1]), dim=-1).values
        mass = (top.logsumexp(dim=-1) - scaled.logsumexp(dim=-1)).exp()
        return bool((mass >= self._setting.top_p).all())

    def _window(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """The window's weights, zero outside the filters, and its ids."""
        width = min(self._setting.top_k or WINDOW, logits.shape[1])
        top, ids = logits.topk(width, dim=-1)
        scaled = top / self._setting.temperature
        over = scaled if self._setting.top_k else logits / self._setting.temperature
        weight = (scaled - over.logsumexp(dim=-1, keepdim=True)).exp_()
        before = weight.cumsum(dim=-1) - weight
        return weight.masked_fill_(before >= self._setting.top_p, 0.0), ids


def _histogram(ids: Tensor, vocab_size: int) -> Tensor:
    """Counts of every token, with one more column for padding as there.

    Shapes: ids (n_seqs, length) to (n_seqs, vocab_size) int64.
    """
    counts = torch.zeros((ids.shape[0], vocab_size + 1), dtype=torch.long)
    counts.scatter_add_(1, ids, torch.ones_like(ids))
    return counts[:, :vocab_size]
