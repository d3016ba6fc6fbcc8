"""The choice of strengths, and of noise in the labels, by what the parameters of an estimator leave open."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import torch

from legendretron._internal.parameters import ParameterError, spell
from legendretron._internal.validation import check_device
from legendretron.diagnostics.softmax_test import LinkTest
from legendretron.estimators.label_noise import how_to_find_noise, is_learned
from legendretron.estimators.linear_prediction import LinearPredictor
from legendretron.estimators.settings import Protocol, Strengths
from legendretron.links import LabelNoise, Link
from legendretron.training.features import Features
from legendretron.training.threads import threads_for
from legendretron.tuning import Tuning, batch_size_for, make_folds, steps_for, tune
from legendretron.tuning.problem import TuningProblem, link_candidates
from legendretron.tuning.rules import LEARNING_RATE, link_folds_for

__all__ = ["ChoosingClassifier"]


class ChoosingClassifier(LinearPredictor, ABC):
    """Base of estimators that choose strengths on held-out rows; not for direct use."""

    _tuning: Tuning | None

    # --- for subclasses ---

    @abstractmethod
    def _make_link(self, n_classes: int, generator: torch.Generator, dtype: torch.dtype, n_rows: int) -> Link: ...

    @abstractmethod
    def _strengths(self) -> Strengths:
        """What the parameters say about the penalties."""

    def _protocol(self) -> Protocol:
        """How it is trained, beyond what the parameters say."""
        return Protocol()

    def _is_centred(self) -> bool:
        """Whether the penalty on the link acts on its distance from softmax."""
        return True

    # --- choosing ---

    def _make_problem(
        self,
        features: Features,
        labels: np.ndarray,
        weight: np.ndarray,
        X: Any,
        y: np.ndarray,
        rows: np.ndarray,
        groups: Any,
        seed: int,
        noise: LabelNoise | None,
        fixed: Link | None,
        copies: np.ndarray | None = None,
    ) -> TuningProblem:
        """The problem for which strengths are chosen: data, folds, and how links are made and trained."""
        folds = make_folds(self.cv, X, y, rows, groups, seed, copies)
        if not folds and (self.cv is not None or groups is not None):
            which = "groups" if groups is not None else f"cv={self.cv!r}"
            raise ValueError(
                f"{which} holds out no row of a class that the other rows have, so strengths cannot be chosen; leave it "
                f"out, or give {spell('alpha')} and {spell('link_alpha')}."
            )
        if not folds and is_learned(self.label_noise):
            raise ParameterError(
                "label_noise",
                f"needs rows to hold out, of classes that the other rows have too, and there are too few; give a rate, or "
                f"leave it out, got {self.label_noise!r}.",
            )
        n_classes, device = int(labels.max()) + 1, check_device(self.device)
        return TuningProblem(
            features,
            torch.as_tensor(labels, device=device),
            n_classes,
            weight,
            folds,
            groups is not None or not (self.cv is None or isinstance(self.cv, Integral)),
            lambda source, kind: self._make_link(n_classes, source, kind, len(rows)),
            seed=seed,
            verbose=int(self.verbose),
            penalize_intercept=self._protocol().penalize_intercept,
            symmetric_logistic=self._protocol().symmetric,
            centred=self._is_centred(),
            link_folds=None if self.cv is not None or groups is not None else link_folds_for(len(rows)),
            known_noise=noise,
            find_noise="never" if fixed is not None else how_to_find_noise(self.label_noise, self.class_weight),
            fixed_link=fixed,
            **self._trial_schedule(len(rows), n_classes),
        )

    def _trial_schedule(self, n_rows: int, n_classes: int) -> dict[str, Any]:
        """Batch size, steps and rate of learned links while strengths are chosen."""
        batch = batch_size_for(n_rows) if self.batch_size == "auto" else min(int(self.batch_size), n_rows)
        epochs = None if self.max_epochs == "auto" or self.solver == "lbfgs" else int(self.max_epochs)
        steps = steps_for(n_rows, n_classes) if epochs is None else epochs * math.ceil(n_rows / batch)
        rate = LEARNING_RATE if self.learning_rate == "auto" else float(self.learning_rate)
        return {"batch_size": batch, "steps": steps, "learning_rate": rate}

    def _choose(self, problem: TuningProblem, strengths: Strengths) -> Tuning:
        """Try out what the parameters leave open."""
        links = link_candidates(strengths.alpha, strengths.link_alpha, strengths.tied) if strengths.has_link else []
        # a strength that is given asks for a learned link
        logistic = not strengths.has_link or (strengths.link_alpha is None and not strengths.tied)
        n_folds, n_rows = max(1, len(problem.folds)), problem.features.n_rows
        with threads_for(2.0 * n_folds * n_rows * problem.features.n_features * (problem.n_classes - 1)):
            return tune(problem, links, logistic=logistic, alpha=strengths.alpha)

    @property
    def link_test_(self) -> LinkTest:
        """Test of softmax on held-out rows of the logistic regression that learned links were compared with."""
        test = None if getattr(self, "_tuning", None) is None else self._tuning.link_test  # type: ignore[union-attr]
        if test is None:
            raise AttributeError(
                f"this {type(self).__name__} has no link_test_: links were not compared with logistic regression, or labels "
                "were taken to be wrong; see legendretron.diagnostics.link_test."
            )
        return replace(test, classes=self.classes_)

    @property
    def tuning_(self) -> Any:
        """The candidates that were tried, as a pandas data frame, the chosen one first."""
        tuning: Tuning | None = getattr(self, "_tuning", None)
        if tuning is None:
            raise AttributeError(
                f"this {type(self).__name__} has no tuning_: the strengths of its penalties were given, or it is not fitted."
            )
        return tuning.to_frame()
