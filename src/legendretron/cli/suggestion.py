"""Whether the summary of a fit suggests ``--model auto``: trees predict held-out rows better than the fitted model.

Trees see what a linear predictor cannot, and take about a second on a part of the rows. Networks, which ``--model auto``
tries, see it too.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from scipy.special import log_softmax

from legendretron.cli.summaries import choice_of

#: Trees, and most rows and numbers that they are fitted to.
_TREES, _MOST_ROWS, _MOST_NUMBERS = 100, 5_000, 1_000_000
#: Powers of the shares of votes: trees are too timid where classes are clear, and too bold where they are not.
_POWERS = np.exp2(np.linspace(-2.0, 3.0, 21))


def suggest_auto(estimator: Any, X: Any, y: np.ndarray) -> dict[str, Any] | None:
    """Compare a fitted estimator with trees, fitted to some of the same rows, by their log-losses on held-out rows.

    Returns None unless trees are better by more than a standard error, or if the estimator has held out no rows.
    """
    own, tried = choice_of(estimator)["log_loss"], getattr(estimator, "tuning_", None)
    if own is None or tried is None or estimator.class_weight is not None or hasattr(X, "tocsr"):
        return None
    own_error = float(tried[tried["chosen"]]["standard_error"].iloc[0])
    loss, error = trees_log_loss(np.asarray(X), np.searchsorted(estimator.classes_, y))
    if not loss < own - math.hypot(error, own_error):
        return None
    text = (
        f"trees predict held-out rows better, with a log-loss of {loss:.3f} instead of {own:.3f}; try --model auto, which "
        "also fits networks"
    )
    return {"option": "--model auto", "log_loss": own, "trees_log_loss": loss, "text": text}


def trees_log_loss(X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the mean log-loss of rows by trees that have not seen them, of classes from 0, and its standard error.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> trees_log_loss(X, (X[:, 0] * X[:, 1] > 0).astype(int))[0] < 0.3
    True
    """
    from sklearn.ensemble import ExtraTreesClassifier  # takes long to import

    most = min(_MOST_ROWS, max(_MOST_NUMBERS // X.shape[1], 500))
    X, y = X[:: -(-len(X) // most)], y[:: -(-len(y) // most)]
    trees = ExtraTreesClassifier(_TREES, bootstrap=True, oob_score=True, random_state=0)
    with warnings.catch_warnings():  # about rows that all trees have seen, and classes with few rows
        warnings.simplefilter("ignore")
        trees.fit(X, y)
    shares, place = trees.oob_decision_function_, np.searchsorted(trees.classes_, y)
    known = np.isfinite(shares).all(1)
    log_shares, place = np.log(shares[known] + 0.5 / _TREES), place[known]
    losses = (-log_softmax(power * log_shares, axis=1)[np.arange(len(place)), place] for power in _POWERS)
    best = min(losses, key=np.mean)
    return float(best.mean()), float(best.std() / math.sqrt(len(best)))
