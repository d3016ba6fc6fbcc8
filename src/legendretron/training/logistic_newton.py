"""Directions for logistic regression by its Hessian: Newton's method, and L-BFGS that begins with that of some rows."""

from __future__ import annotations

import torch
from torch import Tensor

from legendretron.links import Link
from legendretron.links.noise_models import observed_loss
from legendretron.training.descent import LBFGS
from legendretron.training.features import DenseFeatures
from legendretron.training.logistic_objective import Objective

#: Iterations in which the Hessian is computed again, as the start may be far from the minimum.
_RENEWED = (1, 2, 4, 8)
#: The same with noise and a start at zero, where steps of expectation-maximization find the better minimum.
_RENEWED_FROM_ZERO = range(1, 21)
#: Added to its diagonal, relative to the mean of the diagonal.
_RIDGE = 1e-6


class _Hessian:
    r"""The Hessian of all rows, or of some.

    With :math:`x` extended by a one, that of a run is
    :math:`\sum_i w_i (\mathrm{diag}(p_i) - p_i p_i^\top) \otimes x_i x_i^\top`, plus the penalty; with a link, its Jacobian
    :math:`\nabla^2 F(z_i)` takes the place of the matrix in brackets. With noise it is a matrix that is above the true one.
    """

    def __init__(self, objective: Objective, which: Tensor | None = None) -> None:
        self.objective = objective
        assert isinstance(objective.features, DenseFeatures)
        rows = objective.features.x if which is None else objective.features.x[which]
        self.rows = torch.cat([rows, torch.ones_like(rows[:, :1])], dim=1)
        d, k, like = objective.d, objective.k, objective.weights
        classes = torch.eye(k).to(like)
        if objective.symmetric:
            classes = classes - 1.0 / (k + 1)
        penalty, each = like.new_zeros(objective.runs, d + 1, k, d + 1, k), torch.arange(d)
        penalty[:, each, :, each] = objective.strength.mT[..., None, None] * classes
        if objective.penalize_intercept:
            penalty[:, d, :, d] = objective.alpha[:, None, None] * torch.eye(k).to(like)
        self.penalty = penalty.view(objective.runs, (d + 1) * k, (d + 1) * k)
        weights, labels = objective.weights, objective.labels
        if which is not None:
            weights, labels = weights[which], labels[which]
            total = weights.sum(0)
            weights = weights * torch.where(total > 0, objective.weights.sum(0) / total, 0.0)
        self.share = weights.mT.unsqueeze(-1)  # (R, n, 1)
        self.labels = labels.view(1, -1, 1).expand(objective.runs, -1, 1)

    def at(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """At parameters ``(R, P)``: shape (R, P, P) without the logit of the rate, and the curvature of that, if learned."""
        objective, rows = self.objective, self.rows
        runs, k, n, width = objective.runs, objective.k, *rows.shape
        z = rows @ x[:, : width * k].view(runs, width, k)
        if objective.link is not None:
            return self._link_hessian(z, objective.link), None
        p = torch.softmax(torch.cat([z, torch.zeros_like(z[..., :1])], dim=-1), dim=-1)
        share, of_rate = self.share, None
        rate = objective.rate(x)
        if rate is not None:
            nll = -torch.log(p.gather(-1, self.labels))
            share_kept = observed_loss(nll, rate[:, None, None], k + 1)[1]
            if objective.learn_rate:
                # at least a quarter of the largest possible curvature
                most = rate * (1.0 - rate)
                of_rate = torch.maximum(most - (share * share_kept * (1.0 - share_kept)).sum((1, 2)), 0.25 * most)
            share = share * share_kept
        p = p[..., :k]
        columns = rows.mT.expand(runs, width, n)
        if k == 1:  # one product instead of two
            return self.penalty + columns @ (rows * (p * (1.0 - p) * share)), of_rate
        # entries in the order of the parameters: by feature, then by class
        outer = (rows.view(1, n, width, 1) * (p * share.sqrt()).unsqueeze(2)).reshape(runs, n, width * k)
        hessian = self.penalty - outer.mT @ outer
        blocks = hessian.view(runs, width, k, width, k)
        for c in range(k):
            blocks[:, :, c, :, c] += columns @ (rows * (p[..., c : c + 1] * share))
        return hessian, of_rate

    def _link_hessian(self, z: Tensor, link: Link) -> Tensor:
        objective, rows = self.objective, self.rows
        runs, k, n, width = objective.runs, objective.k, *rows.shape
        jacobian = link._jacobian(z.reshape(runs * n, k)).view(runs, n, k, k)
        jacobian = jacobian * self.share.unsqueeze(-1)
        hessian = self.penalty.clone()
        blocks = hessian.view(runs, width, k, width, k)
        columns = rows.mT.expand(runs, width, n)
        for a in range(k):
            for b in range(a + 1):
                block = columns @ (rows * jacobian[..., a, b].unsqueeze(-1))
                blocks[:, :, a, :, b] += block
                if a != b:
                    blocks[:, :, b, :, a] += block.mT
        return hessian


class Newton:
    """Directions by the Hessian itself, for problems so small that it is cheap: a few iterations instead of hundreds."""

    def __init__(self, objective: Objective, x: Tensor) -> None:
        self.x, self._hessian = x, _Hessian(objective)

    def update(self, step: Tensor, change: Tensor) -> None:
        """Go on to the next point."""
        self.x = self.x + step

    def direction(self, gradient: Tensor) -> Tensor:
        """Minus the inverse Hessian times the gradient; minus the gradient where rounding has spoilt the Hessian."""
        hessian, of_rate = self._hessian.at(self.x)
        last = gradient[:, hessian.shape[1] :]
        gradient = gradient[:, : hessian.shape[1]]
        factor, failed = torch.linalg.cholesky_ex(hessian)
        solution = torch.cholesky_solve(gradient.unsqueeze(-1), factor).squeeze(-1)
        good = (failed == 0) & solution.isfinite().all(1)
        solution = torch.where(good[:, None], solution, gradient)
        if of_rate is not None:
            solution = torch.cat([solution, (last / of_rate[:, None]).clamp(-2.0, 2.0)], dim=1)
        return -solution


class Whitened:
    r"""L-BFGS in coordinates in which the Hessian of some rows or of all, :math:`L L^\top`, is the identity.

    A few thousand rows are enough for the curvature of a million. In the new coordinates the problem is well conditioned, and
    L-BFGS needs a few iterations instead of dozens. The Hessian is computed again in some of the first iterations, since the
    start may be far from the minimum. With noise, where the matrix is only a bound, L-BFGS makes up for the difference;
    ``from_zero`` says that the start has no weights, so that the first steps are of expectation-maximization alone.
    """

    def __init__(self, objective: Objective, x: Tensor, which: Tensor | None, *, from_zero: bool = False) -> None:
        self.x, self._hessian = x, _Hessian(objective, which)
        self._iteration, self._renewed = 1, _RENEWED_FROM_ZERO if from_zero else _RENEWED
        self._renew()

    def _renew(self) -> None:
        hessian, _ = self._hessian.at(self.x)
        diagonal = torch.diagonal(hessian, dim1=1, dim2=2)
        ridge = _RIDGE * diagonal.mean(1, keepdim=True)
        diagonal += torch.where(ridge > torch.finfo(hessian.dtype).tiny, ridge, 1.0)  # else these rows say nothing
        factor, failed = torch.linalg.cholesky_ex(hessian)
        good = (failed == 0) & factor.isfinite().all((1, 2))
        by_diagonal = torch.diag_embed(diagonal.clamp(min=torch.finfo(hessian.dtype).eps).sqrt())
        self._factor = torch.where(good[:, None, None], factor, by_diagonal)
        self._curvature = LBFGS(self.x, whole_first=True)

    def update(self, step: Tensor, change: Tensor) -> None:
        """See :class:`~legendretron.training.descent.LBFGS`."""
        self.x = self.x + step
        self._iteration += 1
        if self._iteration in self._renewed:
            self._renew()
        else:
            new_step = (step.unsqueeze(1) @ self._factor).squeeze(1)
            self._curvature.update(new_step, self._whiten(change))

    def direction(self, gradient: Tensor) -> Tensor:
        """Minus the inverse Hessian times the gradient."""
        whitened = self._curvature.direction(self._whiten(gradient))
        return torch.linalg.solve_triangular(self._factor.mT, whitened.unsqueeze(-1), upper=True).squeeze(-1)

    def _whiten(self, vector: Tensor) -> Tensor:
        return torch.linalg.solve_triangular(self._factor, vector.unsqueeze(-1), upper=False).squeeze(-1)
