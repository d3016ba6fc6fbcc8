r"""Quadratic penalties on the parameters, one strength a run."""

from __future__ import annotations

import torch
from torch import Tensor

from legendretron.training.model import LinearModel

__all__ = ["Penalty"]


class Penalty:
    r"""Half of :math:`\alpha |W|^2 + \alpha_{\text{link}} |\theta|^2`, and of :math:`\alpha |b|^2` if asked.

    With ``symmetric`` the penalty on ``W`` is the one of logistic regression with a weight vector for every class,
    :math:`\sum_{k \le C} |w_k - \bar w|^2` with :math:`w_C = 0`: the same whichever class is the reference. It is the
    least penalty among all ways to write the same probabilities. For two classes it would be half of :math:`|W|^2`; there
    the plain one is used, as scikit-learn does.

    Parameters
    ----------
    model : LinearModel
        The model.
    alpha, link_alpha : Tensor of shape (R,)
        Strengths.
    intercept : bool
        Whether the bias is penalised too.
    symmetric : bool
        See above.
    """

    def __init__(
        self, model: LinearModel, alpha: Tensor, link_alpha: Tensor, *, intercept: bool, symmetric: bool
    ) -> None:
        sizes = model.sizes
        strength = torch.zeros_like(model.flat)
        strength[:, : sizes[0]] = alpha.unsqueeze(1)
        if intercept:
            strength[:, sizes[0] : model.n_linear] = alpha.unsqueeze(1)
        strength[:, model.n_linear :] = link_alpha.unsqueeze(1)
        self.active = bool((strength != 0).any())
        # one number if all parameters of all runs are treated alike, which saves a pass over memory in every step
        self.strength = strength if bool((strength != strength[0, 0]).any()) else float(strength[0, 0])
        self.model = model
        self.symmetric = symmetric and model.n_outputs > 1
        self.alpha = alpha

    def add_gradient(self, gradient: Tensor) -> None:
        """Add the penalty's gradient to one of the same layout as ``model.flat``."""
        if not self.active:
            return
        if isinstance(self.strength, float):
            gradient.add_(self.model.flat, alpha=self.strength)
        else:
            gradient.addcmul_(self.strength, self.model.flat)
        if self.symmetric:
            shared = self.model.weight.sum(-1, keepdim=True) * (self.alpha[:, None, None] / (self.model.n_outputs + 1))
            self.model.views(gradient)[0].sub_(shared)

    def value(self) -> Tensor:
        """The penalty of each run, shape (R,)."""
        value = 0.5 * (self.strength * self.model.flat.square()).sum(1)
        if self.symmetric:
            shared = self.model.weight.sum(-1).square().sum(-1) / (self.model.n_outputs + 1)
            value = value - 0.5 * self.alpha * shared
        return value
