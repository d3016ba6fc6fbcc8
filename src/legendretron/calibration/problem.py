r"""The convex problem of calibration, many at once.

With :math:`s` the log-probabilities of all rows after temperature and floor, and :math:`p = e^s`, a run has

.. math:: z = (1 + a) s + \beta p + b + d \odot s + e \odot p + M V^\top s + N W^\top p

and minimizes the weighted log-loss of :math:`\mathrm{softmax}(z)` plus the ridge penalty

.. math::

    \tfrac{1}{n} \Bigl( \tfrac{a^2}{100} + \beta^2 \Bigr) + \tfrac{g C}{n} \Bigl( |b|^2 + |d|^2 + (C - 1)\,|M|^2
    + q |e|^2 + q |N|^2 \Bigr) .

It is linear in the parameters, so the problem is convex. The columns of :math:`V` and :math:`W` are directions in which rows
vary most, a fixed number of them: a fit takes a time in proportion to the number of classes. If there are as many as
classes, the penalties on :math:`b`, :math:`d` and :math:`M` are nearly those of structured matrix scaling (Berta and
others, 2026) at :math:`g = 1`. An infinite :math:`g` leaves out the parts with it. Labels of which a share was replaced at
random enter by the noise floor, as in :mod:`legendretron.training.logistic`.

Runs share the rows and differ by the rows' weights and by :math:`g`. All have the same metric up to :math:`g`: with the
Hessian :math:`H_c` of the part of one class at the start, and the penalty :math:`g D`, the eigenvectors of
:math:`D^{-1/2} H_c D^{-1/2}` serve every :math:`g`. L-BFGS in their coordinates takes about ten iterations.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from legendretron._internal.chunks import chunks
from legendretron.links.noise_models import observed_loss
from legendretron.training.descent import LBFGS, descend

#: Ridge of the shared scale and shape, in units of 1 / n.
_SCALE, _SHAPE = 0.01, 1.0
#: Ridge of the classes' parts in probabilities, relative to that of their biases.
_PROBABILITIES = 0.05
#: Rows from which the metric is computed; a fifth of them with many classes.
_METRIC_ROWS, _FEW_CLASSES = 10_000, 40
#: Steps of subspace iteration towards the main directions.
_SUBSPACE_STEPS = 8


class CalibrationFit(NamedTuple):
    """``R`` fitted maps."""

    shared: Tensor  #: a and beta, shape (R, 2)
    bias: Tensor  #: shape (R, C)
    slope: Tensor  #: of each class's own log-probability, shape (R, C)
    rise: Tensor  #: of its own probability, likewise
    mixing: Tensor  #: of the projections of both, shape (R, 2, rank, C)


def _directions(s: Tensor, weight: Tensor, rank: int) -> Tensor:
    """Directions in which log-probabilities, and probabilities, vary most from row to row: shape (2, C, rank).

    All if there are as many as classes. Nothing depends on labels, so that rows can be held out later.
    """
    n_classes = s.shape[1]
    if rank in (0, n_classes):
        return torch.eye(n_classes, dtype=s.dtype, device=s.device)[:, :rank].expand(2, -1, -1)
    bases = []
    for values in (s, s.exp()):
        centred = (values - weight @ values) * weight.sqrt().unsqueeze(1)
        basis = torch.randn(n_classes, rank, generator=torch.Generator().manual_seed(0), dtype=s.dtype).to(s)
        for _ in range(_SUBSPACE_STEPS):
            basis = torch.linalg.qr(centred.mT @ (centred @ basis))[0]
        bases.append(basis)
    return torch.stack(bases)


class _Features:
    """Features of one class: its log-probability and probability. Of all classes: a constant, and projections of both."""

    def __init__(self, s: Tensor, directions: Tensor) -> None:
        self.s, self.p = s, s.exp()
        self.common = torch.cat([torch.ones_like(s[:, :1]), s @ directions[0], self.p @ directions[1]], dim=1)

    def gram(self, weight: Tensor) -> Tensor:
        """Sums over rows of products of features, with weights ``(n, C)`` of the rows in each class: ``(C, F, F)``."""
        grams = []
        for s, p, row_weight in zip(self.s.unbind(1), self.p.unbind(1), weight.unbind(1), strict=True):
            x = torch.cat([s.unsqueeze(1), p.unsqueeze(1), self.common], dim=1)
            grams.append((x * row_weight.unsqueeze(1)).mT @ x)
        return torch.stack(grams)

    def forward(self, part: slice, weight: Tensor) -> Tensor:
        """``(n, R, C)`` from weights ``(R, C, F)``."""
        runs, n_classes, _ = weight.shape
        z = (self.common[part] @ weight[:, :, 2:].reshape(runs * n_classes, -1).mT).view(-1, runs, n_classes)
        for values, factor in ((self.s, weight[:, :, 0]), (self.p, weight[:, :, 1])):
            z.addcmul_(values[part].unsqueeze(1), factor.contiguous())
        return z

    def backward(self, part: slice, residual: Tensor) -> Tensor:
        n, runs, n_classes = residual.shape
        common = (residual.reshape(n, -1).mT @ self.common[part]).view(runs, n_classes, -1)
        of_class = [(residual * values[part].unsqueeze(1)).sum(0).unsqueeze(2) for values in (self.s, self.p)]
        return torch.cat([*of_class, common], dim=2)


class CalibrationMetric:
    """Coordinates in which the problem is nearly round, for all strengths, see the module.

    ``s`` of shape (n, C) are log-probabilities after temperature and floor, ``weight`` (n,) shares of the rows, ``rows`` the
    ``n`` in the penalties, and ``rank`` the number of directions in which each class sees the scores of the others.
    """

    def __init__(self, s: Tensor, weight: Tensor, rows: float, rank: int) -> None:
        n, n_classes = s.shape
        step = -(-n // (_METRIC_ROWS if n_classes <= _FEW_CLASSES else _METRIC_ROWS // 5))
        s, weight = s[::step], weight[::step] / weight[::step].sum()
        self.directions = _directions(s, weight, rank)
        features = _Features(s, self.directions)
        p = features.p
        ridge = s.new_tensor([1.0, _PROBABILITIES, 1.0, *[n_classes - 1.0] * rank, *[_PROBABILITIES] * rank])
        ridge = ridge.expand(n_classes, -1) * (2.0 * n_classes / rows)
        curvature = features.gram(p * (1.0 - p) * weight.unsqueeze(1))
        root = ridge.rsqrt()
        values, vectors = torch.linalg.eigh(root.unsqueeze(2) * curvature * root.unsqueeze(1))
        self.values = values.clamp(min=0.0)  # (C, F)
        self.basis = root.unsqueeze(2) * vectors  # (C, F, F): columns are the coordinates
        # the two that classes share
        self.shared_ridge = s.new_tensor([_SCALE, _SHAPE]) * (2.0 / rows)
        both = torch.stack([s, p], dim=2)
        both = both - (p.unsqueeze(2) * both).sum(1, keepdim=True)
        hessian = torch.einsum("nc,ncj,nck->jk", p * weight.unsqueeze(1), both, both) + torch.diag(self.shared_ridge)
        self.shared_basis = torch.linalg.inv(torch.linalg.cholesky(hessian)).mT  # (2, 2)


class CalibrationRuns:
    """Runs on the same rows, see the module. All computations are in the precision of ``s``.

    Parameters
    ----------
    s, labels, metric
        Log-probabilities (n, C) after temperature and floor, classes from 0, and the metric of the same rows.
    weights : Tensor of shape (n, R)
        Shares of the rows in each run; of all rows together they sum to 1, with some held out to less.
    strengths, shaped : Tensor of shape (R,)
        ``g``, which may be infinite; and 1 where the shared shape is learned, else 0.
    replaced : float
        Share of labels replaced at random. If not 0, the problem is not convex.
    learned : Tensor of shape (C,), optional
        Which classes get parts of their own; all if not given.
    """

    def __init__(
        self,
        s: Tensor,
        labels: Tensor,
        weights: Tensor,
        strengths: Tensor,
        shaped: Tensor,
        metric: CalibrationMetric,
        *,
        replaced: float = 0.0,
        learned: Tensor | None = None,
    ) -> None:
        self.n_classes, self.runs = s.shape[1], len(strengths)
        self.labels, self.weights = labels, weights.to(s)
        self.shared_mask = torch.stack([torch.ones_like(shaped), shaped], dim=1).to(s)
        self.replaced = replaced
        self.directions = metric.directions.to(s)
        self.features = _Features(s, self.directions)
        self.parts = chunks(len(s), self.runs * self.n_classes)
        total = metric.values + strengths[:, None, None]  # (R, C, F)
        if learned is not None:
            total[:, ~learned] = torch.inf  # as if their strength were infinite
        self.lengths = total.rsqrt().to(s)  # 0 where the strength is infinite
        self.ridge = torch.where(total.isinf(), 1.0, strengths[:, None, None] / total).to(s)
        self.basis, self.shared_basis = metric.basis.to(s), metric.shared_basis.to(s)
        self.shared_ridge = metric.shared_ridge.to(s)

    def _unpack(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Shared parameters (R, 2) and weights (R, C, F) from coordinates."""
        shared = (x[:, :2] @ self.shared_basis.mT) * self.shared_mask
        coordinates = x[:, 2:].view_as(self.lengths) * self.lengths
        return shared, torch.matmul(self.basis, coordinates.permute(1, 2, 0)).permute(2, 0, 1)

    def _add_identity(self, shared: Tensor, weight: Tensor) -> Tensor:
        """Weights of the features that make up ``z``, the scores themselves included."""
        weight = weight.clone()
        weight[:, :, :2] += (shared + shared.new_tensor([1.0, 0.0])).unsqueeze(1)
        return weight

    def _loss(self, part: slice, whole: Tensor) -> tuple[Tensor, Tensor]:
        """Log-loss (n, R), and probabilities minus the one-hot labels (n, R, C)."""
        z = self.features.forward(part, whole)
        index = self.labels[part].view(-1, 1, 1).expand(-1, self.runs, 1)
        z.sub_(z.amax(2, keepdim=True))
        picked = z.gather(2, index).squeeze(2)
        total = z.exp_().sum(2, keepdim=True)
        z.div_(total).scatter_add_(2, index, torch.full_like(total, -1.0))
        return total.squeeze(2).log_().sub_(picked), z

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Objective (R,) and its gradient, at coordinates (R, P)."""
        shared, weight = self._unpack(x)
        value = 0.5 * (self.ridge * x[:, 2:].view_as(self.ridge).square()).sum((1, 2))
        value += 0.5 * (self.shared_ridge * shared.square()).sum(1)
        whole, of_weight = self._add_identity(shared, weight), torch.zeros_like(weight)
        for part in self.parts:
            nll, residual = self._loss(part, whole)
            if self.replaced > 0.0:
                nll, unreplaced = observed_loss(nll, self.replaced, self.n_classes)
                residual.mul_(unreplaced.unsqueeze(2))
            value += (nll * self.weights[part]).sum(0)
            residual.mul_(self.weights[part].unsqueeze(2))
            of_weight += self.features.backward(part, residual)
        of_shared = self.shared_ridge * shared + of_weight[:, :, :2].sum(1)
        coordinates = torch.matmul(self.basis.mT, of_weight.permute(1, 2, 0)).permute(2, 0, 1) * self.lengths
        coordinates += self.ridge * x[:, 2:].view_as(self.ridge)
        of_shared = (of_shared * self.shared_mask) @ self.shared_basis
        return value, torch.cat([of_shared, coordinates.reshape(self.runs, -1)], dim=1)

    @torch.no_grad()
    def fit(self, start: Tensor | None = None, *, tol: float, max_iter: int = 100) -> Tensor:
        """Coordinates (R, P) at which no entry of the gradient is above ``tol``."""
        if start is None:
            start = self.weights.new_zeros(self.runs, 2 + self.lengths[0].numel())
        return descend(self, LBFGS(start), start, tol=tol, max_iter=max_iter).x

    @torch.no_grad()
    def losses(self, x: Tensor) -> Tensor:
        """Log-loss of the observed label of every row in every run, shape (n, R)."""
        whole = self._add_identity(*self._unpack(x))
        nll = torch.cat([self._loss(part, whole)[0] for part in self.parts])
        return observed_loss(nll, self.replaced, self.n_classes)[0] if self.replaced > 0.0 else nll

    def parameters(self, x: Tensor) -> CalibrationFit:
        """What the coordinates stand for."""
        shared, weight = self._unpack(x)
        slope, rise, bias = weight[:, :, :3].unbind(2)
        mixing = weight[:, :, 3:].reshape(self.runs, self.n_classes, 2, self.directions.shape[2]).permute(0, 2, 3, 1)
        return CalibrationFit(shared, bias, slope, rise, mixing)
