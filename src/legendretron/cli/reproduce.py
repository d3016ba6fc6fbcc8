"""``legendretron reproduce``: the paper's tables and figures."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from legendretron.cli.errors import one_line
from legendretron.cli.options import wrong_usage_of
from legendretron.cli.outputs import check_writable, naming
from legendretron.cli.report import Report, grid

if TYPE_CHECKING:
    from legendretron.experiments import Experiment, Sweep

__all__ = ["reproduce"]

#: What can be reproduced, in the order of the paper; ``legendretron.paper.EXPERIMENTS``.
TABLES = ("table_auc", "figure_training_size", "table_vgg", "table_libsvm", "figure_proper_losses", "runtime")
Backend = StrEnum("Backend", ["loky", "ray", "dask"])
_Number = TypeVar("_Number")
_WHAT, _HOW = "What to run", "How to run it"


def _what(help: str, *names: str, **limits: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=_WHAT, show_default=False, **limits)


def _how(help: str, *names: str, **limits: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=_HOW, **limits)


def reproduce(
    report: Report,
    table: Annotated[str, typer.Argument(metavar="[TABLE]", help=f"One of {', '.join(TABLES)}; or all.")] = "all",
    data: Annotated[
        Path | None, _what("Folder with data sets; if not given, they are downloaded. See 'legendretron datasets'.")
    ] = None,
    datasets: Annotated[str | None, _what("Only these data sets, comma-separated.")] = None,
    models: Annotated[list[str] | None, _what("Only this model; repeat it for several.", "--model")] = None,
    seeds: Annotated[int | None, _what("Repetitions, with seeds from 0.", min=1, max=10_000)] = None,
    noise: Annotated[str | None, _what("Shares of training labels to flip, comma-separated: 0,0.2,0.5.")] = None,
    sizes: Annotated[str | None, _what("Numbers of training rows, comma-separated.")] = None,
    epochs: Annotated[int | None, _what("Number of epochs: a trial, not the paper's recipe.", min=1)] = None,
    device: Annotated[str, _how("Where to train: cpu, cuda, cuda:1, or auto.")] = "cpu",
    backend: Annotated[Backend, _how("Processes on this machine (loky), or a cluster (ray, dask).")] = Backend.loky,
    jobs: Annotated[int, _how("Batches to run at once; -1 for one per processor.", "--jobs", "-j", min=-1)] = 1,
    address: Annotated[
        str | None, _how("Address of the cluster; if not given, one is started here.", show_default=False)
    ] = None,
    batch: Annotated[
        int | None, _how("Most runs to train side by side; all that fit if not given.", min=1, show_default=False)
    ] = None,
    render_only: Annotated[bool, _how("Run nothing; only render existing results.", "--render-only")] = False,
    out: Annotated[Path, _how("Folder for results. Existing results are not run again.", "--out", "-o")] = Path(
        "results"
    ),
) -> None:
    """Run the paper's tables and figures, and compare them with the published numbers.

    Results are saved as soon as they are known: a sweep that was stopped or killed resumes when the same command is run
    again. Tables (Markdown, CSV) and pictures are written next to the results.
    """
    from legendretron._internal.provenance import provenance
    from legendretron._internal.validation import check_device
    from legendretron.cli.sweep_progress import SweepProgress
    from legendretron.experiments import Resources, render, sweep
    from legendretron.experiments.runner import code_of

    asked = _asked(table, datasets, models, seeds, noise, sizes, epochs)
    with wrong_usage_of("--device"):
        device = str(check_device(device))
    if data is not None and not data.expanduser().is_dir():
        raise typer.BadParameter(f"there is no folder {str(data)!r}.", param_hint="'--data'")
    if address is not None and backend is Backend.loky:
        raise typer.BadParameter("it is that of a Ray or Dask cluster; give --backend too.", param_hint="'--address'")
    if jobs == 0:
        raise typer.BadParameter("it must be 1 or more, or -1, got 0.", param_hint="'--jobs'")
    n_jobs = (os.cpu_count() or 1) if jobs == -1 else jobs
    if epochs is not None:
        report.warning(f"{epochs} epochs: a trial, not the paper's recipe.")
    for experiment in asked:
        with naming(out):
            check_writable(out / experiment.name / "runs.jsonl")  # before the work
    resources = Resources(None if data is None else data.expanduser().absolute(), device)
    payload: dict[str, Any] = {}
    views: list[Any] = []
    failures: list[str] = []
    this = code_of(provenance())
    for experiment in asked:
        command = _command(experiment, data, datasets, models, seeds, noise, sizes, epochs, device)
        folder = out / experiment.name
        with SweepProgress(experiment, report) as progress:
            state = sweep(
                experiment,
                folder,
                resources,
                backend=backend.value,
                n_jobs=n_jobs,
                address=address,
                batch_size=batch,
                render_only=render_only,
                command=command,
                on_progress=progress,
                on_download=progress.download,
            )
        files = render(experiment, state, folder)
        if others := {code: n for code, n in state.commits.items() if code != this and not render_only}:
            report.warning(
                f"{sum(others.values()):,} runs were done before by other versions of the code ({', '.join(others)}), whose "
                f"results may differ; to do them again, move {str(folder / 'runs.jsonl')!r} away."
            )
        for how in state.skipped.values():
            (report.warning if datasets is None else failures.append)(how)
        for why in state.too_large.values():
            (report.warning if sizes is None else failures.append)(why)
        failures += [f"{batch.dataset}, {batch.model}: {why}" for batch, why in state.failed]
        payload[experiment.name] = _summary(state, files)
        views.append(_view(experiment, state, files))
    error = ""
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        error = f"not all runs could be done{more}: {failures[0]}"
    elif not any(entry["runs"] for entry in payload.values()):
        error = (
            f"there are no such results of {table} in {str(out)!r}; leave out --render-only to run it."
            if render_only
            else f"no data set of {table} is available; 'legendretron datasets' says how to get each."
        )
    report.result({"experiments": payload, "failed": failures} | ({"error": error} if error else {}), *views)
    if error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        raise typer.Exit(1)


def _asked(
    table: str,
    datasets: str | None,
    models: list[str] | None,
    seeds: int | None,
    noise: str | None,
    sizes: str | None,
    epochs: int | None,
) -> list[Experiment]:
    from legendretron.paper import EXPERIMENTS

    if table != "all" and table not in EXPERIMENTS:
        raise typer.BadParameter(
            f"there is no table {table!r}; use one of {', '.join(EXPERIMENTS)}, or all.", param_hint="'TABLE'"
        )
    narrowed = {"datasets": datasets, "--model": models, "noise": noise, "sizes": sizes}
    given = [name for name, value in narrowed.items() if value is not None]
    if table == "all" and given:
        raise typer.BadParameter(f"{', '.join(given)} can be given for one TABLE only.", param_hint="'TABLE'")
    chosen = []
    for experiment in EXPERIMENTS.values() if table == "all" else [EXPERIMENTS[table]]:
        narrow = experiment.narrowed(seeds=seeds)
        values: Any
        for option, values in {
            "datasets": None if datasets is None else _names(datasets, experiment.datasets),
            "models": models,
            "noise": None if noise is None else _words(noise, float, "--noise"),
            "sizes": None if sizes is None else _words(sizes, int, "--sizes"),
        }.items():
            with wrong_usage_of("--model" if option == "models" else f"--{option}"):
                narrow = narrow.narrowed(**{option: values})
        chosen.append(narrow if epochs is None else narrow.shortened(epochs))
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
        raise typer.BadParameter("is empty.", param_hint="'--datasets'")
    return names


def _words(text: str, kind: Callable[[str], _Number], option: str) -> list[_Number]:
    try:
        words = [kind(word.strip()) for word in text.split(",") if word.strip()]
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} must be comma-separated numbers.", param_hint=f"'{option}'") from error
    if not words:
        raise typer.BadParameter("is empty.", param_hint=f"'{option}'")
    return words


def _command(
    experiment: Experiment, data: Path | None, datasets: Any, models: Any, seeds: Any, noise: Any, sizes: Any, epochs: Any,
    device: str,
) -> str:  # fmt: skip
    """Return the command that repeats a sweep, without the folders of this machine."""
    words = ["legendretron", "reproduce", experiment.name]
    datasets = None if datasets is None else repr(datasets) if " " in datasets else datasets
    options = {"--datasets": datasets, "--seeds": seeds, "--noise": noise, "--sizes": sizes, "--epochs": epochs}
    if data is not None:
        words += ["--data", "DIR"]
    for name, value in options.items():
        words += [] if value is None else [name, str(value)]
    for model in models or []:
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
