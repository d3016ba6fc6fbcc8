"""The benchmark against logistic regression: an experiment that shares the loading and tuning of the paper's table."""

import csv
import importlib.util
from pathlib import Path

from legendretron.experiments import Resources, read_records, render, sweep

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("compare_logistic", ROOT / "benchmarks" / "compare_logistic.py")
benchmark = importlib.util.module_from_spec(spec)
spec.loader.exec_module(benchmark)


def test_all_models_are_tuned_and_compared(data_folder, tmp_path):
    experiment = benchmark.COMPARE_LOGISTIC
    part = experiment.narrowed(datasets=["Sensorless"], seeds=3).shortened(3)
    state = sweep(part, tmp_path, Resources(data_folder))
    assert (state.now, state.failed) == (12, [])
    records = read_records(tmp_path)
    assert {record["model"] for record in records} == set(experiment.models)
    assert all(record["alpha"] in benchmark.SHARED["tuning"]["strengths"] for record in records)
    assert all(record["test_counts"] == [1] * 11 for record in records), "splits are stratified"
    text, table = render(part, state, tmp_path)
    assert "| Sensorless (55 of 58,509 rows) | 55 x 48, 11 |" in text.read_text()
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["model"] for row in rows] == list(experiment.models)
    assert rows[0]["accuracy: verdict"] == ""
    assert all(row["accuracy: verdict"] in ("better", "worse", "=") for row in rows[1:])


def test_cells_are_marked_by_the_test():
    row = {"accuracy": 90.126, "log_loss": 0.25, "accuracy: verdict": "better", "log_loss: verdict": "worse"}
    assert benchmark._cell(row) == "**90.13** / *0.250*"
    assert benchmark._cell({**row, "accuracy: verdict": "=", "log_loss: verdict": ""}) == "90.13 / 0.250"
