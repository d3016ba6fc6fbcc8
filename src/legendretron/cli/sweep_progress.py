"""Progress of a sweep: a progress bar on a terminal, one line per batch elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from legendretron.cli.terminal import Terminal
from legendretron.experiments import Experiment, Sweep
from legendretron.experiments.backends import Finished


class SweepProgress:
    """Context manager and callback that a sweep calls after every batch."""

    def __init__(self, experiment: Experiment, terminal: Terminal) -> None:
        self.experiment, self.terminal = experiment, terminal
        self.bar: Progress | None = None
        if sys.stderr.isatty() and not terminal.quiet:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[last]}"),
            )
            # durations of runs differ a thousandfold, so speed is averaged over a long period
            self.bar = Progress(*columns, console=Console(stderr=True), speed_estimate_period=3600.0)
            self.task = self.bar.add_task(experiment.name, total=None, last="")

    def __enter__(self) -> SweepProgress:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def download(self, name: str, done: int, total: int | None) -> None:
        """Show how much of a data set has been downloaded."""
        if self.bar is not None:
            self.bar.update(self.task, total=total, completed=done, last=f"downloading {name}")
        elif done == total or done == 0:
            self.terminal.note(f"downloading {name}" + (f": {done:,} bytes, done" if done else ""))

    def __call__(self, state: Sweep, finished: Finished | None) -> None:
        """Show where the sweep is; see :func:`legendretron.experiments.sweep`."""
        last = "" if finished is None else f"{finished.batch.dataset}, {finished.batch.model}"
        if self.bar is not None:
            self.bar.update(self.task, total=state.cost, completed=state.cost_done, last=last)
        elif finished is None:
            self.terminal.note(
                f"{self.experiment.name}: {state.total:,} runs, {state.before:,} of them done before"
                + (f"; missing data sets: {', '.join(state.skipped)}" if state.skipped else "")
            )
        else:
            what = f"{len(finished.batch.runs)} runs in {finished.seconds:.1f} s" if finished.outcome else "failed"
            self.terminal.note(f"{last}: {what}; {state.before + state.now:,} of {state.total:,} done")
