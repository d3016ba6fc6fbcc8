"""Runs of a sweep in fewer files."""

import dataclasses
import shutil
from pathlib import Path

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
    seeds=3,
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
    assert len(before) == len(list(runs.glob("*.json"))) == 2 * 2 * 2 * 3
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


def test_packing_that_was_cut_short_loses_nothing(tmp_path):
    sweep(EXPERIMENT, tmp_path, Resources(), command="a")
    runs = tmp_path / "runs"
    kept = {path.name: path.read_bytes() for path in runs.glob("*.json")}
    before = by_key(runs)
    pack(tmp_path)
    for name, content in kept.items():  # as if it had been killed before it removed any file
        (runs / name).write_bytes(content)
    assert pack(tmp_path) == len(list(runs.glob("*.json"))) == 4
    assert by_key(runs) == before


def test_records_of_the_project_can_be_packed(tmp_path):
    """Some are older than what is written today."""
    source = Path(__file__).parents[2] / "docs/results/figure_training_size"
    shutil.copytree(source, tmp_path / "copy")
    before = by_key(tmp_path / "copy/runs")
    assert pack(tmp_path / "copy") == len(list((tmp_path / "copy/runs").glob("*.json")))
    after = by_key(tmp_path / "copy/runs")
    assert {key: {**record, "trial": False} for key, record in before.items()} == {
        key: {**record, "trial": False} for key, record in after.items()
    }
