"""The rows of a training step by Triton kernels: predictors in, gradients of all parameters but ``W`` out."""

from __future__ import annotations

from torch import Tensor

from legendretron.accelerate.cuda.chain import ChainOnCUDA, StepNoise
from legendretron.accelerate.cuda.nests import NestsOnCUDA
from legendretron.accelerate.forms import LinkForm

__all__ = ["LinkStep"]


class LinkStep:
    """Gradients of the weighted log-loss of a batch, for all runs.

    Parameters
    ----------
    form : LinkForm
        What the parameters after the bias are.
    flat : Tensor of shape (R, P)
        Parameters, read in each call: ``W``, bias, those of the link.
    n_weights : int
        Entries of ``W``.
    """

    def __init__(self, form: LinkForm, flat: Tensor, n_weights: int) -> None:
        self.flat, self.n_weights = flat, n_weights
        rate = flat.new_full((1,), form.known_rate)
        self.noise = StepNoise(form.learned_rate, rate, form.known_rate > 0.0)
        self.functions = NestsOnCUDA(form, False) if form.n_nests else ChainOnCUDA(form)

    def __call__(self, z: Tensor, labels: Tensor, weight: Tensor, gradient: Tensor, totals: Tensor) -> Tensor:
        """Write gradients, add to totals, and return the gradient in the predictors, of their shape."""
        return self.functions.step(
            z.contiguous(),
            labels.contiguous(),
            weight.contiguous(),
            self.flat,
            self.n_weights,
            self.noise,
            gradient,
            totals,
        )
