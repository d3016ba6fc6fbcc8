"""Comparisons of models: declared as data, run in resumable batches, with statistics and reports."""

from legendretron.experiments.experiment import Batch, Experiment, MissingDataError, Outcome, Record, Resources, Run
from legendretron.experiments.runner import Sweep, render, sweep
from legendretron.experiments.store import Store, read_records

__all__ = [
    "Batch",
    "Experiment",
    "MissingDataError",
    "Outcome",
    "Record",
    "Resources",
    "Run",
    "Store",
    "Sweep",
    "read_records",
    "render",
    "sweep",
]
