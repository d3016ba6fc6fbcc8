"""What happened in training, epoch by epoch and run by run."""

from __future__ import annotations

from typing import Any

import numpy as np

from legendretron._internal.extras import import_extra
from legendretron._internal.fields import array, check_fields

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
        self, epoch: int, train_loss: Any, validation_loss: Any, accuracy: Any, learning_rate: Any, seconds: float
    ) -> None:
        """Add an epoch; all but ``epoch`` and ``seconds`` are sequences over the runs."""
        columns = zip(train_loss, validation_loss, accuracy, learning_rate, strict=True)
        for run, values in enumerate(columns):
            self.append_row(epoch, run, *values, seconds)

    def append_row(self, *row: float) -> None:
        """Add one run's epoch, in the order of the columns."""
        for name, value in zip(COLUMNS, row, strict=True):
            self._columns[name].append(value)

    def __len__(self) -> int:
        return len(self._columns["epoch"])

    def __getitem__(self, column: str) -> np.ndarray:
        return np.asarray(self._columns[column], dtype=_dtype_of(column))

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

    def to_state(self) -> dict[str, np.ndarray]:
        """Return the columns as arrays."""
        return {name: self[name] for name in COLUMNS}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> History:
        """Rebuild from :meth:`to_state`; anything else raises a ``ValueError``."""
        epochs = state.get("epoch") if isinstance(state, dict) else None
        length = epochs.shape[0] if getattr(epochs, "shape", ()) else 0  # type: ignore[union-attr]
        # losses may be NaN, where there is nothing to tell
        check_fields("history", state, {name: array(length, dtype=_dtype_of(name), finite=False) for name in COLUMNS})
        history = cls()
        history._columns = {name: state[name].tolist() for name in COLUMNS}
        return history

    def to_frame(self) -> Any:
        """Return a pandas data frame; needs pandas."""
        return import_extra("pandas", "to_frame", "tables").DataFrame(self.to_dict())

    def __repr__(self) -> str:
        if not len(self):
            return "History(empty)"
        runs = int(max(self._columns["run"])) + 1
        epochs = int(max(self._columns["epoch"]))
        return f"History({epochs} epochs, {runs} runs, train_loss={np.mean(self['train_loss'][-runs:]):.4f})"


def _dtype_of(column: str) -> str:
    return "int64" if column in ("epoch", "run") else "float64"
