"""Runs of a sweep in fewer files."""

import dataclasses

from legendretron.experiments import Experiment, Outcome, Resources, read_records, sweep
from legendretron.experiments.packing import pack


def execute(batch, resources):
    return Outcome({"rows": 5}, [{"accuracy": run.seed + 10 * run.noise} for run in batch.runs])


EXPERIMENT = Experiment(
    name="packed",
    title="Packed",
    datasets=("iris", "wine"),
    models=("plain", "other"),
    settings=lambda model, dataset: {"strength": len(model)},
    execute=execute,
    report=lambda records, folder: [],
    seeds=12,
    noise=(0.0, 0.2),
    find_data=lambda dataset, resources, on_download: "complete",
)


def by_key(folder):
    of_batch = ("seconds", "batch_runs")
    return {record["key"]: {k: v for k, v in record.items() if k not in of_batch} for record in read_records(folder)}


def test_packed_runs_are_the_same_runs(tmp_path):
    sweep(EXPERIMENT, tmp_path, Resources(), command="a")
    runs = tmp_path / "runs"
    before = by_key(runs)
    assert len(before) == len(list(runs.glob("*.json"))) == 2 * 2 * 2 * 12
    assert pack(tmp_path) == len(list(runs.glob("*.json"))) == 4
    assert by_key(runs) == before
    assert pack(tmp_path) == 4  # again changes nothing
    again = sweep(EXPERIMENT, tmp_path, Resources(), command="a")
    assert again.now == 0


def test_runs_by_other_settings_stay_apart(tmp_path):
    for strength in (1, 2):
        own = dataclasses.replace(EXPERIMENT, settings=lambda model, dataset, strength=strength: {"strength": strength})
        sweep(own, tmp_path, Resources(), command="a")
    before = by_key(tmp_path / "runs")
    assert pack(tmp_path) == 8
    assert by_key(tmp_path / "runs") == before
