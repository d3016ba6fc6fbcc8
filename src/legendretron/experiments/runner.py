"""Run what is missing, batch by batch, and save each result as soon as it is known."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from legendretron._internal.json_values import as_json
from legendretron._internal.provenance import provenance
from legendretron._internal.ray_cluster import ray_cluster
from legendretron._internal.validation import check_choice
from legendretron.experiments.experiment import (
    Batch,
    Experiment,
    MissingDataError,
    OnDownload,
    Outcome,
    Record,
    Resources,
    check_outcome,
)
from legendretron.experiments.store import Store, read_records

BACKENDS = ("loky", "ray")


@dataclass(frozen=True)
class Finished:
    """A batch that was executed: its outcome, or why there is none."""

    batch: Batch  #: the batch
    outcome: Outcome | None  #: its outcome; None if it failed
    error: str  #: message in one line, if it failed
    seconds: float  #: time taken
    environment: dict[str, object]  #: device, threads, versions and commit of the process that executed it


def _execute(execute: Callable[[Batch, Resources], Outcome], batch: Batch, resources: Resources) -> Finished:
    """Execute a batch; an error is stored with the batch, and does not stop the others."""
    began = time.perf_counter()
    outcome, error = None, ""
    try:
        outcome = check_outcome(execute(batch, resources), len(batch.runs))
    except (ValueError, ArithmeticError, RuntimeError, MemoryError, OSError) as problem:
        error = " ".join(f"{type(problem).__name__}: {problem}".split())
    return Finished(batch, outcome, error, time.perf_counter() - began, provenance(resources.device))


def execute_batches(
    execute: Callable[[Batch, Resources], Outcome],
    batches: Sequence[Batch],
    resources: Resources,
    *,
    backend: str = "loky",
    n_jobs: int = 1,
    address: str | None = None,
) -> Iterator[Finished]:
    """Execute batches and yield each when it is finished, in any order."""
    check_choice("backend", backend, BACKENDS)
    if address is not None and backend == "loky":
        raise ValueError(f"address is that of a Ray cluster, got {address!r} with backend 'loky'.")
    if backend == "loky" and (n_jobs == 1 or len(batches) == 1):
        yield from (_execute(execute, batch, resources) for batch in batches)
        return
    import joblib

    with contextlib.ExitStack() as stack:
        if backend == "ray":
            stack.enter_context(ray_cluster(n_jobs, address))
            _register_ray()
        stack.enter_context(joblib.parallel_config(backend=backend, n_jobs=n_jobs))
        # one task at a time for each worker: a batch that waits in a worker's queue could be done by another
        parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs")
        yield from parallel(joblib.delayed(_execute)(execute, batch, resources) for batch in batches)


def _register_ray() -> None:
    """Register Ray with joblib, as a backend that returns results as they arrive and not all at the end.

    A backend says by an attribute whether it supports this, and Ray's inherits False. But its pool calls back after every
    task, which is all that is needed.
    """
    import joblib
    from ray.util.joblib.ray_backend import RayBackend

    class StreamingRayBackend(RayBackend):  # type: ignore[misc]
        supports_return_generator = True

    joblib.register_parallel_backend("ray", StreamingRayBackend)


#: Share of the free memory that models may take; the rest is for data and intermediate results.
_SHARE = 0.5
#: Memory that is assumed where the system does not report it, as on Windows: 8 GB.
_USUAL_MEMORY = 8 * 10**9


@dataclass
class Sweep:
    """State of a sweep.

    Examples
    --------
    >>> state = Sweep(total=10, before=4, now=6)
    >>> state.before + state.now == state.total, state.failed
    (True, [])
    """

    total: int  #: runs requested
    before: int  #: of these completed before
    now: int = 0  #: completed by this call
    failed: list[tuple[Batch, str]] = field(default_factory=list)  #: batches, each with its error in one line
    skipped: dict[str, str] = field(default_factory=dict)  #: missing data sets, and how to get each
    too_large: dict[str, str] = field(default_factory=dict)  #: data sets that are there in part, and sizes beyond that
    keys: list[str] = field(default_factory=list)  #: of all runs requested, in order
    #: versions of the code of runs completed before, and their number
    commits: dict[str, int] = field(default_factory=dict)
    cost: float = 0.0  #: as ``total``, each run weighted by its duration
    cost_done: float = 0.0  #: as ``before + now``, weighted


def sweep(
    experiment: Experiment,
    out: str | Path,
    resources: Resources,
    *,
    backend: str = "loky",
    n_jobs: int = 1,
    address: str | None = None,
    batch_size: int | None = None,
    render_only: bool = False,
    command: str = "",
    on_progress: Callable[[Sweep, Finished | None], None] = lambda sweep, finished: None,
    on_download: OnDownload = lambda name, done, total: None,
) -> Sweep:
    """Execute all runs of an experiment that have no result in a folder yet.

    Results are written by this process alone, as they arrive: workers need the data, but not the folder.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    out : path
        Folder of results; its file ``runs.jsonl`` gets a line for each batch.
    resources : Resources
        Folder of data, and device.
    backend, n_jobs, address
        See :func:`~legendretron.experiments.runner.execute_batches`.
    batch_size : int, optional
        Most runs to train side by side; all that fit if None.
    render_only : bool
        Whether to run nothing, and only return the state of the existing results.
    command : str
        Written into the results.
    on_progress : callable
        Called with the state of the sweep, before the first batch with None and after each with the finished batch.
    on_download : callable
        Called with the name of a data set, the number of bytes received, and the total if known.

    Examples
    --------
    >>> import tempfile
    >>> from legendretron.experiments import Experiment, Outcome, Resources
    >>> comparison = Experiment(
    ...     name="mine",
    ...     title="A constant",
    ...     datasets=("iris",),
    ...     models=("constant",),
    ...     settings=lambda model, dataset: {},
    ...     execute=lambda batch, resources: Outcome({"rows": 150}, [{"accuracy": 33.3} for _ in batch.runs]),
    ...     report=lambda records, folder: [],
    ...     seeds=3,
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     state = sweep(comparison, folder, Resources())
    ...     again = sweep(comparison, folder, Resources())
    >>> state.now, again.before, again.now
    (3, 3, 0)
    """
    out = Path(out)
    records = {record["key"]: record for record in read_records(out)}
    skipped: dict[str, str] = {}
    too_large: dict[str, str] = {}
    if render_only:  # existing results do not depend on the data available now
        data = _find_recorded(experiment, records.values())
    else:
        data, skipped, too_large = _find_data(experiment, resources, on_download)
    whole = _whole_batches(experiment, data)
    batches = []
    for batch in whole:
        batches += _missing_parts(batch, records, _most_runs(experiment, batch, n_jobs, batch_size, resources.device))
    runs = [run for batch in whole for run in batch.runs]
    missing = [run for batch in batches for run in batch.runs]
    keys = [key for batch in whole for key in batch.run_keys()]
    state = Sweep(len(runs), len(runs) - len(missing), skipped=skipped, too_large=too_large, keys=keys)
    state.commits = dict(Counter(code_of(records[key]) for key in keys if key in records))
    state.cost = sum(experiment.cost(run) for run in runs)
    state.cost_done = state.cost - sum(experiment.cost(run) for run in missing)
    on_progress(state, None)
    if render_only or not batches:  # without data, nothing is left behind
        return state
    store = Store(out)
    if n_jobs != 1:  # the longest first, so that no long batch runs alone at the end
        batches.sort(key=lambda batch: -sum(experiment.cost(run) for run in batch.runs))
    for finished in execute_batches(
        experiment.execute, batches, resources, backend=backend, n_jobs=n_jobs, address=address
    ):
        if finished.outcome is None:
            state.failed.append((finished.batch, finished.error))
        else:
            store.add(finished.batch, finished.outcome, finished.seconds, finished.environment, command)
            state.now += len(finished.batch.runs)
        state.cost_done += sum(experiment.cost(run) for run in finished.batch.runs)
        on_progress(state, finished)
    return state


def render(experiment: Experiment, state: Sweep, out: str | Path) -> list[Path]:
    """Write the report of the completed runs of a sweep and return its files; none if no run is complete.

    Parameters
    ----------
    experiment : Experiment
        Whose ``report`` is used.
    state : Sweep
        As returned by :func:`sweep`.
    out : path
        Folder of results, as for :func:`sweep`; tables and pictures are written into it.

    Examples
    --------
    After ``state = sweep(experiment, "results/mine", Resources())``::

        for path in render(experiment, state, "results/mine"):
            print(path.read_text())
    """
    out = Path(out)
    found = {record["key"]: record for record in read_records(out)}
    records = [found[key] for key in state.keys if key in found]
    return experiment.report(records, out) if records else []


def code_of(environment: Mapping[str, Any]) -> str:
    """Commit of a record, or the version of the package where there is no checkout."""
    return str(environment["commit"] or environment["versions"]["legendretron"])


#: Of each data set, which data these are, see :attr:`Batch.source`, and the sizes to train on.
_Data = dict[str, tuple[str, tuple[int | None, ...]]]


def _find_recorded(experiment: Experiment, records: Iterable[Record]) -> _Data:
    """Data sets and sizes with results; those of the complete data take precedence over those of a subset."""
    sources: dict[str, str] = {}
    sizes: dict[str, set[int | None]] = {}
    for record in records:
        name, source = record["dataset"], record["data"]["source"]
        if name in experiment.datasets and (name not in sources or source == "complete"):
            sources[name] = source
        sizes.setdefault(name, set()).add(record["size"])
    return {
        name: (source, tuple(size for size in experiment.sizes if size in sizes[name]))
        for name, source in sources.items()
    }


def _find_data(
    experiment: Experiment, resources: Resources, on_download: OnDownload
) -> tuple[_Data, dict[str, str], dict[str, str]]:
    """Available data, how to get what is missing, and messages about sizes for which a data set has too few rows.

    Downloads happen here, once, and not in each worker.
    """
    found: _Data = {}
    skipped, too_large = {}, {}
    for name in experiment.datasets:
        try:
            source = experiment.find_data(name, resources, on_download)
        except MissingDataError as error:
            skipped[name] = str(error)
            continue
        sizes = experiment.sizes
        if experiment.available_rows is not None:
            with contextlib.suppress(ValueError):  # damaged: its batches report it, and the others run
                rows = experiment.available_rows(name, resources)
                sizes = tuple(size for size in experiment.sizes if size is None or size <= rows)
                if beyond := [f"{size:,}" for size in experiment.sizes if size not in sizes]:
                    too_large[name] = f"{name} has {rows:,} training rows here: no runs on {', '.join(beyond)}."
        found[name] = source, sizes
    return found, skipped, too_large


def _whole_batches(experiment: Experiment, data: _Data) -> list[Batch]:
    """All runs on available data, by data set, model and size: runs side by side have the same number of rows."""
    runs = [run for run in experiment.runs() if run.dataset in data and run.size in data[run.dataset][1]]
    whole = []
    for (dataset, model, _), group in itertools.groupby(runs, key=lambda run: (run.dataset, run.model, run.size)):
        settings = as_json(dict(experiment.settings(model, dataset)), f"settings of {model!r}")
        source = data[dataset][0]
        whole.append(Batch(experiment.name, dataset, model, settings, source, tuple(group), experiment.trial))
    return whole


def _most_runs(experiment: Experiment, batch: Batch, n_jobs: int, batch_size: int | None, device: str) -> int:
    """How many runs may be trained side by side, so that there is work for all jobs and memory for all runs."""
    if batch.model not in experiment.side_by_side:
        return 1
    groups = len(experiment.datasets) * len(experiment.models) * len(experiment.sizes)
    members = len(experiment.runs()) // groups
    most = min(math.ceil(members / math.ceil(max(n_jobs, 1) / groups)), batch_size or members)
    if experiment.bytes_per_run is None:
        return most
    if device.startswith("cuda"):
        memory = torch.cuda.mem_get_info(device)[1]  # all of it: what this process holds is free for the next batch
    else:
        try:
            memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (AttributeError, ValueError, OSError):  # no such function, no such name, or no answer
            memory = _USUAL_MEMORY
    return max(1, min(most, int(_SHARE * memory / experiment.bytes_per_run(batch.model, batch.dataset))))


def _missing_parts(whole: Batch, done: Container[str], size: int) -> list[Batch]:
    """Split the missing runs of a batch into parts of the same size.

    A sweep that resumes after it was killed has the same parts as before: their size does not depend on what is missing,
    and the results of a part are stored atomically.
    """
    missing = [run for run, key in zip(whole.runs, whole.run_keys(), strict=True) if key not in done]
    return [replace(whole, runs=tuple(missing[start : start + size])) for start in range(0, len(missing), size)]
