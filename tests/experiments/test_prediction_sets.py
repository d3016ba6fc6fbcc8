"""The studies of prediction sets and of labels by a crowd: what is measured, and what is reported."""

import numpy as np
import pytest

import crowd_labels
import prediction_sets as benchmark
from legendretron.calibration.prediction_sets import SetCalibration
from legendretron.experiments import Resources, read_records, render, sweep
from study import OURS
from tests.experiments.test_defaults import needs_new_sklearn


@pytest.fixture
def folder(tmp_path):
    """A table of two numbers and the class."""
    rng = np.random.default_rng(0)
    y = np.arange(150) % 3
    numbers = rng.normal(size=(150, 2)) + 2.0 * np.eye(3)[y][:, :2]
    rows = [f"{a:.3f}, {b:.3f}, c{k}" for (a, b), k in zip(numbers, y, strict=True)]
    (tmp_path / "german.dat").write_text("\n".join(rows) + "\n")
    return tmp_path


def test_sets_of_others_are_those_of_ours():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1, 1], 600)
    y = (p.cumsum(1) < rng.random((600, 1))).sum(1)
    calibration = SetCalibration.of(p[:300], y[:300])
    found = benchmark.all_sets(calibration, p[300:])
    assert set(found) == set(benchmark.METHODS)
    for other in (benchmark.MAPIE_LAC, benchmark.CREPES):
        if found[other] is not None:  # installed
            for a, b in zip(found[other], found["probability"], strict=True):
                assert (a != b).mean() < 0.01  # but for rounding at the threshold


def test_votes():
    y = np.arange(3000) % 4
    votes = crowd_labels.draw_votes(y, 4, seed=0)
    assert votes.shape == (3000, 3)
    np.testing.assert_allclose((votes == y[:, None]).mean(0), 0.7, atol=0.03)
    assert (votes[:, 0] != votes[:, 1]).any()
    shares, majority = crowd_labels.shares_of(votes, 4), crowd_labels.majority_of(votes, 4, 0)
    np.testing.assert_allclose(shares.sum(1), 1.0)
    assert (shares[np.arange(3000), majority] == shares.max(1)).all()
    assert 0.75 < (majority == y).mean() < 0.9


@pytest.mark.exhaustive
@needs_new_sklearn
def test_a_part_is_run_and_reported(folder):
    out = folder / "out"
    part = benchmark.EXPERIMENT.narrow(datasets=["german"], models=[OURS], seeds=2, noise=[0.0])
    state = sweep(part, out, Resources(folder))
    assert (state.now, state.failed) == (2, [])
    assert all(0.5 < record["cumulated 0.9: coverage"] <= 1.0 for record in read_records(out))
    render(part, state, out)
    text = (out / "prediction_sets.md").read_text()
    assert "**Incomplete: 10 splits of 19 tables are planned.**" in text
    assert "| german | 150, 3 | 2 of 2 |" in text
    out = folder / "crowd"
    part = crowd_labels.EXPERIMENT.narrow(datasets=["german"], models=["shares of votes", "majority"], seeds=2)
    state = sweep(part, out, Resources(folder))
    assert (state.now, state.failed) == (4, [])
    render(part, state, out)
    assert "Shares of votes against the majority: the better mean on" in (out / "crowd_labels.md").read_text()
