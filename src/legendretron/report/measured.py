"""Scores of all contestants with intervals, and differences between them, from the same draws of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
import torch

from legendretron._internal.chunks import chunks_in_cache
from legendretron.diagnostics.decomposition import split_loss
from legendretron.diagnostics.intervals import LEVEL, Estimate, drawn_means, exact_interval, interval
from legendretron.diagnostics.scores import Scores, area_under_curve
from legendretron.diagnostics.smooth_calibration import smooth_errors_by_chance
from legendretron.plots.models import draw_rows
from legendretron.report.rows import Contestant, EvaluationRows

#: Scores, and whether lower ones are better.
SCORES = {"accuracy": False, "log_loss": True, "brier": True, "auc": False}
#: Most numbers (rows x classes) of which areas under ROC curves are computed; of more, rows are drawn.
_MOST_RANKED = 5e6
#: Outcomes that are drawn from the probabilities, to see how large an error is by chance.
_CHANCES = 100

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
#: A contestant and its score; with "after", that after recalibration.
_Name = tuple[str, ...]


def map_in_threads(function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """Call a function of numpy arrays for each item, on as many threads as torch has."""
    with ThreadPoolExecutor(torch.get_num_threads()) as threads:
        yield from threads.map(function, items)


class CalibrationError(NamedTuple):
    """Smooth calibration error of the predicted class."""

    error: float  #: mean distance between probability and frequency
    by_chance: float  #: 95th percentile for a perfectly calibrated model, on as many rows


class ClassArea(NamedTuple):
    """Areas under the ROC curves of the classes."""

    area: np.ndarray  #: (C,), NaN for a class without rows
    error: np.ndarray  #: (C,), standard errors
    influence: np.ndarray  #: (m,), what each row adds to the mean area


class Measured:
    """Scores of contestants on the same rows, and of those of which there are log-probabilities after recalibration."""

    def __init__(
        self,
        rows: EvaluationRows,
        contestants: Mapping[str, Contestant],
        calibrated: Mapping[str, np.ndarray],
        seed: int,
    ) -> None:
        self.rows, self.contestants = rows, dict(contestants)
        columns: dict[_Name, np.ndarray] = {}
        for key, one in self.contestants.items():
            columns[key, "accuracy"] = one.rows.right.astype(float)
            columns[key, "log_loss"], columns[key, "brier"] = one.rows.log_loss, one.rows.brier
            columns[key, "gap"] = one.rows.confidence - one.rows.right
        for key, log_p in calibrated.items():
            after = Contestant.of(key, rows.y, log_p).rows
            columns[key, "log_loss", "after"], columns[key, "brier", "after"] = after.log_loss, after.brier
        self._value = {name: rows.mean(values) for name, values in columns.items()}
        self.ranked = draw_rows(len(rows), int(_MOST_RANKED / len(rows.classes)), seed)
        self.areas = {key: self._areas(one) for key, one in self.contestants.items() if key != "dummy"}
        influence: dict[_Name, np.ndarray] = {}
        for key, found in self.areas.items():
            self._value[key, "auc"] = float(np.nanmean(found.area))
            influence[key, "auc"] = self._value[key, "auc"] + found.influence
        if len(self.ranked) == len(rows):
            self._draws = _draw_means(columns | influence, rows.weight, seed)
        else:
            self._draws = _draw_means(columns, rows.weight, seed) | _draw_means(
                influence, rows.weight[self.ranked], seed
            )
        #: scores of those that were recalibrated, in parts
        self.parts = {
            (key, loss): split_loss(
                *(
                    (self._value[name], self._draws[name])
                    for name in ((key, loss), (key, loss, "after"), ("dummy", loss))
                )
            )
            for key in calibrated
            for loss in ("log_loss", "brier")
        }
        if "dummy" in self.contestants:  # all pairs are ties
            self._value["dummy", "auc"] = 0.5
            self._draws["dummy", "auc"] = np.full_like(self._draws["dummy", "accuracy"], 0.5)
        self._seed = seed

    def _areas(self, one: Contestant) -> ClassArea:
        chosen = self.ranked
        y, weight, n_classes = self.rows.y[chosen], self.rows.weight[chosen], one.log_p.shape[1]
        log_p = np.empty((n_classes, len(chosen)))
        for part in chunks_in_cache(len(chosen), n_classes):
            log_p[:, part] = one.log_p[chosen[part]].T
        weight = weight * (len(weight) / weight.sum())
        areas, errors = np.full((2, n_classes), np.nan)
        total = np.zeros(len(chosen))

        def rank(k: int) -> tuple[float, np.ndarray]:
            # for two classes log-odds: probabilities near 1 round to the same
            scores = log_p[k] - log_p[1 - k] if n_classes == 2 else log_p[k]
            area, influence = area_under_curve(scores, y == k, weight, influence=True)
            assert influence is not None
            return area, influence

        for k, (areas[k], influence) in enumerate(map_in_threads(rank, range(n_classes))):
            if np.isfinite(areas[k]):
                errors[k] = np.sqrt(((weight * influence) ** 2).sum()) / len(chosen)
                total += influence
        return ClassArea(areas, errors, total / max(int(np.isfinite(areas).sum()), 1))

    def score(self, key: str, name: str) -> Estimate:
        """Return a score of a contestant: one of ``SCORES``, or ``"gap"``, confidence less accuracy."""
        value = self._value[key, name]
        if name == "accuracy" and self.all_or_none(key):
            return exact_interval(round(value), self.rows.weight)
        return interval(value, self._draws[key, name])

    def scores(self, key: str) -> Scores:
        """Return the scores of a contestant without intervals."""
        values = {name: self._value[key, name] for name in SCORES}
        return Scores(**values, calibration_error=self.contestants[key].rows.calibration_error(self.rows.weight))

    def all_or_none(self, key: str) -> bool:
        """Whether all rows are right, or none: draws of such rows are all alike, and tell nothing about other rows."""
        right = self.contestants[key].rows.right
        return bool(right.all() or not right.any())

    def difference(self, key: str, other: str, name: str) -> Estimate:
        """Return how much higher the score of one is than that of another."""
        value = self._value[key, name] - self._value[other, name]
        return interval(value, self._draws[key, name] - self._draws[other, name])

    def better(self, key: str, other: str, name: str = "log_loss") -> int:
        """Return 1 if one is better than the other beyond the interval, -1 if it is worse, 0 if it cannot be told."""
        sign = self.difference(key, other, name).sign
        return -sign if SCORES[name] else sign

    def calibration_error(self, key: str) -> CalibrationError:
        """Return the smooth calibration error of a contestant, and how large it is by chance."""
        scores, weight = self.contestants[key].rows, self.rows.weight
        chance = smooth_errors_by_chance(scores.confidence, weight, _CHANCES, self._seed)
        return CalibrationError(scores.calibration_error(weight), float(np.quantile(chance, LEVEL)))


def _draw_means(columns: dict[_Name, np.ndarray], weight: np.ndarray, seed: int) -> dict[_Name, np.ndarray]:
    return dict(zip(columns, drawn_means([*columns.values()], weight, seed).T, strict=True))
