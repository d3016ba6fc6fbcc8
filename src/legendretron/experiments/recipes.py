"""Recipes: what a record says about the estimator of a run, and the estimator of a recipe.

A recipe names the class and the parameters that are not at their defaults. It is part of what identifies a run, so a run of
another recipe is another run. What a recipe does not say is said by its version.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from legendretron._internal.json_values import as_json
from legendretron.estimators import LegendreTronClassifier, MultinomialLogisticClassifier, fit_splits
from legendretron.estimators.legendretron import PaperLegendreTronClassifier
from legendretron.estimators.splits import SplitResults
from legendretron.trons import (
    BregmanTronClassifier,
    GLMTronClassifier,
    GPLinkgisticClassifier,
    ISGPLinkgisticClassifier,
    SlIsotronClassifier,
)


def fit_whole(*arguments: Any, **options: Any) -> SplitResults:
    """As :func:`~legendretron.estimators.fit_splits`, without warnings: the record of a run says whether it has converged."""
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        return fit_splits(*arguments, **options)


_CLASSES: dict[str, type[BaseEstimator]] = {
    kind.__name__: kind
    for kind in (
        LegendreTronClassifier,
        PaperLegendreTronClassifier,
        MultinomialLogisticClassifier,
        BregmanTronClassifier,
        GLMTronClassifier,
        GPLinkgisticClassifier,
        ISGPLinkgisticClassifier,
        SlIsotronClassifier,
        LogisticRegression,
    )
}
#: Raise the version of a class when its defaults, or what they do, change: runs of the version before are then run again.
VERSIONS = {"LegendreTronClassifier": 2, "MultinomialLogisticClassifier": 1, "LegendreCalibrator": 1}
#: Parameters that belong to a run or to the machine, not to the recipe.
_ELSEWHERE = ("random_state", "device", "verbose", "checkpoint", "n_jobs")
#: Always named, so that a trial with fewer of them is another recipe.
_LENGTHS = ("max_epochs", "max_iter")


def make_recipe(estimator: BaseEstimator) -> dict[str, Any]:
    """Class, version and changed parameters of an estimator: JSON.

    Examples
    --------
    >>> make_recipe(GLMTronClassifier(standardize=False))
    {'estimator': 'GLMTronClassifier', 'max_iter': 200, 'standardize': False}
    """
    name = type(estimator).__name__
    usual = type(estimator)().get_params(deep=False)
    parameters = {
        key: value
        for key, given in estimator.get_params(deep=False).items()
        if key not in _ELSEWHERE and ((value := as_json(given, key)) != usual[key] or key in _LENGTHS)
    }
    return {"estimator": name, **({"version": VERSIONS[name]} if name in VERSIONS else {}), **parameters}


def make_estimator(recipe: Mapping[str, Any], *, device: str = "cpu", seed: int | None = None) -> BaseEstimator:
    """Build the estimator of a recipe, with a seed and, if it has that parameter, on a device.

    Entries that are no parameters, such as the version, are about the run and are left to the experiment.

    Examples
    --------
    >>> make_estimator({"estimator": "GLMTronClassifier", "max_iter": 3}).max_iter
    3
    """
    kind = _CLASSES[recipe["estimator"]]
    known = kind().get_params(deep=False)
    parameters = {name: value for name, value in recipe.items() if name in known}
    if "device" in known:
        parameters["device"] = device
    if "random_state" in known:
        parameters["random_state"] = seed
    return kind(**parameters)


def fit_recipe(
    recipe: Mapping[str, Any],
    device: str,
    X: object,
    y: np.ndarray,
    train_rows: np.ndarray,
    seeds: Sequence[int],
    train_labels: np.ndarray | None = None,
) -> tuple[SplitResults, list[dict[str, Any]]]:
    """Fit by a recipe, all runs side by side; also return, of each run, the strength that was tuned if the recipe says so.

    That is the strength with the lowest log-loss on a share of the training rows of each split, held out. Test rows and
    clean labels are never used: a split with noise is tuned on labels with noise.
    """
    estimator = make_estimator(recipe, device=device)
    train_labels = y[train_rows] if train_labels is None else train_labels
    if "tuning" not in recipe:
        return fit_whole(estimator, X, y, train_rows, list(seeds), train_labels), [{} for _ in seeds]
    strengths, share = recipe["tuning"]["strengths"], recipe["tuning"]["share"]
    runs, n = train_rows.shape
    parts = [train_test_split(np.arange(n), test_size=share, random_state=seed) for seed in seeds]
    learn, choose = (np.tile(np.stack(part), (len(strengths), 1)) for part in zip(*parts, strict=True))
    rows, labels = (np.tile(every, (len(strengths), 1)) for every in (train_rows, train_labels))

    def take(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.take_along_axis(rows, part, 1), np.take_along_axis(labels, part, 1)

    alphas = np.repeat(strengths, runs).tolist()
    inner_rows, inner_labels = take(learn)
    tried = fit_whole(estimator, X, y, inner_rows, list(seeds) * len(strengths), inner_labels, alphas=alphas)
    losses = tried.evaluate(*take(choose))[0].reshape(len(strengths), runs)
    del tried  # before as much memory is needed again
    chosen = [float(strengths[i]) for i in losses.argmin(0)]
    fitted = fit_whole(estimator, X, y, train_rows, list(seeds), train_labels, alphas=chosen)
    return fitted, [{"alpha": alpha} for alpha in chosen]
