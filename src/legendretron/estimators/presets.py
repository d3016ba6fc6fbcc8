"""Settings behind the paper's tables, by the group of data sets they belong to."""

from __future__ import annotations

from typing import Any

from legendretron._internal.validation import check_choice

__all__ = ["paper_settings"]

_TRAINING: dict[str, dict[str, Any]] = {
    "libsvm": {"learning_rate": 0.01, "decay": 0.95, "max_epochs": 240, "batch_size": 64, "alpha": 0.01},
    "mnist": {"learning_rate": 0.001, "decay": 0.7, "max_epochs": 200, "batch_size": 128, "alpha": 0.001},
    "aloi": {"learning_rate": 0.01, "decay": 0.95, "max_epochs": 360, "batch_size": 64, "alpha": 0.01},
}
_LINK: dict[str, dict[str, Any]] = {
    "libsvm": {"n_blocks": 2, "hidden": 2, "depth": 4},
    "mnist": {"n_blocks": 1, "hidden": 4, "depth": 4},
    "aloi": {"n_blocks": 2, "hidden": 2, "depth": 4},
}


def paper_settings(group: str, *, with_link: bool) -> dict[str, Any]:
    """Return parameters of an estimator for ``"libsvm"``, ``"mnist"`` or ``"aloi"``.

    Taken from the paper's table of hyperparameters and, for what it leaves out (the network, the initialisation, one
    penalty on all parameters, float64, unscaled features), from the authors' public code.
    """
    check_choice("group", group, tuple(_TRAINING))
    settings = {
        **_TRAINING[group],
        "solver": "adam",
        "schedule": "step",
        "decay_every": 4,
        "penalize_intercept": True,
        "init": "paper",
        "standardize": False,
        "dtype": "float64",
    }
    if with_link:
        return {**settings, **_LINK[group], "link": "composite", "network": "cpflow", "link_alpha": None}
    return {**settings, "penalty": "reference"}
