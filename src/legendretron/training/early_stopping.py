"""Early stopping: the best loss so far, and the patience left."""

from __future__ import annotations

import numpy as np


class EarlyStopping:
    """Best loss of each run, and for how many epochs it has not improved by ``tol``: it stops after ``n_iter_no_change``.

    Examples
    --------
    >>> stopping = EarlyStopping(tol=0.0, n_iter_no_change=2)
    >>> [(bool(stopping.update(loss)), bool(stopping.exhausted)) for loss in (0.7, 0.6, 0.6, 0.8)]
    [(True, False), (True, False), (False, False), (False, True)]
    """

    def __init__(self, tol: float, n_iter_no_change: int, n_runs: int = 1) -> None:
        self.tol, self.n_iter_no_change = tol, n_iter_no_change
        self.best_loss = np.full(n_runs, np.inf)
        self.waited = np.zeros(n_runs, dtype=np.int64)

    def update(self, loss: np.ndarray | float, active: np.ndarray | bool = True) -> np.ndarray:
        """Take in the losses ``(R,)`` of an epoch, for the runs that are active; return which are the best so far."""
        improved = active & (loss < self.best_loss - self.tol)
        best: np.ndarray = active & (loss < self.best_loss)
        self.best_loss = np.where(best, loss, self.best_loss)
        self.waited = np.where(improved, 0, self.waited + active)
        return best

    @property
    def exhausted(self) -> np.ndarray:
        """Which runs have no patience left, shape (R,)."""
        return self.waited >= self.n_iter_no_change
