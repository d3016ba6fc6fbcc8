"""Scores of predicted probabilities, of some rows after the other."""

from __future__ import annotations

import math

import numpy as np

from legendretron.diagnostics.scores import Scores, baseline_of, scores_of
from legendretron.streaming.source import SAMPLE, row_share

#: Probabilities that are kept for scores that depend on the order of all rows.
_MOST_ENTRIES, _MOST_ROWS = 2**24, 200_000


class RunningScores:
    """Scores of rows that are added some after the other.

    Accuracy, log-loss, Brier score and the scores of classes are those of all rows. Calibration error and area under the ROC
    curve depend on the order of the rows by their probabilities: they are those of up to 200,000 rows, picked by a hash of
    their number, if there are more.
    """

    def __init__(self, n_classes: int) -> None:
        self._most = max(1, min(_MOST_ROWS, _MOST_ENTRIES // n_classes))
        self.n_rows = 0
        self._losses = self._squares = 0.0
        #: of each class: rows, rows it is predicted for, and those of them that are right
        self._counts = np.zeros((3, n_classes), dtype=np.int64)
        self._kept: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, y: np.ndarray, log_p: np.ndarray) -> None:
        """Take in class indices (n,) and log-probabilities (n, C)."""
        n, n_classes = log_p.shape
        of_part = scores_of(y, log_p, ordered=False)
        self._losses += n * of_part.log_loss
        self._squares += n * of_part.brier
        predicted = log_p.argmax(1)
        for place, labels in enumerate((y, predicted, y[predicted == y])):
            self._counts[place] += np.bincount(labels, minlength=n_classes)
        hashes = row_share(np.arange(self.n_rows, self.n_rows + n), 0, SAMPLE)
        self.n_rows += n
        self._kept.append((hashes, y, log_p))
        if sum(len(part[0]) for part in self._kept) > 2 * self._most:
            self._thin_out()

    def _thin_out(self) -> None:
        """Keep the rows with the smallest hashes, in their order."""
        hashes, y, log_p = (np.concatenate(part) for part in zip(*self._kept, strict=True))
        rows = np.sort(np.argsort(hashes, kind="stable")[: self._most])
        self._kept = [(hashes[rows], y[rows], log_p[rows])]

    def some_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Labels and log-probabilities of the rows that are kept."""
        if self.n_rows > self._most:
            self._thin_out()
        _, y, log_p = (np.concatenate(part) for part in zip(*self._kept, strict=True))
        return y, log_p

    def scores(self) -> Scores:
        """Scores of all rows."""
        if not self.n_rows:
            raise ValueError("there is no row to evaluate.")
        of_kept = scores_of(*self.some_rows())
        if self.n_rows <= self._most:
            return of_kept
        return Scores(
            accuracy=float(self._counts[2].sum()) / self.n_rows,
            log_loss=self._losses / self.n_rows,
            brier=self._squares / self.n_rows,
            calibration_error=of_kept.calibration_error,
            auc=of_kept.auc,
        )

    def baseline(self) -> Scores:
        """Scores of the same prediction for every row: the frequencies of the classes."""
        return baseline_of(self._counts[0])

    def classes(self) -> list[dict[str, float]]:
        """Rows, precision and recall of each class; NaN where there is nothing to count."""
        return [
            {
                "rows": int(rows),
                "precision": right / predicted if predicted else math.nan,
                "recall": right / rows if rows else math.nan,
            }
            for rows, predicted, right in self._counts.T.tolist()
        ]
