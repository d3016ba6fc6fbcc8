"""Models for many runs at once, with all parameters in one block of memory, and quadratic penalties on these."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from legendretron._internal.chunks import chunks
from legendretron.accelerate.forms import trained_form
from legendretron.accelerate.steps import NLLStep, nll_step
from legendretron.links import Link, stack_runs, take_run
from legendretron.simplex import predicted_class
from legendretron.training.features import Features
from legendretron.training.layout import thread_count
from legendretron.training.problem import Sample, TrainingSettings


class StepArrays(NamedTuple):
    """Memory that compiled steps work on, and what else they need."""

    features: np.ndarray | tuple[np.ndarray, ...] | None  #: None if they are of another kind or precision
    state: tuple[np.ndarray, ...]  #: parameters, moments of Adam and their count
    totals: np.ndarray  #: sums of losses and of hits
    penalty: tuple[np.ndarray, ...] | None  #: strengths, those of what weights share, and the center of the link's
    numbers: tuple[float, float, float]  #: decay of the moments, and what keeps their root from 0
    n_rows: int  #: of a batch


class Model(ABC):
    r"""``R`` models side by side, each a predictor and a link, as the engine trains them.

    All parameters of run ``r`` are row ``r`` of :attr:`flat`, and the tensors of the model are views of it: an
    optimizer is a handful of operations on one matrix, however many tensors there are, and each run can have its own
    rate and penalty.

    ``parts`` of shape (R, ...) are the start of the parameters; ``link`` maps predictors to probabilities.
    """

    n_features: int

    def __init__(self, parts: Sequence[Tensor], link: Link) -> None:
        self.link = link
        self.n_runs, self.n_outputs = len(parts[0]), link.n_classes - 1
        self.shapes = [tuple(part.shape[1:]) for part in parts]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.flat = torch.cat([part.reshape(self.n_runs, -1) for part in parts], dim=1)

    def views(self, flat: Tensor) -> list[Tensor]:
        """Return the tensors of the model as views of a matrix like :attr:`flat`."""
        parts = flat.split(self.sizes, dim=1)
        return [part.view(self.n_runs, *shape) for part, shape in zip(parts, self.shapes, strict=True)]

    @abstractmethod
    def n_multiplications(self, n_rows: float) -> float:
        """Approximate number of multiplications of a step."""

    def row_chunks(self, n: int) -> list[slice]:
        """Rows to take at once of ``n`` of every run."""
        return chunks(n, self.n_runs * (self.n_outputs + 1))

    def initialize_link(self, batch: Sample, n_rows: int, *, across_ranks: bool = False) -> None:  # noqa: B027
        """Initialize what depends on a first batch, if something does.

        With ``across_ranks`` it holds the rows of this process, of ``n_rows`` on all.
        """

    def mutable_tensors(self) -> list[Tensor]:
        """What a step changes beside the parameters."""
        return []

    def shrink(self, rate: Tensor) -> None:  # noqa: B027
        """Shrink parameters before a step at rates ``(R, 1)``, if they decay by themselves."""

    def advance(self, n_steps: int) -> None:  # noqa: B027
        """Count steps that compiled code has taken."""

    def compile_steps(self, arrays: StepArrays) -> Callable[..., None] | None:
        """Return a function of rows, labels, weights and rates that takes steps on the CPU; None if there is none."""
        return None

    @abstractmethod
    def loss_gradient(self, batch: Sample, gradient: Tensor, *, cleared: bool = False) -> tuple[Tensor, Tensor]:
        """Write the gradient of ``sum_i weight_i * loss_i`` into a matrix like :attr:`flat`; ``cleared`` if it is zero now.

        Returns each row's log-loss, and whether its label is the likeliest class, both of shape (R, n).
        """

    @abstractmethod
    def log_proba(self, features: Features, rows: Tensor) -> Tensor:
        """Log-probabilities of rows ``(R, n)`` of the features: ``(R, n, C)``."""

    @torch.no_grad()
    def score_sums(self, sample: Sample) -> Tensor:
        """Weighted sums of log-losses and of hits, and the sum of the weights, of each run: shape (3, R)."""
        picked, hits, weights = [], [], sample.weights
        for part in self.row_chunks(sample.rows.shape[1]):
            log_p, observed = self.log_proba(sample.features, sample.rows[:, part]), sample.labels[:, part]
            picked.append(torch.gather(log_p, -1, observed.unsqueeze(-1)).squeeze(-1))
            hits.append(predicted_class(log_p) == observed)
        if not picked:
            return weights.new_zeros(3, self.n_runs)
        loss, hit = -(torch.cat(picked, dim=1) * weights).sum(-1), (torch.cat(hits, dim=1) * weights).sum(-1)
        return torch.stack([loss, hit, weights.sum(-1)])

    def evaluate(self, sample: Sample) -> tuple[Tensor, Tensor]:
        """Weighted mean log-loss and accuracy of each run: two tensors of shape (R,)."""
        loss, hits, total = self.score_sums(sample)
        return loss / total, hits / total


class LinearModel(Model):
    r"""``R`` models :math:`p(x) = \mathrm{link}^{-1}(x W + b)` side by side.

    Parameters
    ----------
    weight, bias : Tensor of shape (R, d, K) and (R, K)
        Start of ``W`` and ``b``.
    links : sequence of Link
        Start of the ``R`` links; copied.

    Examples
    --------
    >>> from legendretron.links import SoftmaxLink
    >>> model = LinearModel(torch.zeros(2, 5, 2), torch.zeros(2, 2), [SoftmaxLink(3), SoftmaxLink(3)])
    >>> model.flat.shape  # two runs, of 5 x 2 weights and 2 intercepts
    torch.Size([2, 12])
    """

    def __init__(self, weight: Tensor, bias: Tensor, links: Sequence[Link]) -> None:
        link = stack_runs(links).to(device=weight.device, dtype=weight.dtype).requires_grad_(True)
        super().__init__([weight, bias, *(p.detach() for p in link.parameters())], link)
        self.n_features = weight.shape[1]
        self.weight, self.bias, *of_link = self.views(self.flat)
        for parameter, view in zip(self.link.parameters(), of_link, strict=True):
            parameter.data = view

    def n_multiplications(self, n_rows: float) -> float:
        """See :class:`Model`."""
        return 2.0 * self.n_runs * n_rows * self.n_features * self.n_outputs

    @property
    def n_weights(self) -> int:
        """Entries of ``W`` in a row of :attr:`flat`; those of ``b`` follow, then those of the link."""
        return self.sizes[0]

    @property
    def n_linear(self) -> int:
        """Entries of ``W`` and ``b``."""
        return self.sizes[0] + self.sizes[1]

    @torch.no_grad()
    def initialize_link(self, batch: Sample, n_rows: int, *, across_ranks: bool = False) -> None:
        """See :class:`Model`; a single row changes nothing."""
        if n_rows < 2:
            self.link.keep_start()  # no variance to take; initialized later, it would undo what has been trained until then
            return
        z, _ = batch.features.product(batch.rows, self.weight, self.bias.unsqueeze(1))
        self.link.initialize(z, batch.weights, across_ranks=across_ranks)

    @cached_property
    def nll_step(self) -> NLLStep:
        """The function that computes loss and derivatives of the link."""
        return nll_step(self.link, self.flat)

    @torch.no_grad()
    def loss_gradient(self, batch: Sample, gradient: Tensor, *, cleared: bool = False) -> tuple[Tensor, Tensor]:
        """See :class:`Model`."""
        z, write_gradient = batch.features.product(batch.rows, self.weight, self.bias.unsqueeze(1))
        nll, hit, dz, of_link = self.nll_step(z, batch.labels, batch.weights)
        runs, n_weights = self.n_runs, self.n_weights
        write_gradient(dz, gradient[:, :n_weights].view(runs, self.n_features, self.n_outputs), cleared)
        rest = [dz.sum(1), *(part.reshape(runs, -1) for part in of_link)]
        gradient[:, n_weights:] = torch.cat(rest, dim=1) if of_link else rest[0]
        return nll, hit

    def compile_steps(self, arrays: StepArrays) -> Callable[..., None] | None:
        """See :class:`Model`."""
        form, (features, state, totals, penalty, numbers, n_rows) = trained_form(self.link), arrays
        if form is None or features is None or penalty is None:
            return None
        # compiled steps use one thread: plain operations are faster where a product with W is worth several
        product = 2.0 * n_rows * self.n_features * self.n_outputs
        if isinstance(features, np.ndarray) and thread_count(product, torch.get_num_threads()) > 1:
            return None
        from legendretron.accelerate.cpu.training import CompiledTraining

        return CompiledTraining(features, state, totals, penalty, form, n_rows, numbers)

    @torch.no_grad()
    def log_proba(self, features: Features, rows: Tensor, link: Link | None = None) -> Tensor:
        """See :class:`Model`; another link may take the place of the model's."""
        z, _ = features.product(rows, self.weight, self.bias.unsqueeze(1))
        return (link or self.link)._log_proba(z)

    def sum_over_classes(self, tensor: Tensor) -> Tensor:
        """Sum over the processes that classes are divided over; the tensor itself, as here they are not."""
        return tensor

    def take(self, run: int) -> tuple[Tensor, Tensor, Link]:
        """Weight ``(d, K)``, bias ``(K,)`` and link of one run, as copies."""
        link = take_run(self.link, run)
        return self.weight[run].clone(), self.bias[run].clone(), link


class Penalty:
    r"""Half of :math:`\alpha |W|^2 + \alpha_{\text{link}} |\theta|^2`, and of :math:`\alpha |b|^2` if asked.

    With ``symmetric`` the penalty on ``W`` is the one of logistic regression with a weight vector for every class,
    :math:`\sum_{k \le C} |w_k - \bar w|^2` with :math:`w_C = 0`: the same whichever class is the reference. It is the
    least penalty among all ways to write the same probabilities. For two classes it would be half of :math:`|W|^2`; there
    the plain one is used, as scikit-learn does.

    With ``centred`` the link's parameters are penalized by their distance from ``link.penalty_centre()``, and not from 0.
    Strengths, these switches and ``penalize_intercept`` are those of the settings.
    """

    def __init__(self, model: LinearModel, settings: TrainingSettings) -> None:
        self.model = model
        self.symmetric = settings.symmetric and model.n_outputs > 1
        alpha = settings.alpha.to(model.flat)
        bias_alpha = alpha if settings.penalize_intercept else torch.zeros_like(alpha)
        #: Strengths on the weights, the bias and the link's parameters, and the columns where the first two end.
        self.strengths = torch.stack([alpha, bias_alpha, settings.link_alpha.to(model.flat)], dim=1)
        self.bounds = model.n_weights, model.n_linear
        #: Number of parameters at the end that are not penalized.
        self.n_free = _count_free(model)
        self.active = bool(self.strengths.any())
        #: Where the penalty on the link's parameters vanishes, in their order, without the free ones; empty if at 0.
        self.center = _find_center(model, self.n_free) if settings.centred else model.flat.new_zeros(0)

    @cached_property
    def strength(self) -> Tensor:
        """What each parameter is multiplied by; made when asked for, as it is as large as all parameters."""
        n_weights, n_linear = self.bounds
        strength = torch.empty_like(self.model.flat)
        for column, part in enumerate(strength.tensor_split([n_weights, n_linear], dim=1)):
            part.copy_(self.strengths[:, column : column + 1])
        strength[:, strength.shape[1] - self.n_free :] = 0.0
        return strength

    def shared_gradient(self) -> Tensor | None:
        """What ``symmetric`` subtracts from the gradients of all weights of a feature: (R, d), or nothing."""
        if not self.symmetric:
            return None
        return self.model.sum_over_classes(self.model.weight.sum(-1) * self.shared_strength()[:, None])

    def shared_strength(self) -> Tensor:
        """Factor on the sum of the weights of a feature in :meth:`shared_gradient`, shape (R,); 0 if not ``symmetric``."""
        return self.strengths[:, 0] * (self.symmetric / (self.model.n_outputs + 1))

    def add_gradient(self, gradient: Tensor) -> None:
        """Add the penalty's gradient to one of the same layout as ``model.flat``."""
        if not self.active:
            return
        gradient.addcmul_(self.strength, self.model.flat)
        self.add_center(gradient)
        shared = self.shared_gradient()
        if shared is not None:
            self.model.views(gradient)[0].sub_(shared.unsqueeze(-1))

    def add_center(self, gradient: Tensor) -> None:
        """Add what the center changes in the penalty's gradient."""
        if len(self.center):
            self._of_link(gradient).sub_(self.strengths[:, 2:] * self.center)

    def _of_link(self, flat: Tensor) -> Tensor:
        """Columns of the link's penalized parameters, in a matrix like ``model.flat``."""
        return flat[:, self.model.n_linear : flat.shape[1] - self.n_free]

    def spare_free(self, gradient: Tensor) -> None:
        """Subtract what code that penalizes all parameters alike will add to the gradients of the free ones."""
        if self.n_free:
            free = slice(gradient.shape[1] - self.n_free, None)
            gradient[:, free] -= self.strengths[:, 2:] * self.model.flat[:, free]

    def value(self) -> Tensor:
        """The penalty of each run, shape (R,)."""
        value = 0.5 * (self.strength * self.model.flat.square()).sum(1)
        if len(self.center):
            away = self.center * (self.center - 2.0 * self._of_link(self.model.flat))
            value = value + 0.5 * self.strengths[:, 2] * away.sum(1)
        if self.symmetric:
            value = value - 0.5 * self.shared_strength() * self.model.weight.sum(-1).square().sum(-1)
        return value


def _count_free(model: LinearModel) -> int:
    names, free = [name for name, _ in model.link.named_parameters()], model.link.unpenalized()
    if tuple(names[len(names) - len(free) :]) != tuple(free):
        raise ValueError(f"unpenalized() of {type(model.link).__name__} must name its last parameters, got {free}.")
    return sum(model.sizes[2 + len(names) - len(free) :])


def _find_center(model: LinearModel, n_free: int) -> Tensor:
    """Values of the link's parameters at which a centered penalty vanishes; empty if all are 0."""
    centre = model.link.penalty_centre()
    if not centre:
        return model.flat.new_zeros(0)
    parameters = zip(model.link.named_parameters(), model.sizes[2:], strict=True)
    values = torch.cat([model.flat.new_full((size,), centre.get(name, 0.0)) for (name, _), size in parameters])
    return values[: len(values) - n_free]
