"""What was tried, and what came out."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from legendretron.training.logistic import Logistic
from legendretron.tuning.candidates import Candidate
from legendretron.tuning.link_search import FittedLink

__all__ = ["COLUMNS", "Tuning"]

COLUMNS = (
    "model",
    "alpha",
    "link_alpha",
    "steps",
    "held_out_rows",
    "log_loss",
    "standard_error",
    "difference",
    "difference_error",
    "chosen",
)


@dataclass
class Tuning:
    """Candidates with their cross-validated log-loss.

    Attributes
    ----------
    rows : list of dict
        One per candidate and stage; see :attr:`LegendreTronClassifier.tuning_` for the columns.
    chosen : Candidate
        The strengths to train with.
    interrupted : bool
        Whether Ctrl-C has ended the search; the choice is then among what was complete.
    logistic : Logistic, optional
        Logistic regression fitted to the folds, if it was chosen: where to begin to fit it to all rows.
    whole : FittedLink, optional
        The chosen learned link, already trained on all rows.
    """

    chosen: Candidate
    rows: list[dict[str, Any]] = field(default_factory=list)
    interrupted: bool = False
    logistic: Logistic | None = None
    whole: FittedLink | None = None

    def to_frame(self) -> Any:
        """Return the candidates as a pandas data frame, the best first."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "The table of candidates is a pandas data frame; install it with: pip install pandas"
            ) from error
        rows = sorted(self.rows, key=lambda row: (not row["chosen"], math.isnan(row["log_loss"]), row["log_loss"]))
        return pd.DataFrame(rows, columns=list(COLUMNS))
