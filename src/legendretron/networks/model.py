r"""Networks side by side, with a gradient written out: a batched product for each layer, and few small operations.

.. math::

    h_1 = \phi(x\, \mathrm{diag}(u s) W_1 + b_1), \quad h_2 = \phi(h_1 W_2 / \sqrt{m} + b_2), \quad \dots, \quad
    z = h\, W / \sqrt{m} + b, \qquad \phi(u) = (1 - a)\, u + a\, \mathrm{selu}(u)

with a fixed unit :math:`u` and a learned scale :math:`s` of each input, and a learned share :math:`a` of the identity in each
unit. Weights are of order one, and the roots are part of the formula (the form of the neural tangent kernel), so one rate
suits layers of any width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from legendretron._internal.chunks import chunks
from legendretron.links import LabelNoise, SoftmaxLink
from legendretron.simplex import predicted_class
from legendretron.training.features import Features
from legendretron.training.model import Model, StepArrays
from legendretron.training.problem import Sample

#: Factors on what is trained, and so on its rate: of the inputs' scales, of biases, of shares of the identity.
_SCALE, _BIAS, _MIX = 6.0, 0.1, 0.1
#: Slope of SELU below 0, over that above, and that above.
SELU = 1.6732632423543772, 1.0507009873554805
#: Least size of the pool of random numbers for dropout masks, and the same as a multiple of what a step needs.
_POOL, _TIMES = 2**20, 4
_STRIDE = 7_368_787


def fade(share: np.ndarray) -> np.ndarray:
    """Factor of what regularizes, after a share of the steps: 1 in the first half, then down to 0 along half a cosine.

    Examples
    --------
    >>> fade(np.array([0.2, 0.5, 0.75, 1.0])).tolist()
    [1.0, 1.0, 0.5, 0.0]
    """
    return np.round(0.5 * (1.0 + np.cos(np.pi * np.maximum(0.0, 2.0 * share - 1.0))), 12)


class FoldSettings(NamedTuple):
    """Sizes of the networks, and how they are trained."""

    hidden: tuple[int, ...]  #: units of the hidden layers
    n_steps: int
    batch_size: int  #: rows in a step
    learning_rate: float = 0.04
    dropout: float = 0.15  #: this and the next fade in the second half of the steps
    weight_decay: float = 0.02  #: of the weights alone, in units of the rate
    label_smoothing: float = 0.1
    seed: int = 0
    verbose: int = 0
    n_repeats: int = 1  #: how often the rows are divided into folds

    @classmethod
    def for_rows(cls, n_rows: int) -> FoldSettings:
        """Settings for a number of rows.

        Examples
        --------
        >>> small = FoldSettings.for_rows(999)
        >>> small.hidden, small.n_steps, small.batch_size, small.n_repeats
        ((64, 64), 1000, 64, 2)
        >>> FoldSettings.for_rows(1_000_000)[:3]
        ((128, 128), 12000, 1024)
        """
        batch_size = min(n_rows, max(64, 2 ** int(math.log2(max(1, n_rows) / 1000) + 0.5)))
        n_steps = min(max(1000, n_rows), 12_000)
        if n_rows < 1000:
            return cls((64, 64), n_steps, batch_size, n_repeats=2)
        return cls((128, 128), n_steps, batch_size)


class NetworkModel(Model):
    """``R`` networks with logits of all ``C`` classes, softmax, and known noise in the labels if there is some.

    Parameters
    ----------
    n_classes : int
        ``C``.
    settings : FoldSettings
        Sizes, regularization and number of steps.
    units : Tensor of shape (R, d)
        Of the inputs in each run: 0 for those that it does not see, and squares that sum to about one. They have the dtype
        and the device of the parameters.
    generators : list of torch.Generator
        One per run, on the CPU, for the start.
    noise : LabelNoise, optional
        How true labels become observed ones; its rate is not learned.
    """

    def __init__(
        self,
        n_classes: int,
        settings: FoldSettings,
        units: Tensor,
        generators: list[torch.Generator],
        noise: LabelNoise | None = None,
    ) -> None:
        self.n_features, self.units, self.settings = units.shape[1], units, settings
        #: inputs and outputs of each layer
        self.layers = list(pairwise([self.n_features, *settings.hidden, n_classes]))
        parts = [torch.stack(run) for run in zip(*(self._start(g) for g in generators), strict=True)]
        super().__init__([part.to(units) for part in parts], SoftmaxLink(n_classes))
        self.weights, self.scale, self.biases, self.mixes = self._split(self.flat)
        self.n_weights = sum(self.sizes[: len(self.layers)])
        self.noise = None if noise is None else noise.matrix().detach().to(units)
        # of every step, as steps that are captured on a GPU cannot compute them on the host
        n_steps, dropout = settings.n_steps, settings.dropout
        faded = fade(np.arange(n_steps + 1) / n_steps)
        odds = faded * dropout / (1.0 - faded * dropout)
        strength = np.sqrt(odds * (1.0 - dropout) / dropout) if dropout else odds
        self._faded, self._strength = (torch.from_numpy(each).to(units) for each in (faded, strength))
        self._count = torch.zeros(1, dtype=torch.int64, device=units.device)
        self._pool: Tensor | None = None
        self._places: dict[tuple[int, int, int], tuple[Tensor, Tensor]] = {}
        self._one = units.new_ones(1)
        self._source = generators[0]
        #: logits (R, n, C) of the held-out rows, each time these were looked at; None if they are not to be saved
        self.trail: list[Tensor] | None = None

    def _start(self, generator: torch.Generator) -> list[Tensor]:
        """Parameters of one run: weights of variance one but for the last layer's, which are zero."""
        weights = [torch.randn(size, generator=generator) for size in self.layers[:-1]] + [torch.zeros(self.layers[-1])]
        hidden = [outputs for _, outputs in self.layers[:-1]]
        biases = [torch.randn(width, generator=generator) for width in hidden] + [torch.zeros(self.layers[-1][1])]
        return [*weights, torch.zeros(self.n_features), *biases, *(torch.zeros(width) for width in hidden)]

    def n_multiplications(self, n_rows: float) -> float:
        """See :class:`Model`."""
        return 3.0 * self.n_runs * n_rows * sum(a * b for a, b in self.layers)

    def row_chunks(self, n: int) -> list[slice]:
        """See :class:`Model`."""
        return chunks(n, self.n_runs * max(max(size) for size in self.layers))

    def mutable_tensors(self) -> list[Tensor]:
        """See :class:`Model`."""
        return [self._count]

    def shrink(self, rate: Tensor) -> None:
        """Weight decay, see :class:`Model`."""
        if self.settings.weight_decay:
            self.flat[:, : self.n_weights].mul_(1.0 - rate * (self.settings.weight_decay * self._now(self._faded)))

    @property
    def n_taken(self) -> int:
        """Steps that were taken."""
        return int(self._count)

    def usable_runs(self) -> np.ndarray:
        """Numbers of the networks whose weights are finite: those that have not diverged."""
        return np.flatnonzero(self.flat.isfinite().all(1).cpu().numpy())

    def _now(self, of_steps: Tensor) -> Tensor:
        """The number of the next step, of shape (1,)."""
        return of_steps.index_select(0, self._count.clamp(max=self.settings.n_steps))

    # --- forward ---

    def _first_weight(self) -> Tensor:
        """Weights of the first layer, times the scales of the inputs."""
        return self.weights[0] * ((1.0 + _SCALE * self.scale) * self.units).unsqueeze(-1)

    def _layer(self, number: int, h: Tensor) -> Tensor:
        """``h W / sqrt(m) + b`` of a layer after the first."""
        root = 1.0 / math.sqrt(self.layers[number][0])
        return torch.baddbmm(self.biases[number].unsqueeze(1), h, self.weights[number], beta=_BIAS, alpha=root)

    def _share(self, number: int) -> Tensor:
        """Share of the activation in the units of a hidden layer; the rest is the identity."""
        return (1.0 + _MIX * self.mixes[number]).unsqueeze(1)

    def folded(self) -> dict[str, Tensor]:
        """Weights, biases and shares by the number of the layer, with all factors multiplied out, of usable networks."""
        tensors: dict[str, Tensor] = {}
        for k, (inputs, _) in enumerate(self.layers):
            tensors[f"weight_{k}"] = self._first_weight() if k == 0 else self.weights[k] / math.sqrt(inputs)
            tensors[f"bias_{k}"] = _BIAS * self.biases[k].unsqueeze(1)
        shares = {f"share_{k}": self._share(k) for k in range(len(self.mixes))}
        usable = torch.as_tensor(self.usable_runs(), device=self.flat.device)
        return {name: tensor[usable].contiguous() for name, tensor in {**tensors, **shares}.items()}

    @torch.no_grad()
    def logits(self, features: Features, rows: Tensor) -> Tensor:
        """Logits of rows ``(R, n)`` of the features: ``(R, n, C)``."""
        z, _ = features.product(rows, self._first_weight(), _BIAS * self.biases[0].unsqueeze(1))
        for number in range(1, len(self.layers)):
            z = self._layer(number, torch.lerp(z, functional.selu(z), self._share(number - 1)))
        return z

    def log_proba(self, features: Features, rows: Tensor) -> Tensor:
        """Of the labels as they are observed, see :class:`Model`."""
        return self._observed(self.logits(features, rows))

    def _observed(self, logits: Tensor) -> Tensor:
        log_p = torch.log_softmax(logits, -1)
        return log_p if self.noise is None else torch.log((log_p.exp() @ self.noise).clamp(min=_tiny(log_p)))

    @torch.no_grad()
    def score_sums(self, sample: Sample) -> Tensor:
        """See :class:`Model`; the logits are saved in :attr:`trail` as well, where that is asked for."""
        rows, labels, weights = sample.rows, sample.labels, sample.weights
        parts = self.row_chunks(rows.shape[1])
        logits = torch.cat([self.logits(sample.features, rows[:, part]) for part in parts], dim=1)
        if self.trail is not None:
            self.trail.append(logits.float().cpu())
        log_q = self._observed(logits)
        loss = -log_q.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        hit = predicted_class(log_q) == labels
        return torch.stack([(loss * weights).sum(-1), (hit * weights).sum(-1), weights.sum(-1)])

    # --- forward and backward ---

    @torch.no_grad()
    def loss_gradient(self, batch: Sample, gradient: Tensor, *, cleared: bool = False) -> tuple[Tensor, Tensor]:
        """See :class:`Model`; the loss is that of smoothed labels, the log-loss that of labels as they are."""
        last = len(self.layers) - 1
        of_weights, of_scale, of_biases, of_mixes = self._split(gradient)
        first = self._first_weight()
        z, write_gradient = batch.features.product(batch.rows, first, _BIAS * self.biases[0].unsqueeze(1))
        saved: list[tuple[Tensor, Tensor, Tensor, Tensor | None]] = []
        for number in range(last):
            active = functional.selu(z)
            h, mask = torch.lerp(z, active, self._share(number)), self._mask(z, number)
            saved.append((z, active, h if mask is None else h.mul_(mask), mask))
            z = self._layer(number + 1, saved[-1][2])
        nll, hit, dz = self._loss(z, batch.labels, batch.weights)
        for number in range(last, 0, -1):
            below, active, h, mask = saved[number - 1]
            root = 1.0 / math.sqrt(self.layers[number][0])
            torch.bmm(h.mT, dz * root, out=of_weights[number])
            torch.sum(dz, 1, out=of_biases[number]).mul_(_BIAS)
            dh = torch.bmm(dz, self.weights[number].mT)
            dh.mul_(root if mask is None else mask * root)
            torch.sum(active.sub_(below).mul_(dh), 1, out=of_mixes[number - 1]).mul_(_MIX)
            curved = dh * self._share(number - 1)
            dz = torch.ops.aten.elu_backward(curved, *SELU, 1.0, False, below).add_(dh).sub_(curved)
        write_gradient(dz, of_weights[0], cleared)
        torch.sum(dz, 1, out=of_biases[0]).mul_(_BIAS)
        torch.sum(of_weights[0] * self.weights[0], 2, out=of_scale).mul_(_SCALE * self.units)
        of_weights[0].mul_(((1.0 + _SCALE * self.scale) * self.units).unsqueeze(-1))
        self.advance(1)
        return nll, hit

    def advance(self, n_steps: int) -> None:
        """See :class:`Model`."""
        self._count += n_steps

    def compile_steps(self, arrays: StepArrays) -> Callable[..., None] | None:
        """See :class:`Model`."""
        features, state, totals, _, numbers, n_rows = arrays
        if not isinstance(features, np.ndarray):
            return None
        from legendretron.accelerate.cpu.networks import CompiledNetworks

        widths = [self.n_features, *(outputs for _, outputs in self.layers)]
        return CompiledNetworks(
            features,
            state,
            totals,
            widths,
            self.units.numpy(),
            None if self.noise is None else self.noise.numpy(),
            self._draw_pool(self.n_runs * n_rows * max(widths[1:])).numpy(),
            (*numbers, self.settings.label_smoothing, self.settings.dropout, self.settings.weight_decay),
            (_SCALE, _BIAS, _MIX, _STRIDE),
            lambda: (self.n_taken, self.settings.n_steps),
            n_rows,
            torch.get_num_threads(),
        )

    def _split(self, flat: Tensor) -> tuple[list[Tensor], Tensor, list[Tensor], list[Tensor]]:
        """Weights, scales, biases and mixes, as views of a matrix like ``flat``."""
        tensors, n = self.views(flat), len(self.layers)
        return tensors[:n], tensors[n], tensors[n + 1 : 2 * n + 1], tensors[2 * n + 1 :]

    def _loss(self, logits: Tensor, labels: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-loss of labels, whether they are the likeliest, and the gradient of the weighted loss of smoothed ones."""
        log_p = torch.log_softmax(logits, -1)
        p, hit, n_classes = log_p.exp(), predicted_class(logits) == labels, logits.shape[-1]
        label = labels.unsqueeze(-1)
        target = torch.full_like(p, self.settings.label_smoothing / n_classes)
        target.scatter_(-1, label, 1.0 - self.settings.label_smoothing * (1.0 - 1.0 / n_classes))
        if self.noise is None:
            nll = -log_p.gather(-1, label).squeeze(-1)
            return nll, hit, p.sub_(target).mul_(weight.unsqueeze(-1))
        q = (p @ self.noise).clamp_(min=_tiny(p))
        nll = -q.gather(-1, label).squeeze(-1).log()
        dp = target.div_(q).mul_(-weight.unsqueeze(-1)) @ self.noise.mT
        return nll, hit, p * (dp - (p * dp).sum(-1, keepdim=True))

    def _mask(self, like: Tensor, layer: int) -> Tensor | None:
        """Factors by which dropout multiplies units: 0 or more than 1, and closer to 1 where it fades.

        Numbers are drawn once. Masks are parts of them, at a place that follows from the step: nothing has to be drawn, or
        remembered, from step to step.
        """
        size = like.numel()
        if not self.settings.dropout:
            return None
        pool = self._draw_pool(like.shape[0] * like.shape[1] * max(outputs for _, outputs in self.layers))
        key = layer, size, len(pool)
        if key not in self._places:
            steps = torch.arange(self.settings.n_steps + 1, device=like.device)
            places = (steps * len(self.layers) + layer) * _STRIDE % (len(pool) - size)
            self._places[key] = places, torch.arange(size, device=like.device)
        places, every = self._places[key]
        place = self._now(places)
        mask = pool[place + every] if like.is_cuda else pool.narrow(0, int(place), size)
        # so that the variance is that of the faded rate
        return torch.lerp(self._one, mask.view_as(like.mT).mT, self._now(self._strength))

    def _draw_pool(self, size: int) -> Tensor:
        """Numbers of which masks of up to some size are parts."""
        if not self.settings.dropout:
            return self.flat.new_zeros(1)
        if self._pool is None or len(self._pool) < _TIMES * size:
            drawn = torch.rand(max(_POOL, _TIMES * size), generator=self._source) >= self.settings.dropout
            self._pool = drawn.to(self.flat).div_(1.0 - self.settings.dropout)
        return self._pool


def _tiny(like: Tensor) -> float:
    return float(torch.finfo(like.dtype).tiny)
