"""What was tried, and what came out."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from legendretron.training.logistic import Logistic
from legendretron.tuning.candidates import Candidate
from legendretron.tuning.link_search import FittedLink

__all__ = ["COLUMNS", "FoundNoise", "Tuning"]

COLUMNS = (
    "model",
    "alpha",
    "link_alpha",
    "label_noise",
    "steps",
    "held_out_rows",
    "log_loss",
    "standard_error",
    "difference",
    "difference_error",
    "chosen",
)


class FoundNoise(NamedTuple):
    """Symmetric noise in the labels, and how a model that knows of it is trained.

    Examples
    --------
    >>> found = FoundNoise(training=0.2, temperature=1.0, doubt=0.0, rate=0.15, low=0.1, high=0.2)
    >>> found.low < found.rate < found.high
    True
    """

    training: float  #: rate that is assumed in training
    temperature: float  #: power of the true probabilities, for a model that is logistic regression
    doubt: float  #: floor of the true probabilities, see :class:`~legendretron.tuning.noise_rates.RateEstimate`
    rate: float  #: estimated share of the labels that has been replaced
    low: float  #: lower end of its interval
    high: float  #: upper end


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
    noise : FoundNoise, optional
        Noise in the labels, if it was looked for; one of rate 0 if there is none.
    noise_matrix : ndarray of shape (C, C), optional
        Its transition matrix, if it is not symmetric.

    Examples
    --------
    >>> from legendretron.tuning import Candidate
    >>> Tuning(Candidate(0.01, 0.001)).chosen.alpha
    0.01
    """

    chosen: Candidate
    rows: list[dict[str, Any]] = field(default_factory=list)
    interrupted: bool = False
    logistic: Logistic | None = None
    whole: FittedLink | None = None
    noise: FoundNoise | None = None
    noise_matrix: np.ndarray | None = None

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
