"""A progress bar on a terminal, silence in a log."""

from __future__ import annotations

import sys
import time
from typing import TextIO

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
