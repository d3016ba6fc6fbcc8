r"""Quadratic penalties on the parameters, one strength per run."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from legendretron.training.model import LinearModel
from legendretron.training.problem import TrainingSettings


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
