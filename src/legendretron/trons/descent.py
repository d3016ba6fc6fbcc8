"""The perceptron-like step that GLMTron, SlIsotron and BregmanTron have in common."""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Any

import numpy as np
from scipy.special import logit

from legendretron.links import SoftmaxLink
from legendretron.training import History
from legendretron.training.early_stopping import EarlyStopping
from legendretron.training.progress import Progress
from legendretron.trons.base import BinaryLinkLearner, Design


class TronDescent(BinaryLinkLearner):
    r"""Base of the three trons: :math:`w \leftarrow w + \eta \sum_i w_i (y_i - u(z_i)) x_i`, then perhaps a new ``u``.

    The step is the negative gradient of the canonical loss of ``u``, whatever ``u`` is. Of all iterates the one with the
    least squared error is kept: that on the validation set, if there is one.
    """

    def _first_link(self) -> Any:
        """Initial link."""
        return SoftmaxLink(2)

    @abstractmethod
    def _next_link(self, link: Any, z: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Any:
        """Link for the predictors ``z``, given the old one."""

    @abstractmethod
    def _apply(self, link: Any, z: np.ndarray) -> np.ndarray:
        """Inverse link at predictors."""

    @abstractmethod
    def _steepest(self, link: Any) -> float:
        """Slope of the inverse link that the automatic step is made for, at the current link."""

    def _keep(self, link: Any) -> None:
        """Store the learned link."""
        self.link_ = link

    def _learn(self, design: Design, y: np.ndarray, weight: np.ndarray, held_out: Any, seed: int) -> np.ndarray:
        automatic = isinstance(self.learning_rate, str)
        eigenvalue = design.largest_eigenvalue(weight) if automatic else np.nan
        w = np.zeros(design.X.shape[1] + 1)
        # Where a sigmoid gives the share of the second class: from zero, the intercept would take most of the steps to get
        # there, for they are sized by the features.
        w[-1] = logit(weight @ y)
        z = design.predictor(w)
        link = self._next_link(self._first_link(), z, y, weight)
        p = self._apply(link, z)
        best, best_link = w, link
        stopping = EarlyStopping(float(self.tol), int(self.n_iter_no_change))
        self.history_ = History()
        progress, began = Progress(int(self.max_iter), int(self.verbose)), time.monotonic()
        for n_iter in range(1, int(self.max_iter) + 1):
            rate = 1.0 / (self._steepest(link) * eigenvalue) if automatic else float(self.learning_rate)
            w = w + rate * design.pull(weight * (y - p))
            z = design.predictor(w)
            if not np.isfinite(z).all():
                raise ValueError(
                    f"learning_rate={self.learning_rate!r} is too large for features of this size: the predictors "
                    "overflowed. Use learning_rate='auto' or standardize=True."
                )
            link = self._next_link(link, z, y, weight)
            p = self._apply(link, z)
            train_error = float((weight * (p - y) ** 2).sum())
            held_error = None
            if held_out is not None:
                X_held, y_held, weight_held = held_out
                p_held = self._apply(link, design.predictor(w, X_held))
                held_error = float((weight_held * (p_held - y_held) ** 2).sum())
            error = train_error if held_error is None else held_error
            accuracy = (weight * ((p > 0.5) == (y > 0.5))).sum()
            if held_error is not None:
                accuracy = (weight_held * ((p_held > 0.5) == (y_held > 0.5))).sum()
            seconds = time.monotonic() - began
            self.history_.append(
                n_iter, [train_error], [np.nan if held_error is None else held_error], [accuracy], [rate], seconds
            )
            progress.update(n_iter, train_error, held_error)
            if stopping.update(error):
                best, best_link = w, link
            if stopping.exhausted:
                break
        progress.close()
        self.n_iter_ = n_iter
        self._keep(best_link)
        return best
