"""``legendretron reproduce``: the paper's tables and figures."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from legendretron.cli.errors import one_line
from legendretron.cli.options import given, option, wrong, wrong_usage_of
from legendretron.cli.outputs import check_writable, naming
from legendretron.cli.terminal import Terminal, grid

if TYPE_CHECKING:
    from legendretron.experiments import Experiment, Sweep

#: What can be reproduced, in the order of the paper; ``legendretron.paper.EXPERIMENTS``.
TABLES = ("table_auc", "figure_training_size", "table_vgg", "table_libsvm", "figure_proper_losses", "runtime")
Backend = StrEnum("Backend", ["loky", "ray"])
_Number = TypeVar("_Number")
_WHAT, _HOW = "What to run", "How to run it"


@dataclass(kw_only=True)
class ReproduceOptions:
    """Options of ``reproduce``."""

    table: Annotated[str, typer.Argument(metavar="[TABLE]", help=f"One of {', '.join(TABLES)}; or all.")] = "all"
    data: Annotated[
        Path | None,
        option("Folder with data sets; if not given, they are downloaded. See 'legendretron datasets'.", panel=_WHAT),
    ] = None
    datasets: Annotated[str | None, option("Only these data sets, comma-separated.", panel=_WHAT)] = None
    models: Annotated[list[str] | None, option("Only this model; repeat it for several.", "--model", panel=_WHAT)] = (
        None
    )
    seeds: Annotated[int | None, option("Repetitions, with seeds from 0.", panel=_WHAT, min=1, max=10_000)] = None
    noise: Annotated[
        str | None, option("Shares of training labels to flip, comma-separated: 0,0.2,0.5.", panel=_WHAT)
    ] = None
    sizes: Annotated[str | None, option("Numbers of training rows, comma-separated.", panel=_WHAT)] = None
    epochs: Annotated[int | None, option("Number of epochs: a trial, not the paper's recipe.", panel=_WHAT, min=1)] = (
        None
    )
    device: Annotated[str, option("Where to train: cpu, cuda, cuda:1, or auto.", panel=_HOW, show_default=True)] = "cpu"
    backend: Annotated[
        Backend, option("Processes on this machine (loky), or a Ray cluster (ray).", panel=_HOW, show_default=True)
    ] = Backend.loky
    jobs: Annotated[
        int,
        option(
            "Batches to run at once; -1 for one per processor.", "--jobs", "-j", panel=_HOW, show_default=True, min=-1
        ),
    ] = 1
    address: Annotated[str | None, option("Address of the cluster; if not given, one is started here.", panel=_HOW)] = (
        None
    )
    batch: Annotated[
        int | None, option("Most runs to train side by side; all that fit if not given.", panel=_HOW, min=1)
    ] = None
    render_only: Annotated[
        bool, option("Run nothing; only render existing results.", "--render-only", panel=_HOW, show_default=True)
    ] = False
    out: Annotated[
        Path,
        option("Folder for results. Existing results are not run again.", "--out", "-o", panel=_HOW, show_default=True),
    ] = Path("results")


def reproduce(terminal: Terminal, options: ReproduceOptions) -> None:
    """Run the paper's tables and figures, and compare them with the published numbers.

    Results are saved as soon as they are known: a sweep that was stopped or killed resumes when the same command is run
    again. Tables (Markdown, CSV) and pictures are written next to the results.
    """
    from legendretron._internal.provenance import provenance
    from legendretron._internal.validation import check_device
    from legendretron.cli.sweep_progress import SweepProgress
    from legendretron.experiments import Resources, render, sweep
    from legendretron.experiments.runner import code_of

    asked = _select_experiments(options)
    data, epochs, out = options.data, options.epochs, options.out
    device = str(check_device(options.device))
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
        with SweepProgress(experiment, terminal) as progress:
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
            else f"no data set of {options.table} is available; 'legendretron datasets' says how to get each."
        )
    terminal.result({"experiments": payload, "failed": failures} | ({"error": error} if error else {}), *views)
    if error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        raise typer.Exit(1)


def _select_experiments(options: ReproduceOptions) -> list[Experiment]:
    from legendretron.paper import EXPERIMENTS

    table = options.table
    if table != "all" and table not in EXPERIMENTS:
        raise wrong("TABLE", f"there is no table {table!r}; use one of {', '.join(EXPERIMENTS)}, or all.")
    narrowed = given(options, "datasets", "models", "noise", "sizes")
    if table == "all" and narrowed:
        raise wrong("TABLE", f"{', '.join(narrowed)} can be given for one TABLE only.")
    chosen = []
    for experiment in EXPERIMENTS.values() if table == "all" else [EXPERIMENTS[table]]:
        narrow = experiment.narrowed(seeds=options.seeds)
        for called, name, value in (
            ("--datasets", "datasets", options.datasets and _names(options.datasets, experiment.datasets)),
            ("--model", "models", options.models),
            ("--noise", "noise", options.noise and _words(options.noise, float, "--noise")),
            ("--sizes", "sizes", options.sizes and _words(options.sizes, int, "--sizes")),
        ):
            narrowing: dict[str, Any] = {name: value or None}
            with wrong_usage_of(called):
                narrow = narrow.narrowed(**narrowing)
        chosen.append(narrow if options.epochs is None else narrow.shortened(options.epochs))
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
    for name, value in given(options, "datasets", "seeds", "noise", "sizes", "epochs").items():
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
