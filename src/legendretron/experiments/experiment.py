"""Experiments: data sets, models, seeds and noise levels, declared as data."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from legendretron._internal.json_values import as_json
from legendretron._internal.parameters import spell
from legendretron._internal.validation import check_integer

#: The record of one run: its identity, measurements, data, settings and environment.
Record = dict[str, Any]
#: Called with the name of a data set, the number of bytes received, and the total if known.
OnDownload = Callable[[str, int, "int | None"], None]


class MissingDataError(ValueError):
    """A data set is missing; the message says how to get it. A sweep skips the data set and continues.

    Examples
    --------
    >>> raise MissingDataError("put measurements.csv into the folder of --data")
    Traceback (most recent call last):
    legendretron.experiments.experiment.MissingDataError: put measurements.csv into the folder of --data
    """


@dataclass(frozen=True, order=True)
class Run:
    """One training, within an experiment.

    Examples
    --------
    >>> Run("iris", "forest", noise=0.2, size=None, seed=3).seed
    3
    """

    dataset: str  #: its name, as the experiment lists it
    model: str  #: its name, as the experiment lists it
    noise: float  #: share of the training labels that is flipped
    size: int | None  #: training rows, if not all
    seed: int  #: of the split, the noise and the training

    @property
    def varying(self) -> dict[str, Any]:
        """What differs between the runs of a batch."""
        return {"seed": self.seed, "noise": self.noise, "size": self.size}


@dataclass(frozen=True)
class Batch:
    """Runs of one model on one data set that are trained and stored together.

    Examples
    --------
    >>> runs = (Run("iris", "forest", noise=0.0, size=None, seed=0),)
    >>> Batch("mine", "iris", "forest", settings={"n_estimators": 50}, source="complete", runs=runs).trial
    False
    """

    experiment: str  #: name of the experiment
    dataset: str  #: shared by the runs
    model: str  #: shared by the runs
    settings: Mapping[str, Any]  #: recipe of the model, JSON; part of a run's key exactly as written
    source: str  #: which data these are, such as ``"complete"``: results of one are never used for another
    runs: tuple[Run, ...]  #: at least one
    trial: bool = False  #: whether settings are not those of the recipe; part of the record, not of the key

    def run_keys(self) -> list[str]:
        """What identifies each run, as JSON: everything that should change its result, never device, time or commit."""
        shared = [self.experiment, self.dataset, self.model, dict(self.settings), self.source]
        return [json.dumps([*shared, run.varying], sort_keys=True, allow_nan=False) for run in self.runs]


@dataclass(frozen=True)
class Resources:
    """Data folder and device of a batch.

    Examples
    --------
    >>> Resources(device="cuda").data is None
    True
    """

    data: Path | None = None  #: folder of data sets; None where ``execute`` knows where to look, or they are downloaded
    device: str = "cpu"  #: torch device


@dataclass(frozen=True)
class Outcome:
    """Result of a batch: facts about the data, and a dict of measurements for each run, in order.

    Examples
    --------
    >>> Outcome({"rows": 150}, [{"accuracy": 95.0}, {"accuracy": 94.0}]).data
    {'rows': 150}
    """

    data: dict[str, Any]
    runs: list[dict[str, Any]]


def check_outcome(result: object, n_runs: int) -> Outcome:
    """What ``execute`` returned, with plain numbers; a ``ValueError`` says what of it is wrong."""
    if not isinstance(result, Outcome):
        raise ValueError(f"execute must return an Outcome, got {type(result).__name__}.")
    listed = isinstance(result.runs, list | tuple) and len(result.runs) == n_runs
    if not listed or not all(isinstance(entry, Mapping) for entry in (result.data, *result.runs)):
        raise ValueError(
            f"the Outcome must have a dict of data, and a dict for each of the {n_runs} runs, got {result!r:.200}."
        )
    return Outcome(as_json(result.data, "data"), list(as_json(result.runs, "runs")))


@dataclass(frozen=True)
class Experiment:
    """A comparison of models on data sets: a table or figure, declared as data.

    Examples
    --------
    >>> comparison = Experiment(
    ...     name="mine",
    ...     title="Two depths of a tree",
    ...     datasets=("iris",),
    ...     models=("shallow", "deep"),
    ...     settings=lambda model, dataset: {"max_depth": 1 if model == "shallow" else 5},
    ...     execute=lambda batch, resources: Outcome({"rows": 150}, [{"accuracy": 90.0} for _ in batch.runs]),
    ...     report=lambda records, folder: [],
    ...     seeds=5,
    ... )
    >>> comparison.narrow(seeds=1).seeds
    1
    """

    name: str  #: as on the command line
    title: str  #: in one line
    datasets: tuple[str, ...]  #: rows, in the order they are shown
    models: tuple[str, ...]  #: columns, in the order they are shown
    #: ``settings(model, dataset)``: a JSON dict from which ``execute`` builds the model; part of a run's key
    settings: Callable[[str, str], dict[str, Any]]
    #: ``execute(batch, resources)`` trains and tests
    execute: Callable[[Batch, Resources], Outcome]
    #: ``report(records, folder)`` writes tables and pictures, and returns the files
    report: Callable[[list[Record], Path], list[Path]]
    seeds: int = 1  #: repetitions, with seeds from 0
    noise: tuple[float, ...] = (0.0,)  #: noise levels
    sizes: tuple[int | None, ...] = (None,)  #: numbers of training rows; None for all
    #: models of which ``execute`` trains the runs of a data set and size together; of others, each run is a batch
    side_by_side: tuple[str, ...] = ()
    #: ``bytes_per_run(model, dataset)``: memory that a run takes, to decide how many fit
    bytes_per_run: Callable[[str, str], float] | None = None
    #: ``cost(run)``: duration of a run, in any unit, to estimate the time left
    cost: Callable[[Run], float] = field(default=lambda run: 1.0)
    #: ``find_data(dataset, resources, on_download)``: which data these are, see :attr:`Batch.source`; it may download them,
    #: and raises :class:`MissingDataError` if they are missing
    find_data: Callable[[str, Resources, OnDownload], str] = field(default=lambda *_: "complete")
    #: whether the runs of all models on one split follow each other, so that times are of the same minute
    by_split: bool = False
    #: ``left_out(run)``: whether a run is not part of the experiment
    left_out: Callable[[Run], bool] = field(default=lambda run: False)
    #: ``available_rows(dataset, resources)``: larger sizes are skipped and reported, never reduced
    available_rows: Callable[[str, Resources], int] | None = None
    #: whether ``settings`` are not the recipe: records and reports then say so
    trial: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "seeds", check_integer("seeds", self.seeds, 1))
        for name in ("datasets", "models", "noise", "sizes"):
            values = tuple(as_json(value, name) for value in getattr(self, name))
            object.__setattr__(self, name, values)
            if not values or len(set(values)) != len(values):
                raise ValueError(f"{name} of {self.name} must not be empty or contain duplicates, got {values!r}.")

    def narrow(
        self,
        *,
        datasets: Iterable[str] | None = None,
        models: Iterable[str] | None = None,
        seeds: int | None = None,
        noise: Iterable[float] | None = None,
        sizes: Iterable[int] | None = None,
    ) -> Experiment:
        """Return a part of the experiment, or one with other seeds, noise levels and sizes; None changes nothing."""
        chosen: dict[str, Any] = {}
        for name, asked in (("datasets", datasets), ("models", models)):
            if asked is not None:
                known = getattr(self, name)
                chosen[name] = tuple(dict.fromkeys(asked))
                for value in chosen[name]:
                    if value not in known:
                        raise ValueError(
                            f"{name} of {self.name} are {', '.join(map(repr, known))}; there is no {value!r}."
                        )
        if seeds is not None:
            chosen["seeds"] = check_integer("seeds", seeds, 1)
        if noise is not None:
            if self.noise == (0.0,):
                raise ValueError(f"{self.name} has no label noise; leave {spell('noise')} out.")
            chosen["noise"] = tuple(float(level) for level in noise)
            if not all(0.0 <= level < 1.0 for level in chosen["noise"]):
                raise ValueError(
                    f"{spell('noise')} must contain numbers from 0 to below 1, got {list(chosen['noise'])}."
                )
        if sizes is not None:
            if self.sizes == (None,):
                raise ValueError(f"{self.name} has one training set size; leave {spell('sizes')} out.")
            chosen["sizes"] = tuple(as_json(size, "sizes") for size in sizes)
            if not all(isinstance(size, int) and size > 0 for size in chosen["sizes"]):
                raise ValueError(f"{spell('sizes')} must be positive integers, got {list(chosen['sizes'])}.")
        return replace(self, **chosen)

    def shorten(self, epochs: int) -> Experiment:
        """Return the experiment with this number of epochs or iterations per training: a trial, not the recipe."""
        asked_epochs = check_integer("epochs", epochs, 1)

        def settings(model: str, dataset: str) -> dict[str, Any]:
            asked = self.settings(model, dataset)
            return asked | {name: asked_epochs for name in ("max_epochs", "max_iter", "epochs") if name in asked}

        return replace(self, settings=settings, trial=True)

    def runs(self) -> list[Run]:
        """All runs, in order."""
        axes = itertools.product(self.datasets, self.models, self.noise, self.sizes, range(self.seeds))
        runs = [run for values in axes if not self.left_out(run := Run(*values))]
        if self.by_split:  # sorting keeps the order of models on a split
            places = {dataset: place for place, dataset in enumerate(self.datasets)}
            runs.sort(
                key=lambda run: (places[run.dataset], self.noise.index(run.noise), self.sizes.index(run.size), run.seed)
            )
        return runs
