"""Run what is not there yet, batch by batch, and keep each result as soon as it is known."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from legendretron.datasets import find_dataset
from legendretron.experiments.backends import Finished, executed
from legendretron.experiments.experiment import Batch, Experiment, Place, Run
from legendretron.experiments.store import Store

__all__ = ["Sweep", "sweep"]

#: Share of the free memory that models may take; the rest is for data and what a step needs for itself.
_SHARE = 0.5


@dataclass
class Sweep:
    """What a sweep has done.

    Attributes
    ----------
    total, before, now : int
        Runs asked for, of these done before, and done by this call.
    failed : list of (Batch, str)
        What could not be done, and why, in one line each.
    skipped : dict
        Data sets that are not there, and how to get each.
    cost, cost_done : float
        The same as ``total`` and ``before + now``, each run counted by how long it takes.
    """

    total: int
    before: int
    now: int = 0
    failed: list[tuple[Batch, str]] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    cost: float = 0.0
    cost_done: float = 0.0


def sweep(
    experiment: Experiment,
    out: Path,
    place: Place,
    *,
    backend: str = "loky",
    n_jobs: int = 1,
    address: str | None = None,
    command: str = "",
    on_progress: Callable[[Sweep, Finished | None], None] = lambda sweep, finished: None,
) -> Sweep:
    """Do all runs of an experiment that have no result in a folder yet.

    Results are written by this process alone, as they arrive: workers need the data, but not the folder.

    Parameters
    ----------
    experiment : Experiment
        What to do.
    out : path
        Folder of results; ``out/runs`` gets a file for every batch.
    place : Place
        Folder of data, and device.
    backend, n_jobs, address
        See :func:`~legendretron.experiments.backends.executed`.
    command : str
        Written into the results.
    on_progress : callable
        Called with the state of the sweep before the first batch, and after each with what has finished.
    """
    store = Store(out)
    sources, skipped = _sources(experiment, place)
    runs = [run for run in experiment.runs() if run.dataset in sources]
    batches = _batches(experiment, runs, sources, store.keys(), place, n_jobs)
    missing = [run for batch in batches for run in batch.runs]
    state = Sweep(len(runs), len(runs) - len(missing), skipped=skipped)
    state.cost = sum(experiment.cost(run) for run in runs)
    state.cost_done = state.cost - sum(experiment.cost(run) for run in missing)
    on_progress(state, None)
    if n_jobs != 1:  # the longest first, so that none is left for last alone
        batches.sort(key=lambda batch: -sum(experiment.cost(run) for run in batch.runs))
    for finished in executed(batches, place, backend=backend, n_jobs=n_jobs, address=address):
        if finished.outcome is None:
            state.failed.append((finished.batch, finished.error))
        else:
            store.add(finished.batch, finished.outcome, finished.seconds, finished.place, command)
            state.now += len(finished.batch.runs)
        state.cost_done += sum(experiment.cost(run) for run in finished.batch.runs)
        on_progress(state, finished)
    return state


def _sources(experiment: Experiment, place: Place) -> tuple[dict[str, str], dict[str, str]]:
    """Data sets that can be had, complete or as a subset, and for the others what to do."""
    if experiment.synthetic:
        return dict.fromkeys(experiment.datasets, "random"), {}
    sources, skipped = {}, {}
    for name in experiment.datasets:
        found = find_dataset(experiment.source_of(name), place.data)
        if found.state == "missing" and place.data is not None:
            skipped[name] = found.how
        else:  # without a folder, what is missing is downloaded when it is needed, and that is complete
            sources[name] = "subset" if found.state == "subset" else "complete"
    return sources, skipped


def _batches(
    experiment: Experiment, runs: list[Run], sources: dict[str, str], done: set[str], place: Place, n_jobs: int
) -> list[Batch]:
    """Cut what is missing into batches.

    Batches of a sweep that goes on after it was killed are those it had before: their size does not depend on what is
    missing, and the runs of a batch are there all or none.
    """
    batches = []
    groups = len(experiment.datasets) * len(experiment.models)
    for (dataset, model), group in itertools.groupby(runs, key=lambda run: (run.dataset, run.model)):
        members = tuple(group)
        whole = Batch(experiment.name, dataset, model, experiment.settings(model, dataset), sources[dataset], members)
        missing = [run for run, key in zip(members, whole.keys(), strict=True) if key not in done]
        size = 1
        if experiment.side_by_side:
            parts = math.ceil(max(n_jobs, 1) / groups)  # enough of them for all workers
            size = min(math.ceil(len(members) / parts), _fitting(experiment, model, dataset, place.device))
        for start in range(0, len(missing), size):
            part = tuple(missing[start : start + size])
            batches.append(Batch(experiment.name, dataset, model, whole.settings, whole.source, part))
    return batches


def _fitting(experiment: Experiment, model: str, dataset: str, device: str) -> int:
    """How many runs fit into the device's free memory side by side."""
    if experiment.bytes_per_run is None:
        return 10**9
    if device.startswith("cuda"):
        free = torch.cuda.mem_get_info(device)[1]  # all of it: what this process holds is free for the next batch
    else:
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, int(_SHARE * free / experiment.bytes_per_run(model, dataset)))
