"""What happened in training, epoch by epoch and run by run."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np

__all__ = ["History"]

COLUMNS = ("epoch", "run", "train_loss", "validation_loss", "accuracy", "learning_rate", "seconds")


class History:
    """One row per epoch and run.

    Columns: ``epoch`` (from 1), ``run``, ``train_loss`` (mean log-loss of the epoch's batches as they were met, without
    penalty), ``validation_loss`` (log-loss after the epoch; NaN without a validation set), ``accuracy`` (on the
    validation set, else on the batches), ``learning_rate``, and ``seconds`` since training began, all runs together.

    Examples
    --------
    >>> history = History()
    >>> history.append(1, [0.7], [0.6], [0.5], [0.01], 0.1)
    >>> len(history), history["train_loss"].tolist()
    (1, [0.7])
    """

    def __init__(self) -> None:
        self._columns: dict[str, list[float]] = {name: [] for name in COLUMNS}

    def append(
        self,
        epoch: int,
        train_loss: Any,
        validation_loss: Any,
        accuracy: Any,
        learning_rate: Any,
        seconds: float,
    ) -> None:
        """Add an epoch; all but ``epoch`` and ``seconds`` are sequences over the runs."""
        columns = zip(train_loss, validation_loss, accuracy, learning_rate, strict=True)
        for run, values in enumerate(columns):
            self.append_row(**dict(zip(COLUMNS, (epoch, run, *values, seconds), strict=True)))

    def append_row(self, **row: float) -> None:
        """Add one run's epoch, by the names of the columns."""
        for name in COLUMNS:
            self._columns[name].append(row[name])

    def __len__(self) -> int:
        return len(self._columns["epoch"])

    def __getitem__(self, column: str) -> np.ndarray:
        return np.asarray(self._columns[column])

    def select_run(self, run: int) -> History:
        """Return the history of one run, as run 0."""
        keep = [i for i, r in enumerate(self._columns["run"]) if r == run]
        single = History()
        single._columns = {name: [values[i] for i in keep] for name, values in self._columns.items()}
        single._columns["run"] = [0] * len(keep)
        return single

    def to_dict(self) -> dict[str, list[float]]:
        """Return the columns as lists."""
        return {name: list(values) for name, values in self._columns.items()}

    @classmethod
    def from_dict(cls, columns: dict[str, list[float]]) -> History:
        """Rebuild from :meth:`to_dict`: lists of numbers, all of the same length, by the names of the columns."""
        if not isinstance(columns, dict) or set(columns) != set(COLUMNS):
            got = ", ".join(map(str, columns)) if isinstance(columns, dict) else type(columns).__name__
            raise ValueError(f"columns must be {', '.join(COLUMNS)}, got {got}.")
        for name, values in columns.items():
            counted = name in ("epoch", "run")  # the others may be NaN, where there is nothing to tell
            if not isinstance(values, list) or not all(_is_number(value, counted) for value in values):
                kind = "integers" if counted else "numbers"
                raise ValueError(f"column {name!r} must be a list of {kind}, got {reprlib.repr(values)}.")
        if len({len(values) for values in columns.values()}) > 1:
            lengths = ", ".join(f"{len(columns[name])} of {name!r}" for name in COLUMNS)
            raise ValueError(f"columns must be of the same length, got {lengths}.")
        history = cls()
        history._columns = {name: list(columns[name]) for name in COLUMNS}
        return history

    def to_frame(self) -> Any:
        """Return a pandas data frame; needs pandas."""
        try:
            import pandas
        except ImportError as error:  # pragma: no cover
            raise ImportError("to_frame needs pandas: pip install pandas; to_dict does without.") from error
        return pandas.DataFrame(self.to_dict())

    def __repr__(self) -> str:
        if not len(self):
            return "History(empty)"
        runs = int(max(self._columns["run"])) + 1
        epochs = int(max(self._columns["epoch"]))
        return f"History({epochs} epochs, {runs} runs, train_loss={np.mean(self['train_loss'][-runs:]):.4f})"


def _is_number(value: object, counted: bool) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < 2**63  # what an array can hold
    return isinstance(value, float) and not counted
