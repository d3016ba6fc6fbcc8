"""What happens epoch by epoch: the history, early stopping, and the progress that is shown."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

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


class EarlyStopping:
    """Best loss of each run, and for how many epochs it has not improved by ``tol``: it stops after ``n_iter_no_change``.

    Examples
    --------
    >>> stopping = EarlyStopping(tol=0.0, n_iter_no_change=2)
    >>> [(bool(stopping.update(loss)), bool(stopping.exhausted)) for loss in (0.7, 0.6, 0.6, 0.8)]
    [(True, False), (True, False), (False, False), (False, True)]
    """

    def __init__(self, tol: float, n_iter_no_change: int, n_runs: int = 1) -> None:
        self.tol, self.n_iter_no_change = tol, n_iter_no_change
        self.best_loss = np.full(n_runs, np.inf)
        self.waited = np.zeros(n_runs, dtype=np.int64)

    def update(self, loss: np.ndarray | float, active: np.ndarray | bool = True) -> np.ndarray:
        """Take in the losses ``(R,)`` of an epoch, for the runs that are active; return which are the best so far."""
        improved = active & (loss < self.best_loss - self.tol)
        best: np.ndarray = active & (loss < self.best_loss)
        self.best_loss = np.where(best, loss, self.best_loss)
        self.waited = np.where(improved, 0, self.waited + active)
        return best

    @property
    def exhausted(self) -> np.ndarray:
        """Which runs have no patience left, shape (R,)."""
        return self.waited >= self.n_iter_no_change


_WIDTH = 24
_EVERY = 0.1


class Progress:
    """Progress over epochs or steps, on standard error if no stream is given; ``label`` stands before the bar, or each line.

    ``verbose`` is 0 for nothing, 1 for a bar if the stream is a terminal, 2 for a line per epoch, anywhere.
    """

    def __init__(
        self,
        total: int,
        verbose: int,
        stream: TextIO | None = None,
        label: str = "",
        unit: str = "epoch",
        start: int = 0,
    ) -> None:
        self.unit, self.start = unit, start  # epochs or steps of a fit that is resumed
        self.label = f"{label} " if label else ""
        self.stream = sys.stderr if stream is None else stream
        self.total = total
        self.lines = verbose >= 2
        self.bar = verbose == 1 and self.stream.isatty()
        self.began = self.shown = time.monotonic()
        #: rows so far, if the speed is to be shown
        self.rows: int | None = None
        self._begun = False

    def update(self, done: int, train_loss: float, validation_loss: float | None) -> None:
        """Show how many epochs or steps are done."""
        if not (self.lines or self.bar):
            return
        self._begun = True
        now = time.monotonic()
        losses = f"loss {train_loss:.4f}" + ("" if validation_loss is None else f", validation {validation_loss:.4f}")
        if self.rows is not None:
            losses += f", {self.rows / max(now - self.began, 1e-9):,.0f} rows/s"
        if self.lines:
            print(
                f"{self.label}{self.unit} {done}/{self.total}: {losses}, {now - self.began:.1f} s",
                file=self.stream,
                flush=True,
            )
        elif now - self.shown >= _EVERY or done == self.total:
            self.shown = now
            full = _WIDTH * done // self.total
            left = (now - self.began) / (done - self.start) * (self.total - done)
            bar = "#" * full + "." * (_WIDTH - full)
            self.stream.write(f"\r{self.label}[{bar}] {done}/{self.total} {losses}, {left:.0f} s left \x1b[K")
            self.stream.flush()

    def close(self) -> None:
        """End the line of the bar."""
        if self.bar and self._begun:
            self.stream.write("\n")
            self.stream.flush()
