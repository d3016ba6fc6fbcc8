"""Run what is not there yet, batch by batch, and keep each result as soon as it is known."""

from __future__ import annotations

import itertools
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from legendretron.experiments.backends import Finished, executed
from legendretron.experiments.experiment import Batch, Experiment, MissingDataError, OnDownload, Record, Resources
from legendretron.experiments.plain import plain
from legendretron.experiments.store import Store, read_records

__all__ = ["Sweep", "code_of", "render", "sweep"]

#: Share of the free memory that models may take; the rest is for data and what a step needs for itself.
_SHARE = 0.5
#: Memory that is taken for granted where the system does not say, as Windows: 8 GB.
_USUAL_MEMORY = 8 * 10**9


@dataclass
class Sweep:
    """What a sweep has done.

    Attributes
    ----------
    total, before, now : int
        Runs asked for, of these done before, and done by this call.
    failed : list of (Batch, str)
        What could not be done, and why, in one line each. A batch whose settings are not JSON is there without them.
    skipped : dict
        Data sets that are not there, and how to get each.
    too_large : dict
        Data sets that are there only in part, and which sizes they are too small for.
    keys : list of str
        Of all runs asked for, in order.
    commits : dict
        Versions of the code by which the runs were done before, and how many.
    cost, cost_done : float
        The same as ``total`` and ``before + now``, each run counted by how long it takes.
    """

    total: int
    before: int
    now: int = 0
    failed: list[tuple[Batch, str]] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    too_large: dict[str, str] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    commits: dict[str, int] = field(default_factory=dict)
    cost: float = 0.0
    cost_done: float = 0.0


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
    """Do all runs of an experiment that have no result in a folder yet.

    Results are written by this process alone, as they arrive: workers need the data, but not the folder.

    Parameters
    ----------
    experiment : Experiment
        What to do.
    out : path
        Folder of results; ``out/runs`` gets a file for every batch.
    resources : Resources
        Folder of data, and device.
    backend, n_jobs, address
        See :func:`~legendretron.experiments.backends.executed`.
    batch_size : int, optional
        Runs to train side by side at most; all that fit if None.
    render_only : bool
        Whether to run nothing, and only say what is there.
    command : str
        Written into the results.
    on_progress : callable
        Called with the state of the sweep before the first batch, and after each with what has finished.
    on_download : callable
        Called with the name of a data set, bytes that have come, and bytes in all, if known.
    """
    out = Path(out)
    records = {record["key"]: record for record in read_records(out / "runs")}
    skipped: dict[str, str] = {}
    too_large: dict[str, str] = {}
    if render_only:  # what the results are of does not depend on the data that are there now
        sources, available = _recorded(experiment, records.values())
    else:
        store = Store(out)
        sources, skipped = _sources(experiment, resources, on_download)
        available, too_large = _available(experiment, list(sources), resources)
    whole, refused = _whole_batches(experiment, sources, available)
    done = set(records)
    batches = []
    for batch in whole:
        batches += _parts(batch, done, _limit(experiment, batch.model, n_jobs, batch_size), experiment, resources)
    nameless = [run for batch, _ in refused for run in batch.runs]
    runs = [run for batch in whole for run in batch.runs] + nameless
    missing = [run for batch in batches for run in batch.runs]
    keys = [key for batch in whole for key in batch.run_keys()]
    before = len(runs) - len(missing) - len(nameless)
    state = Sweep(len(runs), before, failed=refused, skipped=skipped, too_large=too_large, keys=keys)
    state.commits = dict(Counter(code_of(records[key]) for key in keys if key in records))
    state.cost = sum(experiment.cost(run) for run in runs)
    state.cost_done = state.cost - sum(experiment.cost(run) for run in missing)
    on_progress(state, None)
    if render_only:
        return state
    if n_jobs != 1:  # the longest first, so that none is left for last alone
        batches.sort(key=lambda batch: -sum(experiment.cost(run) for run in batch.runs))
    for finished in executed(experiment.execute, batches, resources, backend=backend, n_jobs=n_jobs, address=address):
        if finished.outcome is None:
            state.failed.append((finished.batch, finished.error))
        else:
            store.add(finished.batch, finished.outcome, finished.seconds, finished.environment, command)
            state.now += len(finished.batch.runs)
        state.cost_done += sum(experiment.cost(run) for run in finished.batch.runs)
        on_progress(state, finished)
    return state


def render(experiment: Experiment, state: Sweep, out: str | Path) -> list[Path]:
    """Report the runs that a sweep was asked for and that are done; returns the files, none if no run is done.

    Parameters
    ----------
    experiment : Experiment
        Whose ``report`` is used.
    state : Sweep
        What :func:`sweep` returned.
    out : path
        Folder of results, as for :func:`sweep`; tables and pictures are written into it.
    """
    out = Path(out)
    found = {record["key"]: record for record in read_records(out / "runs")}
    # of records without the field, the settings that were asked for tell
    records = [{**found[key], "trial": found[key]["trial"] or experiment.trial} for key in state.keys if key in found]
    return experiment.report(records, out) if records else []


def code_of(environment: Mapping[str, Any]) -> str:
    """Commit of a record, or the version of the package where there is no checkout."""
    return str(environment["commit"] or environment["versions"]["legendretron"])


def _recorded(
    experiment: Experiment, records: Iterable[Record]
) -> tuple[dict[str, str], dict[str, tuple[int | None, ...]]]:
    """Data sets and sizes that there are results of; of a data set with results of both, those of the whole count."""
    sources: dict[str, str] = {}
    sizes: dict[str, set[int | None]] = {}
    for record in records:
        name, source = record["dataset"], record["data"]["source"]
        if name in experiment.datasets and (name not in sources or source == "complete"):
            sources[name] = source
        sizes.setdefault(name, set()).add(record["size"])
    return sources, {name: tuple(size for size in experiment.sizes if size in sizes[name]) for name in sources}


def _sources(
    experiment: Experiment, resources: Resources, on_download: OnDownload
) -> tuple[dict[str, str], dict[str, str]]:
    """Which data there are, and what to do for the others; downloads happen here, once, and not in each worker."""
    sources, skipped = {}, {}
    for name in experiment.datasets:
        try:
            sources[name] = experiment.find_data(name, resources, on_download)
        except MissingDataError as error:
            skipped[name] = str(error)
    return sources, skipped


def _available(
    experiment: Experiment, datasets: list[str], resources: Resources
) -> tuple[dict[str, tuple[int | None, ...]], dict[str, str]]:
    """Sizes that each data set has the rows for, and a sentence where those are not all."""
    if experiment.available_rows is None:
        return dict.fromkeys(datasets, experiment.sizes), {}
    available, too_large = {}, {}
    for name in datasets:
        try:
            rows = experiment.available_rows(name, resources)
        except ValueError:  # damaged: its batches say so, and those of others are done
            available[name] = experiment.sizes
            continue
        available[name] = tuple(size for size in experiment.sizes if size is None or size <= rows)
        beyond = [f"{size:,}" for size in experiment.sizes if size is not None and size > rows]
        if beyond:
            too_large[name] = f"{name} has {rows:,} training rows here: no runs on {', '.join(beyond)}."
    return available, too_large


def _whole_batches(
    experiment: Experiment, sources: dict[str, str], available: dict[str, tuple[int | None, ...]]
) -> tuple[list[Batch], list[tuple[Batch, str]]]:
    """All runs on data that are there, by data set, model and size: those side by side have as many rows.

    And those whose settings cannot be written, with the reason; these have no keys.
    """
    runs = [run for run in experiment.runs() if run.dataset in sources and run.size in available[run.dataset]]
    whole, refused = [], []
    for (dataset, model, _), group in itertools.groupby(runs, key=lambda run: (run.dataset, run.model, run.size)):
        batch = Batch(experiment.name, dataset, model, {}, sources[dataset], tuple(group), experiment.trial)
        asked = experiment.settings(model, dataset)
        try:
            if not isinstance(asked, Mapping):
                raise ValueError(f"settings must be a dict, got {type(asked).__name__}.")
            whole.append(replace(batch, settings=plain(asked, "settings")))
        except ValueError as error:
            refused.append((batch, str(error)))
    return whole, refused


def _limit(experiment: Experiment, model: str, n_jobs: int, batch_size: int | None) -> int:
    """Runs of a model that may be trained side by side, so that there is work for all jobs."""
    if model not in experiment.side_by_side:
        return 1
    groups = len(experiment.datasets) * len(experiment.models) * len(experiment.sizes)
    members = len(experiment.runs()) // groups
    return min(math.ceil(members / math.ceil(max(n_jobs, 1) / groups)), batch_size or members)


def _parts(whole: Batch, done: set[str], limit: int, experiment: Experiment, resources: Resources) -> list[Batch]:
    """Cut what is missing of a batch into parts of the same size.

    The parts of a sweep that goes on after it was killed are those it had before: their size does not depend on what is
    missing, and the runs of a part are there all or none.
    """
    missing = [run for run, key in zip(whole.runs, whole.run_keys(), strict=True) if key not in done]
    size = min(limit, _fitting(experiment, whole.model, whole.dataset, resources.device))
    return [replace(whole, runs=tuple(missing[start : start + size])) for start in range(0, len(missing), size)]


def _fitting(experiment: Experiment, model: str, dataset: str, device: str) -> int:
    """How many runs fit into the device's free memory side by side."""
    if experiment.bytes_per_run is None:
        return 10**9
    if device.startswith("cuda"):
        free = torch.cuda.mem_get_info(device)[1]  # all of it: what this process holds is free for the next batch
    else:
        free = _memory()
    return max(1, int(_SHARE * free / experiment.bytes_per_run(model, dataset)))


def _memory() -> int:
    """Bytes of memory of this machine, or what is usual where that cannot be asked."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # no such function, no such name, or no answer
        return _USUAL_MEMORY
