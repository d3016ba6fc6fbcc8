"""Defaults of estimators as they were when the committed results were recorded.

A record outlives the code that made it. The key of a run, and the parameters that a recipe does not set, therefore depend
on these defaults and not on those of the current constructors: see :mod:`legendretron.experiments.recorded_estimators`.
"""

from __future__ import annotations

from typing import Any

__all__ = ["LATER_DEFAULTS", "RECORDED_DEFAULTS"]

_LINEAR: dict[str, Any] = {
    "alpha": 1e-4,
    "batch_size": "auto",
    "class_weight": None,
    "decay": 0.95,
    "decay_every": 4,
    "dtype": None,
    "early_stopping": False,
    "init": "identity",
    "learning_rate": 0.01,
    "n_iter_no_change": 10,
    "penalize_intercept": False,
    "schedule": "cosine",
    "standardize": True,
    "validation_fraction": 0.1,
    "warm_start": False,
}
_TRON: dict[str, Any] = {
    "class_weight": None,
    "early_stopping": False,
    "learning_rate": "auto",
    "n_iter_no_change": 10,
    "standardize": True,
    "tol": 1e-7,
    "validation_fraction": 0.1,
}
_LINKGISTIC: dict[str, Any] = {
    "alpha": 1e-4,
    "class_weight": None,
    "length_scale": 0.1,
    "m_steps": 10,
    "max_iter": 30,
    "n_basis": 16,
    "n_samples": 16,
    "standardize": True,
    "tol": 1e-6,
}

#: By class. These parameters are part of every key; nothing here may change, or records are not found again.
RECORDED_DEFAULTS: dict[str, dict[str, Any]] = {
    "LegendreTronClassifier": {
        **_LINEAR,
        "depth": 4,
        "hidden": 2,
        "link": "composite",
        "link_alpha": None,
        "max_epochs": 200,
        "n_blocks": 2,
        "n_nests": 4,
        "network": "ficnn",
        "solver": "adam",
        "tol": 1e-6,
    },
    "MultinomialLogisticClassifier": {
        **_LINEAR,
        "max_epochs": 1000,
        "penalty": "symmetric",
        "solver": "lbfgs",
        "tol": 1e-8,
    },
    "BregmanTronClassifier": {
        **_TRON,
        "margin": 1e-3,
        "max_iter": 100,
        "max_slope": 1.0,
        "min_slope": 1e-3,
        "n_knots": 100,
        "variant": "exact",
    },
    "GLMTronClassifier": {**_TRON, "max_iter": 200},
    "SlIsotronClassifier": {**_TRON, "lipschitz": 1.0, "max_iter": 100},
    "GPLinkgisticClassifier": {**_LINKGISTIC, "amplitude": 2.0},
    "ISGPLinkgisticClassifier": {**_LINKGISTIC, "amplitude": 1.0},
}

#: Parameters that were added later, in any of these classes, with the value that leaves training as it was before. One that
#: is not listed has its constructor's default, so it only has to be listed before that default is changed.
LATER_DEFAULTS: dict[str, Any] = {}
