"""The comparison of calibrators: what is measured, and what is reported."""

import numpy as np
import pytest

import calibration as benchmark
from calibration import OURS, UNCALIBRATED, Case, sizes_of, split
from legendretron.experiments import Resources, read_records, render, sweep
from tests.experiments.test_defaults import needs_new_sklearn


def test_rows_to_calibrate_are_not_tested():
    case = Case(np.eye(3)[np.arange(900) % 3], np.arange(900) % 3)
    cal, test = split(case, 200, seed=0)
    assert len(cal) == 200
    assert len(np.union1d(cal, test)) == 900
    assert not np.array_equal(cal, split(case, 200, seed=1)[0])


def test_scores_of_known_probabilities():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 4000)
    y = (p.cumsum(1) < rng.random((4000, 1))).sum(1)
    true, bold = benchmark.scores(y, p), benchmark.scores(y, p**4 / (p**4).sum(1, keepdims=True))
    assert true["accuracy"] == bold["accuracy"] == pytest.approx(100 * (p.argmax(1) == y).mean())
    assert true["log_loss"] == pytest.approx(-np.log(p[np.arange(4000), y]).mean())
    assert true["smooth_error"] < 0.03 < 0.1 < bold["smooth_error"]
    assert true["classwise_error"] < 0.03 < 0.05 < bold["classwise_error"]


@pytest.mark.exhaustive
@needs_new_sklearn
def test_a_part_is_run_and_reported(tmp_path):
    assert sizes_of("digits logistic") == (200,)
    models = [OURS, UNCALIBRATED, "scikit-learn, temperature"]
    part = benchmark.EXPERIMENT.narrow(datasets=["digits logistic"], models=models, seeds=2)
    state = sweep(part, tmp_path, Resources())
    assert (state.now, state.failed) == (6, [])
    losses = {(run["model"], run["seed"]): run["log_loss"] for run in read_records(tmp_path)}
    assert all(losses[OURS, seed] < losses[UNCALIBRATED, seed] + 0.02 for seed in (0, 1))
    render(part, state, tmp_path)
    text = (tmp_path / "calibration.md").read_text()
    assert "Incomplete" in text
    assert "| digits logistic | 200 |" in text
