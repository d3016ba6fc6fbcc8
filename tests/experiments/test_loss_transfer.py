"""The experiment on loss transfer: how rows are drawn, and what is reported."""

import numpy as np
import pytest

import loss_transfer as benchmark
from legendretron.experiments import Resources, read_records, render, sweep
from loss_transfer import BASELINE, CANONICAL, DISTILLED
from tests.experiments.test_defaults import needs_new_sklearn


@pytest.fixture
def vehicles(monkeypatch):
    """A made-up table in the place of vehicle, and small tasks."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 3
    X = rng.normal(size=(240, 4)) + y[:, None]
    monkeypatch.setattr(benchmark, "table", lambda name, data: (X, y))
    monkeypatch.setattr(benchmark, "VEHICLES", 90)
    monkeypatch.setattr(benchmark, "find_data", lambda *_: "made up")
    return X, y


def rows_of(X, part):
    found = [int(np.flatnonzero((row == X).all(1))[0]) for row in part]
    return set(found)


@pytest.mark.parametrize("noisy_target", [False, True])
def test_halves_are_disjoint_and_noisy_where_they_should_be(vehicles, noisy_target):
    X, y = vehicles
    source, target, test = benchmark.halves("vehicle", noisy_target=noisy_target)(None, 0)
    rows = [rows_of(X, part[0]) for part in (source, target, test)]
    assert [len(part) for part in rows] == [90, 90, 60]
    assert len(set.union(*rows)) == 240

    def wrong(part):
        return np.mean([y[np.flatnonzero((row == X).all(1))[0]] != label for row, label in zip(*part, strict=True)])

    assert 0.25 < wrong(source) < 0.55
    assert (0.25 < wrong(target) < 0.55) == noisy_target
    assert wrong(test) == 0.0
    again = benchmark.halves("vehicle", noisy_target=noisy_target)(None, 0)
    assert np.array_equal(again[1][1], target[1])


@needs_new_sklearn
@pytest.mark.exhaustive
def test_a_part_is_run_and_reported(vehicles, tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "LEARNING", {**benchmark.LEARNING, "max_epochs": 2})
    monkeypatch.setattr(benchmark, "DISTILLING", {"n_nests": 1, "max_iter": 5})
    task = "vehicle, noisy half to clean half"
    part = benchmark.EXPERIMENT.narrow(datasets=[task], models=[BASELINE, CANONICAL, DISTILLED], seeds=2)
    state = sweep(part, tmp_path, Resources(tmp_path))
    assert (state.now, state.failed) == (6, [])
    for record in read_records(tmp_path):
        if record["model"] != BASELINE:
            assert record["certified"]
            assert record["gradient_norm"] <= 1e-6
        assert ("gap_mean_kl" in record) == (record["model"] == DISTILLED)
    render(part, state, tmp_path)
    text = (tmp_path / "loss_transfer.md").read_text()
    assert "**Incomplete: 10 repetitions of 4 tasks are planned.**" in text
    assert "4 of 4 fits are certified" in text
    assert f"| {task} | {DISTILLED} |" in text
