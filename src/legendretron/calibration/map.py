"""Map of a classifier's scores to calibrated log-probabilities."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn

from legendretron._internal.fields import array, check_fields
from legendretron._internal.validation import check_integer, check_last_axis
from legendretron.links.noise_models import mix_with_uniform


def with_floor(scores: Tensor, inverse_temperature: Tensor | float, floor: Tensor) -> Tensor:
    r"""Return :math:`s = \log\bigl((1 - \epsilon)\,\mathrm{softmax}(\tau x) + \epsilon / C\bigr)` along the last axis."""
    return mix_with_uniform(torch.log_softmax(inverse_temperature * scores, dim=-1), floor)


class CalibrationMap(nn.Module):
    r"""Calibrated log-probabilities from logits or log-probabilities of a classifier.

    .. math::

        s = \log\bigl((1 - \epsilon)\,\mathrm{softmax}(\tau x) + \epsilon / C\bigr), \qquad
        z = A s + B e^s + b, \qquad \log p = \mathrm{log\,softmax}(z).

    The matrices are diagonal plus low rank: :math:`A = \mathrm{diag}(a) + U V^\top`, where the columns of :math:`V` are
    orthonormal directions in the space of scores, shared by all classes; :math:`B` likewise.

    A new map is the identity on probabilities, except for the floor. All that is learned is stored in buffers, not in
    parameters: a network that ends in the map can be trained further without changing the map.

    Parameters
    ----------
    n_classes : int
        ``C``.
    rank : int
        Number of columns of :math:`V`; 0 for diagonal matrices.
    ordered : bool
        Whether to enforce the order of the classes in a row despite rounding: a class with a higher score never gets a lower
        probability. For :math:`A` and :math:`B` that are multiples of the identity and give an increasing function.
    dtype : torch.dtype
        Precision of the buffers.

    Examples
    --------
    >>> x = torch.tensor([[2.0, 0.0, -1.0]], dtype=torch.float64)
    >>> bool(torch.allclose(CalibrationMap(3)(x), torch.log_softmax(x, -1), atol=1e-6))
    True
    """

    inverse_temperature: Tensor
    floor: Tensor
    slope: Tensor
    rise: Tensor
    bias: Tensor
    directions: Tensor
    mixing: Tensor

    def __init__(
        self, n_classes: int, *, rank: int = 0, ordered: bool = False, dtype: torch.dtype = torch.float64
    ) -> None:
        super().__init__()
        self.n_classes = check_integer("n_classes", n_classes, 2)
        self.rank, self.ordered = check_integer("rank", rank, 0), bool(ordered)
        one = torch.ones((), dtype=dtype)
        self.register_buffer("inverse_temperature", one)
        self.register_buffer("floor", 1e-12 * one)
        self.register_buffer("slope", torch.ones(n_classes, dtype=dtype))
        self.register_buffer("rise", torch.zeros(n_classes, dtype=dtype))
        self.register_buffer("bias", torch.zeros(n_classes, dtype=dtype))
        self.register_buffer("directions", torch.zeros(2, n_classes, rank, dtype=dtype))  # of s, and of exp(s)
        self.register_buffer("mixing", torch.zeros(2, rank, n_classes, dtype=dtype))

    def forward(self, scores: Tensor) -> Tensor:
        """Log-probabilities ``(..., C)`` of scores ``(..., C)``: logits, or logarithms of probabilities."""
        scores = check_last_axis("scores", scores, self.n_classes).to(self.bias.dtype)
        # differences within a row are all that matters, and may be as large as the numbers themselves
        scores = scores - scores.amax(-1, keepdim=True)
        z = self.apply_to_floored(with_floor(scores, self.inverse_temperature, self.floor))
        if self.ordered:
            z = _restore_order(scores, z)
        return torch.log_softmax(z, dim=-1)

    def apply_to_floored(self, s: Tensor) -> Tensor:
        """:math:`z = A s + B e^s + b`."""
        p = s.exp()
        z = s * self.slope + p * self.rise + self.bias
        if self.rank:
            z = z + s @ self.directions[0] @ self.mixing[0] + p @ self.directions[1] @ self.mixing[1]
        return z

    def predict_proba(self, scores: Tensor) -> Tensor:
        """Probabilities ``(..., C)``."""
        return self(scores).exp()

    @classmethod
    def from_state(cls, state: dict[str, Any], n_classes: int, *, ordered: bool) -> Self:
        """Rebuild a map from its state dict; anything else raises a ``ValueError``."""
        scalar, row = array(), array(n_classes)
        fields = {"inverse_temperature": scalar, "floor": scalar, "slope": row, "rise": row, "bias": row}
        check_fields(
            "map", state, {**fields, "directions": array(2, n_classes, None), "mixing": array(2, None, n_classes)}
        )
        rank = state["directions"].shape[2]
        if rank > (0 if ordered else n_classes) or state["mixing"].shape[1] != rank:
            raise ValueError(
                f"rank must be at most the number of classes, and 0 where the order is preserved, got {rank}."
            )
        if not 0.0 < float(state["floor"]) < 1.0 or not float(state["inverse_temperature"]) > 0.0:
            raise ValueError("floor must be between 0 and 1, and inverse_temperature positive.")
        found = cls(n_classes, rank=rank, ordered=ordered)
        found.load_state_dict(state)
        return found.eval()

    def extra_repr(self) -> str:
        """Sizes and kind, for ``repr``."""
        return f"n_classes={self.n_classes}, rank={self.rank}, ordered={self.ordered}"


def _restore_order(scores: Tensor, z: Tensor) -> Tensor:
    """Values that are in the order of the scores but for rounding, exactly in that order: each at least those below."""
    order = scores.argsort(dim=-1)
    raised, reach = z.gather(-1, order), 1
    while reach < z.shape[-1]:  # a running maximum in few steps, which ONNX can express
        raised = torch.cat([raised[..., :reach], torch.maximum(raised[..., reach:], raised[..., :-reach])], dim=-1)
        reach *= 2
    return torch.zeros_like(z).scatter(-1, order, raised)
