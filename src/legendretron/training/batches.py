"""Batches of rows in random order, pass after pass, and those of rows in memory."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from legendretron.training.features import Features
from legendretron.training.problem import Sample

#: Batches drawn at once to skip those before a checkpoint.
_SKIPPED_AT_ONCE = 1000


def draw_order(n: int, generator: torch.Generator) -> Tensor:
    """Draw the order in which ``torch.utils.data.DataLoader(shuffle=True)`` goes through ``n`` rows.

    So a run sees the batches that the same seed gives to a training loop with torch's own loader.
    """

    def draw() -> int:
        return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())

    draw()  # a loader draws a seed for its workers first
    return torch.randperm(n, generator=torch.Generator().manual_seed(draw()))


class Block(NamedTuple):
    """``S`` batches of ``m`` rows for each of ``R`` runs."""

    rows: Tensor  #: rows of the features, shape (S, R, m)
    labels: Tensor  #: classes from 0, shape (S, R, m)
    weights: Tensor  #: shares of a batch, shape (S, R, m)
    n_rows: int  #: rows of a batch on all processes together


class Batches(ABC):
    """A source of batches."""

    n_rows: int  #: rows of a pass
    size: int  #: rows of a batch
    endless: bool  #: whether a batch can begin in one pass and end in the next; if not, the last one of a pass can be smaller

    @property
    @abstractmethod
    def features(self) -> Features:
        """The rows that the blocks refer to, until the next one is taken."""

    @property
    def n_steps(self) -> int:
        """Batches of a pass that is not endless."""
        return math.ceil(self.n_rows / self.size)

    @abstractmethod
    def take(self, most: int) -> Block:
        """The next batches, from one to ``most``."""

    def skip(self, n_batches: int) -> None:
        """Skip batches that were trained on before a checkpoint."""
        while n_batches:
            n_batches -= len(self.take(min(n_batches, _SKIPPED_AT_ONCE)).rows)

    def close(self) -> None:  # noqa: B027
        """End reading, if there is something to end."""


class SampleBatches(Batches):
    """Batches of rows in memory. Each run shuffles its rows with its own generator.

    If runs differ in length, batches must be endless. They are smaller than ``batch_size`` if a run has fewer rows.
    """

    def __init__(self, sample: Sample, batch_size: int, generators: list[torch.Generator], *, endless: bool) -> None:
        self._sample, self._weights = sample, sample.normalized_weights()
        self._generators, self.endless = generators, endless
        n_runs, self.n_rows = sample.rows.shape
        self._lengths = sample.lengths or [self.n_rows] * n_runs
        self.size = min([batch_size, *self._lengths])
        #: places in the sample that each run has drawn, but not trained on
        self._drawn = [torch.zeros(0, dtype=torch.int64)] * n_runs

    @property
    def features(self) -> Features:
        """See :class:`Batches`."""
        return self._sample.features

    def _draw(self, least: int) -> None:
        """Draw passes until each run has ``least`` places."""
        for run, (generator, length) in enumerate(zip(self._generators, self._lengths, strict=True)):
            parts = [self._drawn[run]]
            drawn = len(parts[0])
            while drawn < least:
                one_batch = self.size == length and not self.endless  # needs no order
                parts.append(torch.arange(length) if one_batch else draw_order(length, generator))
                drawn += length
            self._drawn[run] = torch.cat(parts)

    def take(self, most: int) -> Block:
        """See :class:`Batches`."""
        self._draw(most * self.size if self.endless else 1)
        left = len(self._drawn[0])
        count, size = min(most, left // self.size), self.size
        if self.endless:
            count = most
        elif count == 0:  # the rest of a pass
            count, size = 1, left
        places = torch.stack([places[: count * size] for places in self._drawn]).to(self._weights.device)
        self._drawn = [places[count * size :] for places in self._drawn]
        # batches first, so that each is contiguous
        rows, labels, weights = (
            torch.gather(part, 1, places).view(-1, count, size).transpose(0, 1).contiguous()
            for part in (self._sample.rows, self._sample.labels, self._weights)
        )
        return Block(rows, labels, weights / size, size)
