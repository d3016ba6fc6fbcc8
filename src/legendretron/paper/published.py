"""The paper's printed numbers, from ``published.csv``."""

from __future__ import annotations

import math
from importlib.resources import files

from legendretron.experiments.rendering import read_csv
from legendretron.experiments.results import Mean

#: Runs behind each cell that is printed with a standard error.
_REPETITIONS = 20
_ROWS = read_csv(files(__package__) / "published.csv")


def published(table: str) -> dict[tuple[str, float, str], Mean]:
    """Test AUCs (``"auc"``) or accuracies (``"libsvm"``, ``"vgg"``) in % by data set, noise level and model.

    A number without an error counts as one run.
    """
    return {
        (row["dataset"], float(row["noise"]), row["model"]): (
            Mean(float(row["value"]), float(row["standard_error"]), _REPETITIONS)
            if row["standard_error"]
            else Mean(float(row["value"]), math.nan, 1)
        )
        for row in _ROWS
        if row["table"] == table
    }


def published_better() -> dict[tuple[str, float], str]:
    """Which model of ``"libsvm"`` is printed in bold, better at 99 %, by data set and noise level; empty for none."""
    better = {(row["dataset"], float(row["noise"])): "" for row in _ROWS if row["table"] == "libsvm"}
    return better | {(row["dataset"], float(row["noise"])): row["model"] for row in _ROWS if row["at_99"] == "better"}
