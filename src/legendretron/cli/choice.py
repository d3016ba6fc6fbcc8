"""What a fit has chosen, in words, and the file of what it has tried."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from legendretron.cli.outputs import PICTURES, frame_bytes, picture_bytes, write_output
from legendretron.estimators.base import LinearLinkClassifier


def choice_of(estimator: LinearLinkClassifier) -> dict[str, Any]:
    """Return the strengths of a fitted estimator, how they came about, and a sentence that says so.

    The log-losses are those of labels as they are, right or wrong, on held-out rows; None where nothing was tried.
    ``logistic_log_loss`` is that of the logistic regression that learned links were compared with, if they were: the best
    one, which knows of wrong labels if that was borne out.
    """
    if hasattr(estimator, "is_linear_"):
        return _choice_of_networks(estimator)
    alpha, link_alpha = estimator.alpha_, estimator.link_alpha_
    learned = math.isfinite(link_alpha)
    kind = "learned link" if learned else "logistic regression"
    used = f"{kind}, alpha {alpha:.2g}" + (f", link_alpha {link_alpha:.2g}" if learned else "")
    choice = {
        "model": kind,
        "alpha": alpha,
        "link_alpha": link_alpha if learned else None,
        "log_loss": None,
        "logistic_log_loss": None,
    }
    if not hasattr(estimator, "tuning_"):
        return {**choice, "text": f"{used}, as given"}
    tried = estimator.tuning_
    if not len(tried):
        return {**choice, "text": f"{used}: there are too few rows to try others"}
    chosen = tried[tried["chosen"]].iloc[0]
    links, logistic = (tried[tried["model"] == name] for name in ("learned link", "logistic regression"))
    choice["log_loss"] = float(chosen["log_loss"])
    observed = " of labels as they are" if getattr(estimator, "noise_rate_", 0.0) > 0.0 else ""
    held_out = f"log-loss{observed} on held-out rows {chosen['log_loss']:.3f}"
    # differences are those to the logistic regression that a link had to beat
    base = logistic[logistic["difference"] == 0.0].iloc[0] if learned and len(logistic) else chosen
    if len(links) and len(logistic):
        choice["logistic_log_loss"] = float(base["log_loss"])
    if learned and len(logistic):
        knowing = " with wrong labels" if base["label_noise"] > chosen["label_noise"] == 0.0 else ""
        text = f"{used}; {held_out}, logistic regression{knowing} {base['log_loss']:.3f}"
    elif learned or not len(links):
        text = f"{used}; {held_out}"
    elif not any(map(math.isfinite, links["log_loss"])):
        text = f"{used}: all learned links have diverged; lower --learning-rate"
    else:
        text = f"{used}: a learned link was not better by more than its standard error"
    return {**choice, "text": text}


def _choice_of_networks(estimator: Any) -> dict[str, Any]:
    """The same of an estimator that compares networks with logistic regression."""
    networks, linear = estimator.network_log_loss_, estimator.linear_log_loss_
    kind = "logistic regression" if estimator.is_linear_ else "networks"
    choice = {"model": kind, "alpha": None, "link_alpha": None, "log_loss": None, "logistic_log_loss": None}
    if math.isnan(networks):
        return {**choice, "text": f"{kind}: there are too few rows to try networks"}
    choice |= {"log_loss": linear if estimator.is_linear_ else networks, "logistic_log_loss": linear}
    if estimator.is_linear_:
        text = f"{kind}: networks were not better by more than their standard error"
    else:
        text = f"{kind}; log-loss on held-out rows {networks:.3f}, logistic regression {linear:.3f}"
    return {**choice, "text": text}


def write_tuning(estimator: LinearLinkClassifier, path: Path) -> None:
    """Write the candidates as a table or as a picture, by the file's extension."""
    suffix = path.suffix.lower()
    content = draw_tuning(estimator, suffix) if suffix in PICTURES else frame_bytes(estimator.tuning_, suffix)
    write_output(path, content)


def draw_tuning(estimator: LinearLinkClassifier, suffix: str) -> bytes:
    """Return the picture of the candidates in the format of a file extension."""
    from legendretron.plots import TuningDisplay

    return picture_bytes(lambda: TuningDisplay.from_estimator(estimator), suffix)


class FitScores(NamedTuple):
    """Scores on all rows of the table; of a fit by several processes, the loss of the last epoch alone."""

    rows: int | None
    log_loss: float
    accuracy: float | None
    left_out: int
    counts: np.ndarray | None = None  #: rows of each class
    unlabelled: int = 0  #: how many of those left out have no label

    @classmethod
    def of(
        cls, parts: Iterable[tuple[np.ndarray, np.ndarray]], n_classes: int, incomplete: int, unlabelled: int
    ) -> FitScores:
        """Score parts of the rows: labels as places of classes, and log-probabilities."""
        loss, hits, counts = 0.0, 0, np.zeros(n_classes, dtype=np.int64)
        for places, log_p in parts:
            loss -= float(log_p[np.arange(len(places)), places].sum(dtype=np.float64))
            hits += int((log_p.argmax(1) == places).sum())
            counts += np.bincount(places, minlength=n_classes)
        rows = int(counts.sum())
        return cls(rows, loss / rows, hits / rows, incomplete + unlabelled, counts, unlabelled)
