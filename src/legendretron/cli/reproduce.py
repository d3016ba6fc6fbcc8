"""``legendretron reproduce``: the paper's tables and figures."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from legendretron._internal.printable import one_line
from legendretron._internal.provenance import provenance
from legendretron._internal.validation import check_device
from legendretron.cli.command_options import Backend, ReproduceOptions
from legendretron.cli.options import find_given, wrong, wrong_usage_of
from legendretron.cli.outputs import check_is_named, check_writable, naming
from legendretron.cli.terminal import Terminal, grid
from legendretron.experiments import Experiment, Resources, Sweep, render, sweep
from legendretron.experiments.runner import Finished, code_of
from legendretron.paper import EXPERIMENTS


class SweepProgress:
    """Progress of a sweep, which calls it after every batch: a bar on a terminal, elsewhere notes."""

    def __init__(self, experiment: Experiment, terminal: Terminal) -> None:
        self.experiment, self.terminal = experiment, terminal
        self.shown = sys.stderr.isatty() and not terminal.quiet
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
        console = Console(stderr=True)
        self.bar = Progress(*columns, console=console, speed_estimate_period=3600.0, disable=not self.shown)
        self.task = self.bar.add_task(experiment.name, total=None, last="")

    def download(self, name: str, done: int, total: int | None) -> None:
        """Show how much of a data set has been downloaded."""
        if self.shown:
            self.bar.update(self.task, total=total, completed=done, last=f"downloading {name}")
        elif done == total or done == 0:
            self.terminal.note(f"downloading {name}" + (f": {done:,} bytes, done" if done else ""))

    def __call__(self, state: Sweep, finished: Finished | None) -> None:
        """Show where the sweep is; see :func:`legendretron.experiments.sweep`."""
        last = "" if finished is None else f"{finished.batch.dataset}, {finished.batch.model}"
        if self.shown:
            self.bar.update(self.task, total=state.cost, completed=state.cost_done, last=last)
        elif finished is None:
            self.terminal.note(
                f"{self.experiment.name}: {state.total:,} runs, {state.before:,} of them done before"
                + (f"; missing data sets: {', '.join(state.skipped)}" if state.skipped else "")
            )
        else:
            what = f"{len(finished.batch.runs)} runs in {finished.seconds:.1f} s" if finished.outcome else "failed"
            self.terminal.note(f"{last}: {what}; {state.before + state.now:,} of {state.total:,} done")


_Number = TypeVar("_Number")


def reproduce(terminal: Terminal, options: ReproduceOptions) -> None:
    """See :class:`~legendretron.cli.command_options.ReproduceOptions`."""
    asked = _select_experiments(options)
    data, epochs, out = options.data, options.epochs, options.out
    device = str(check_device(options.device))
    check_is_named("--out", out)
    if data is not None and not data.expanduser().is_dir():
        raise wrong("--data", f"there is no folder {str(data)!r}.")
    if options.address is not None and options.backend is Backend.loky:
        raise wrong("--address", "it is that of a Ray cluster; give --backend ray.")
    if options.jobs == 0:
        raise wrong("--jobs", "it must be 1 or more, or -1, got 0.")
    n_jobs = (os.cpu_count() or 1) if options.jobs == -1 else options.jobs
    if epochs is not None:
        terminal.warning(f"{epochs} epochs: a trial, not the paper's recipe.")
    for experiment in asked:
        with naming(out):
            check_writable(out / experiment.name / "runs.jsonl")  # before the work
    resources = Resources(None if data is None else data.expanduser().absolute(), device)
    payload: dict[str, Any] = {}
    views: list[Any] = []
    failures: list[str] = []
    this = code_of(provenance())
    for experiment in asked:
        command = _command(experiment, options, device)
        folder = out / experiment.name
        progress = SweepProgress(experiment, terminal)
        with progress.bar:
            state = sweep(
                experiment,
                folder,
                resources,
                backend=options.backend.value,
                n_jobs=n_jobs,
                address=options.address,
                batch_size=options.batch,
                render_only=options.render_only,
                command=command,
                on_progress=progress,
                on_download=progress.download,
            )
        files = render(experiment, state, folder)
        if others := {code: n for code, n in state.commits.items() if code != this and not options.render_only}:
            terminal.warning(
                f"{sum(others.values()):,} runs were done before by other versions of the code ({', '.join(others)}), whose "
                f"results may differ; to do them again, move {str(folder / 'runs.jsonl')!r} away."
            )
        for how in state.skipped.values():
            (terminal.warning if options.datasets is None else failures.append)(how)
        for why in state.too_large.values():
            (terminal.warning if options.sizes is None else failures.append)(why)
        failures += [f"{batch.dataset}, {batch.model}: {why}" for batch, why in state.failed]
        payload[experiment.name] = _summary(state, files)
        views.append(_view(experiment, state, files))
    error = ""
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        error = f"not all runs could be done{more}: {failures[0]}"
    elif not any(entry["runs"] for entry in payload.values()):
        error = (
            f"there are no such results of {options.table} in {str(out)!r}; leave out --render-only to run it."
            if options.render_only
            else f"no data set of {options.table} is available."
        )
    terminal.result({"experiments": payload, "failed": failures} | ({"error": error} if error else {}), *views)
    if error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        raise typer.Exit(1)


def _select_experiments(options: ReproduceOptions) -> list[Experiment]:
    table = options.table
    if table != "all" and table not in EXPERIMENTS:
        raise wrong("TABLE", f"there is no table {table!r}; use one of {', '.join(EXPERIMENTS)}, or all.")
    narrowed = find_given(options, "datasets", "models", "noise", "sizes")
    if table == "all" and narrowed:
        raise wrong("TABLE", f"{', '.join(narrowed)} can be given for one TABLE only.")
    chosen = []
    for experiment in EXPERIMENTS.values() if table == "all" else [EXPERIMENTS[table]]:
        narrow = experiment.narrow(seeds=options.seeds)
        for called, name, value in (
            (
                "--datasets",
                "datasets",
                None if options.datasets is None else _names(options.datasets, experiment.datasets),
            ),
            ("--model", "models", options.models),
            ("--noise", "noise", None if options.noise is None else _words(options.noise, float, "--noise")),
            ("--sizes", "sizes", None if options.sizes is None else _words(options.sizes, int, "--sizes")),
        ):
            narrowing: dict[str, Any] = {name: value or None}
            with wrong_usage_of(called):
                narrow = narrow.narrow(**narrowing)
        chosen.append(narrow if options.epochs is None else narrow.shorten(options.epochs))
    return chosen


def _names(text: str, known: Iterable[str]) -> list[str]:
    """Split comma-separated names, some of which contain a comma."""
    names, rest = [], [word.strip() for word in text.split(",") if word.strip()]
    spelling = {name.lower(): name for name in known}
    while rest:
        joined = [", ".join(rest[:length]) for length in range(len(rest), 0, -1)]
        found = next((name for name in joined if name.lower() in spelling), rest[0])
        names.append(spelling.get(found.lower(), found))
        rest = rest[found.count(", ") + 1 :]
    if not names:
        raise wrong("--datasets", "is empty.")
    return names


def _words(text: str, kind: Callable[[str], _Number], option: str) -> list[_Number]:
    try:
        words = [kind(word.strip()) for word in text.split(",") if word.strip()]
    except ValueError as error:
        raise wrong(option, f"{text!r} must be comma-separated numbers.") from error
    if not words:
        raise wrong(option, "is empty.")
    return words


def _command(experiment: Experiment, options: ReproduceOptions, device: str) -> str:
    """Return the command that repeats a sweep, without the folders of this machine."""
    words = ["legendretron", "reproduce", experiment.name]
    if options.data is not None:
        words += ["--data", "DIR"]
    for name, value in find_given(options, "datasets", "seeds", "noise", "sizes", "epochs").items():
        words += [name, repr(value) if " " in str(value) else str(value)]
    for model in options.models or []:
        words += ["--model", repr(model)]
    return " ".join([*words, *(["--device", device] if device != "cpu" else [])])


def _summary(state: Sweep, files: Iterable[Path]) -> dict[str, Any]:
    return {
        "runs": state.before + state.now,
        "asked": state.total,
        "done_before": state.before,
        "missing_datasets": list(state.skipped),
        "files": [str(file) for file in files],
    }


def _view(experiment: Experiment, state: Sweep, files: Iterable[Path]) -> Any:
    view = grid(experiment.name, experiment.title)
    view.columns[1].justify = "left"
    view.add_row("runs", f"{state.before + state.now:,} of {state.total:,} done, {state.before:,} of them before")
    if state.skipped:
        view.add_row("data sets missing", ", ".join(state.skipped))
    for file in files:
        view.add_row("written", str(file))
    return view
