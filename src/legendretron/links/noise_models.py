r"""Models of wrong labels: how the probabilities of observed labels follow from those of the true ones.

An observed label is drawn from the row of a **transition matrix** :math:`T` that belongs to the true class:
:math:`T_{ij} = P(\text{observed } j \mid \text{true } i)`. So the observed probabilities are :math:`q = T^\top p`.
"""

from __future__ import annotations

import math
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from legendretron._internal.parameters import ParameterError
from legendretron._internal.process_groups import is_sharded, whole
from legendretron._internal.start import blank, set_start
from legendretron._internal.validation import (
    at_least_single,
    check_float_tensor,
    check_integer,
    check_run_shape,
    has_values,
)

#: Most classes for products with a matrix in logarithms: exact, but with C times the memory.
_FEW_CLASSES = 100


class LabelNoise(nn.Module, ABC):
    """How true labels become observed ones, whatever the features.

    Parameters
    ----------
    n_classes : int
        ``C``.
    learned : bool
        Whether the noise is a parameter, to be learned from data, or known and a buffer.
    run_shape : tuple of int
        Run axes, see :class:`~legendretron.links.Link`.

    Examples
    --------
    >>> noise = SymmetricNoise(2, rate=0.2)  # a subclass
    >>> log_q = noise.log_observed(torch.log(torch.tensor([[1.0, 0.0]])))  # of observed labels
    >>> bool(log_q.exp()[0, 0] < 1.0)
    True
    """

    #: Name in saved settings.
    kind: str = ""

    def __init__(self, n_classes: int, learned: bool, run_shape: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.n_classes = check_integer("n_classes", n_classes, 2)
        self.learned = bool(learned)
        self.run_shape = check_run_shape(run_shape)

    def _keep(self, name: str, value: Tensor) -> None:
        if self.learned:
            start = torch.broadcast_to(value, (*self.run_shape, *value.shape)).clone()
            self.register_parameter(name, nn.Parameter(start))
        else:
            self.register_buffer(name, value.clone())

    @abstractmethod
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Restore the start of the constructor, or what is known, also in memory that holds no values yet.

        Nothing is drawn. Of noise that is sharded over processes, all of them must call it.
        """

    @abstractmethod
    def matrix(self, dtype: torch.dtype | None = None) -> Tensor:
        """The transition matrix, ``(*run_shape, C, C)`` if it is learned, else ``(C, C)``; in this precision at least."""

    @abstractmethod
    def log_observed(self, log_p: Tensor) -> Tensor:
        """Logarithms of observed probabilities from those of the true ones, ``(*run_shape, n, C)``."""

    @abstractmethod
    def log_clean(self, log_q: Tensor) -> Tensor:
        """The inverse of :meth:`log_observed`; a ``ValueError`` where there are no such true probabilities."""

    @property
    @abstractmethod
    def keeps_canonical(self) -> bool:
        """Whether the observed side of every canonical link is canonical as well."""

    def log_posterior(self, log_p: Tensor, labels: Tensor) -> Tensor:
        r"""Log-probabilities of the true classes, given the observed labels.

        .. math:: P(\text{true } i \mid \text{observed } y) = p_i T_{iy} / \sum_k p_k T_{ky}

        Parameters
        ----------
        log_p : Tensor of shape ``(*run_shape, n, C)``
            Log-probabilities without knowledge of the label.
        labels : Tensor of shape ``(*run_shape, n)``
            Observed labels.
        """
        log_matrix = torch.log(self.matrix())
        columns = log_matrix.transpose(-1, -2).expand(*labels.shape[:-1], -1, -1)  # (..., observed, true)
        index = labels.unsqueeze(-1).expand(*labels.shape, self.n_classes)
        joint = log_p + torch.gather(columns, -2, index)
        return joint - torch.logsumexp(joint, -1, keepdim=True)

    def log_right(self, log_p: Tensor, labels: Tensor) -> Tensor:
        r"""Logarithms of the probabilities that observed labels are the true ones, :math:`p_y T_{yy} / q_y`: ``(..., n)``."""
        return torch.gather(self.log_posterior(log_p, labels), -1, labels.unsqueeze(-1)).squeeze(-1)

    def extra_repr(self) -> str:
        """Classes, and whether the noise is learned."""
        return f"n_classes={self.n_classes}, learned={self.learned}"


class SymmetricNoise(LabelNoise):
    r"""A share :math:`\epsilon` of the labels is replaced by classes drawn uniformly at random.

    .. math:: q = (1 - \epsilon)\, p + \epsilon / C

    The simplex is shrunk towards its center: no observed probability is below :math:`\epsilon / C`, and no log-loss above
    :math:`\log(C / \epsilon)`. Since a label can be replaced by itself, the share of wrong labels is
    :math:`\epsilon (C - 1) / C`.

    Parameters
    ----------
    n_classes : int
        ``C``.
    rate : float
        :math:`\epsilon`, at least 0 and below 1. If learned, the initial value, which must be above 0.
    learned : bool
        Whether to learn the rate.
    run_shape : tuple of int
        Run axes.
    device, dtype : optional
        Device and dtype of the tensor.

    Examples
    --------
    >>> import torch
    >>> noise = SymmetricNoise(4, rate=0.2, learned=False)
    >>> noise.log_observed(torch.tensor([[1.0, 0.0, 0.0, 0.0]]).log()).exp()
    tensor([[0.8500, 0.0500, 0.0500, 0.0500]])
    """

    kind = "symmetric"

    def __init__(
        self,
        n_classes: int,
        rate: float = 0.1,
        *,
        learned: bool = True,
        run_shape: tuple[int, ...] = (),
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(n_classes, learned, run_shape)
        rate = _check_rate(rate, learned)
        self._start = math.log(rate) - math.log1p(-rate) if rate > 0.0 else -math.inf
        # one entry, since fully_shard refuses scalars
        self._keep("raw_rate", torch.tensor([self._start], device=device, dtype=dtype or torch.get_default_dtype()))

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """See :meth:`LabelNoise.reset_parameters`."""
        raw: Any = self.raw_rate
        set_start(raw, blank(raw).fill_(self._start))

    def rate(self) -> Tensor:
        r""":math:`\epsilon`, of shape ``run_shape`` if it is learned."""
        return torch.sigmoid(self._raw()).squeeze(-1)

    def _raw(self, dtype: torch.dtype | None = None) -> Tensor:
        return _widen(self.raw_rate, dtype)

    def matrix(self, dtype: torch.dtype | None = None) -> Tensor:
        """See :meth:`LabelNoise.matrix`."""
        return _symmetric_matrix(torch.sigmoid(self._raw(dtype)).squeeze(-1), self.n_classes)

    def _log_parts(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """``log(1 - eps)`` and ``log(eps / C)``, to go with rows of probabilities."""
        raw = self._raw(like.dtype).unsqueeze(-1).to(like.device)
        return logsigmoid(-raw), logsigmoid(raw) - math.log(self.n_classes)

    def log_observed(self, log_p: Tensor) -> Tensor:
        """See :meth:`LabelNoise.log_observed`."""
        kept, floor = self._log_parts(log_p)
        joint, floor = log_p + kept, floor.expand_as(log_p)
        if self.learned:
            return torch.logaddexp(joint, floor)
        return _log_sum_where_possible(
            (joint == -math.inf) & (floor == -math.inf), lambda p: torch.logaddexp(p, floor), joint
        )

    def log_right(self, log_p: Tensor, labels: Tensor) -> Tensor:
        """See :meth:`LabelNoise.log_right`; without a matrix."""
        kept, floor = self._log_parts(log_p)
        log_p_label = torch.gather(log_p, -1, labels.unsqueeze(-1))
        return (log_p_label + torch.logaddexp(kept, floor) - self.log_observed(log_p_label)).squeeze(-1)

    def log_clean(self, log_q: Tensor) -> Tensor:
        """See :meth:`LabelNoise.log_clean`."""
        kept, floor = self._log_parts(log_q)
        share = torch.exp(floor - log_q)  # of an observed probability that is the floor
        if has_values(share) and bool((share.detach() >= 1.0).any()):
            least = float(self.rate().detach().max()) / self.n_classes
            raise _impossible(f"every class has at least {least:.3g}", (floor.exp() - log_q.exp()).detach().max())
        return log_q + torch.log1p(-share) - kept

    @property
    def keeps_canonical(self) -> bool:
        """Always."""
        return True

    def extra_repr(self) -> str:
        """Rate, and whether it is learned."""
        raw: Any = self.raw_rate
        # one process alone must not wait for others
        known = raw.numel() == 1 and has_values(raw) and not is_sharded(raw)
        rate = f"{float(self.rate().detach()):.3g}" if known else "..."
        return f"n_classes={self.n_classes}, rate={rate}, learned={self.learned}"


class TransitionNoise(LabelNoise):
    r"""Class-dependent label noise, given by a transition matrix :math:`T`.

    .. math:: q = T^\top p

    The log-loss of ``q`` is strictly proper for ``p`` if :math:`T` is invertible. The observed side of every canonical link
    is canonical if and only if :math:`T = (1 - \epsilon) I + \epsilon 1 \pi^\top`, that is, if labels are replaced at random
    by draws from one distribution :math:`\pi`, whatever they were. (The Jacobian :math:`J` of the first ``C - 1``
    probabilities is multiplied by :math:`A_{ji} = T_{ij} - T_{Cj}`. If :math:`A J` is symmetric for every symmetric
    :math:`J`, then :math:`A` is a multiple of the identity.)

    Parameters
    ----------
    matrix : array-like of shape (C, C)
        Rows are true classes and sum to 1. If learned, the initial value, which must not contain zeros.
    learned : bool
        Whether to learn the matrix.
    run_shape : tuple of int
        Run axes.
    device, dtype : optional
        Device and dtype of the tensor.

    Examples
    --------
    >>> import torch
    >>> noise = TransitionNoise([[0.9, 0.1], [0.3, 0.7]])
    >>> noise.log_observed(torch.tensor([[1.0, 0.0], [0.0, 1.0]]).log()).exp()
    tensor([[0.9000, 0.1000],
            [0.3000, 0.7000]])
    """

    kind = "class-conditional"

    def __init__(
        self,
        matrix: Any,
        *,
        learned: bool = False,
        run_shape: tuple[int, ...] = (),
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        # on the CPU, so that values survive where networks are built on the device "meta"
        given = matrix if isinstance(matrix, Tensor) else torch.as_tensor(matrix, device="cpu")
        given = given.to(dtype or torch.get_default_dtype()) if not given.is_floating_point() or dtype else given
        if given.dim() != 2 or given.shape[0] != given.shape[1] or len(given) < 2:
            raise ValueError(f"matrix must be of shape (C, C) with C >= 2, got {tuple(given.shape)}.")
        super().__init__(len(given), learned, run_shape)
        #: The matrix, or a rate of symmetric noise; None if it was given without values.
        self._start: Tensor | float | None = None
        if has_values(given):
            _check_matrix(given, learned)
            self._start = given.detach().cpu().clone()
        self._keep("log_matrix", torch.log(torch.as_tensor(given, device=device)))

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """See :meth:`LabelNoise.reset_parameters`."""
        raw: Any = self.log_matrix
        start = self._start
        if start is None:
            raise ValueError(
                "matrix was given on the device 'meta', without values, so that there is no start to restore; give it as "
                "a tensor on another device, or as a list."
            )
        if isinstance(start, float):
            start = _symmetric_matrix(torch.tensor(start, dtype=raw.dtype, device=raw.device), self.n_classes)
        set_start(raw, torch.log(start).expand(raw.shape))

    def _log_matrix(self, dtype: torch.dtype | None = None) -> Tensor:
        raw = _widen(self.log_matrix, dtype)
        # learned rows need not be normalized
        return torch.log_softmax(raw, dim=-1) if self.learned else raw

    def matrix(self, dtype: torch.dtype | None = None) -> Tensor:
        """See :meth:`LabelNoise.matrix`."""
        return torch.exp(self._log_matrix(dtype))

    def log_observed(self, log_p: Tensor) -> Tensor:
        """See :meth:`LabelNoise.log_observed`."""
        log_matrix = self._log_matrix(log_p.dtype)
        if self.n_classes <= _FEW_CLASSES:
            joint = log_p.unsqueeze(-1) + log_matrix.unsqueeze(-3)
            if self.learned:
                return torch.logsumexp(joint, dim=-2)
            return _log_sum_where_possible((joint == -math.inf).all(-2), lambda p: torch.logsumexp(p, dim=-2), joint)
        q = torch.exp(log_p) @ torch.exp(log_matrix)
        return torch.log(q.clamp(min=torch.finfo(q.dtype).tiny))

    def log_clean(self, log_q: Tensor) -> Tensor:
        """See :meth:`LabelNoise.log_clean`."""
        p = torch.linalg.solve(self.matrix(log_q.dtype), torch.exp(log_q), left=False)
        low = p.detach().min() if p.numel() and has_values(p) else None
        if low is not None and not bool(low > 0.0):
            raise _impossible("they are mixtures of the rows of its matrix", -low)
        return torch.log(p)

    @property
    def keeps_canonical(self) -> bool:
        """For two classes, if true labels are the likelier ones; not in general for more."""
        if self.n_classes > 2:
            return False
        matrix = self.matrix().detach()
        return not has_values(matrix) or bool((torch.linalg.det(matrix) > 0.0).all())


def make_noise(
    kind: object,
    n_classes: int,
    rate: float = 0.1,
    *,
    learned: bool,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> LabelNoise:
    """A model of wrong labels by its name, ``"symmetric"`` or ``"class-conditional"``, that starts as symmetric noise."""
    symmetric = SymmetricNoise(
        n_classes, rate, learned=learned and kind == SymmetricNoise.kind, device=device, dtype=dtype
    )
    if kind == SymmetricNoise.kind:
        return symmetric
    if kind != TransitionNoise.kind:
        raise ValueError(f"noise must be {SymmetricNoise.kind!r} or {TransitionNoise.kind!r}, got {kind!r}.")
    noise = TransitionNoise(symmetric.matrix(), learned=learned, device=device, dtype=dtype)
    noise._start = rate  # and not the matrix, which is large for many classes
    return noise


def wrong_share(rate: float, n_classes: int) -> float:
    """Share of wrong labels if a share is replaced at random, by any class alike.

    Examples
    --------
    >>> wrong_share(0.5, 2)
    0.25
    """
    return rate * (n_classes - 1) / n_classes


def replaced_share(wrong: float, n_classes: int) -> float:
    """The reverse of :func:`wrong_share`."""
    return wrong * n_classes / (n_classes - 1)


def share_of_wrong_labels(matrix: np.ndarray, observed: np.ndarray) -> float:
    """Share of wrong labels by a transition matrix, from the shares of the observed classes.

    Those of the true classes solve a linear system.
    """
    true = np.clip(np.linalg.lstsq(matrix.T, observed, rcond=None)[0], 1e-12, None)
    return float(1.0 - (true / true.sum()) @ np.diag(matrix))


def mix_with_uniform(log_p: Tensor, rate: Tensor) -> Tensor:
    r"""Return :math:`\log\bigl((1 - \epsilon) p + \epsilon / C\bigr)` for log-probabilities ``(..., C)``."""
    return torch.logaddexp(log_p + torch.log1p(-rate), torch.log(rate / log_p.shape[-1]))


def observed_loss(nll: Tensor, rate: Tensor | float, n_classes: int) -> tuple[Tensor, Tensor]:
    """Log-loss of observed labels from that of true ones, and the probability that the label has not been replaced."""
    p_kept = (1.0 - rate) * torch.exp(-nll)
    q = p_kept + rate / n_classes
    return -torch.log(q), p_kept / q


def known_noise(
    label_noise: Any,
    n_classes: int,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> SymmetricNoise | TransitionNoise:
    """Noise that users know: a share of wrong labels, or a transition matrix of shape (C, C).

    Examples
    --------
    >>> known_noise(0.3, 4)
    SymmetricNoise(n_classes=4, rate=0.4, learned=False)
    """
    if isinstance(label_noise, np.ndarray | Tensor) and label_noise.ndim == 0:
        label_noise = label_noise.item()
    if isinstance(label_noise, Real) and not isinstance(label_noise, bool):
        most = (n_classes - 1) / n_classes
        if not 0.0 <= float(label_noise) < most:
            raise ParameterError(
                "label_noise",
                f"must be a share of wrong labels from 0 to below {most:.3g} for {n_classes} classes, got "
                f"{label_noise!r}: beyond that, labels carry no information, or are mostly wrong. Give such noise as "
                "a matrix.",
            )
        rate = replaced_share(float(label_noise), n_classes)
        return SymmetricNoise(n_classes, rate, learned=False, device=device, dtype=dtype)
    try:
        matrix = label_noise if isinstance(label_noise, Tensor) else np.asarray(label_noise, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.empty(0)  # as any other value of the wrong shape
    if tuple(matrix.shape) != (n_classes, n_classes):
        raise ParameterError(
            "label_noise",
            "must be a share of wrong labels such as 0.2, or a matrix of transition probabilities of shape "
            f"({n_classes}, {n_classes}), a row for each true class, got {reprlib.repr(label_noise)}.",
        )
    try:
        return TransitionNoise(matrix, device=device, dtype=dtype)
    except ValueError as error:
        raise ParameterError("label_noise", f"is not a matrix of transition probabilities: {error}") from error


def _widen(raw: Any, dtype: torch.dtype | None) -> Tensor:
    """What is kept of noise, in float32 at least, and in the precision of what it is applied to if that is higher.

    So all formulas have the same noise, to the last digit of the link.
    """
    raw = at_least_single(whole(raw))  # a head that is split by class has it on all processes
    return raw.double() if dtype == torch.float64 else raw


def _impossible(bounds: str, beyond: Tensor) -> ValueError:
    return ValueError(
        f"p holds observed probabilities that no true ones can give: with this noise, {bounds}, got a class "
        f"{float(beyond):.3g} beyond. Give probabilities inside these bounds, or use the link of the clean labels."
    )


def _log_sum_where_possible(never: Tensor, log_sum: Callable[[Tensor], Tensor], joint: Tensor) -> Tensor:
    """Logarithms of sums, minus infinity where all of one is never observed: there torch's gradient is NaN, ours is 0.

    That needs a masked class, and known noise that never leads to it.
    """
    within = never if joint.dim() == never.dim() else never.unsqueeze(-2)
    return log_sum(joint.masked_fill(within, 0.0)).masked_fill(never, -math.inf)


def _symmetric_matrix(rate: Tensor, n_classes: int) -> Tensor:
    """``(1 - rate) I + rate / C``: (*runs) -> (*runs, C, C)."""
    rate = rate[..., None, None]
    eye = torch.eye(n_classes, dtype=rate.dtype, device=rate.device)
    return (1.0 - rate) * eye + rate / n_classes


def _check_rate(rate: float, learned: bool) -> float:
    number = isinstance(rate, int | float) and not isinstance(rate, bool)
    if not number or not 0.0 <= rate < 1.0:
        raise ValueError(
            f"rate must be a number from 0 to below 1, the share of labels that is replaced, got {rate!r}."
        )
    if learned and rate == 0.0:
        raise ValueError("rate must be above 0 to be learned, since its gradient vanishes at 0; try 0.1.")
    return float(rate)


def _check_matrix(matrix: Tensor, learned: bool) -> None:
    check_float_tensor("matrix", matrix)
    values = matrix.double()
    if not bool(torch.isfinite(values).all()) or bool((values < 0.0).any()):
        raise ValueError("matrix must contain probabilities: finite, and none below 0.")
    sums = values.sum(1)
    if bool((sums - 1.0).abs().max() > 1e-4):
        worst = int((sums - 1.0).abs().argmax())
        raise ValueError(
            f"matrix must have rows that sum to 1, one for each true class, but row {worst} sums to {float(sums[worst]):.6g}."
        )
    if learned and bool((values == 0.0).any()):
        raise ValueError("matrix must be above 0 everywhere to be learned, since gradients vanish at 0.")
    if not learned and float(torch.linalg.cond(values)) > 1e8:
        raise ValueError(
            "matrix must be invertible: otherwise different true probabilities give the same observed ones, and "
            "labels cannot distinguish them."
        )
