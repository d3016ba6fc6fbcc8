"""Benchmarks: a small part of each is run and reported. Their reports on all records are those of tests/test_docs.py."""

import inspect
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegressionCV

import calibration
import crowd_labels
import defaults
import label_noise
import loss_transfer
import network
import noisy_networks
import other_tables
import prediction_sets
from legendretron.datasets import pair_transition, symmetric_noise, symmetric_transition
from legendretron.experiments import Resources, Run, read_records, render, sweep
from study import BASELINE, OURS
from tests.paper.made_up import write_images

TASK = "vehicle, noisy half to clean half"
LINKS = [loss_transfer.BASELINE, loss_transfer.CANONICAL, loss_transfer.DISTILLED]
needs_new_sklearn = pytest.mark.skipif(
    "use_legacy_attributes" not in inspect.signature(LogisticRegressionCV).parameters,
    reason="the baseline is called as in scikit-learn 1.8",
)


@pytest.fixture
def vehicles(monkeypatch):
    """A made-up table in the place of vehicle, and small tasks."""
    y = np.arange(240) % 3
    X = np.random.default_rng(0).normal(size=(240, 4)) + y[:, None]
    monkeypatch.setattr(loss_transfer, "table", lambda name, data: (X, y))
    monkeypatch.setattr(loss_transfer, "VEHICLES", 90)
    monkeypatch.setattr(loss_transfer, "find_data", lambda *_: "made up")
    return X, y


@pytest.fixture
def folder(tmp_path):
    """A table of two numbers, a word, and the class, under the names of two."""
    y = np.arange(150) % 3
    numbers = np.random.default_rng(0).normal(size=(150, 2)) + y[:, None]
    rows = [f"{a:.3f}, {b:.3f}, {'red' if k == 2 else 'blue'}, c{k}" for (a, b), k in zip(numbers, y, strict=True)]
    (tmp_path / "keel").mkdir()
    for name in ("tae.dat", "german.dat", "keel/tae.dat"):
        (tmp_path / name).write_text("\n".join(rows) + "\n")
    return tmp_path


#: the benchmark, a part of it, how many runs that is, and what its report says
PARTS = [
    (calibration, {"datasets": ["digits logistic"], "models": [calibration.OURS, calibration.UNCALIBRATED]}, 4,
     "| digits logistic, 200 |"),
    (defaults, {"datasets": ["breast cancer"], "models": [BASELINE, "MLPClassifier"]}, 4, "| breast cancer | 569 x 30, 2 |"),
    (label_noise, {"datasets": ["breast cancer"], "models": [BASELINE, label_noise.GENERALISED],
                   "noise": [label_noise.PAIRS]}, 4, "breast cancer"),
    (other_tables, {"datasets": ["tae"], "models": [BASELINE, OURS], "noise": [0.2]}, 4, "| tae | 150 x 4, 3 |"),
    (prediction_sets, {"datasets": ["german"], "models": [OURS], "noise": [0.0]}, 2, "| german | 150, 3 | 2 of 2 |"),
    (crowd_labels, {"datasets": ["german"], "models": ["shares of votes", "majority"]}, 4,
     "Shares of votes against the majority: the better mean on"),
    (loss_transfer, {"datasets": [TASK], "models": LINKS}, 6, "4 of 4 fits are certified"),
]  # fmt: skip


@pytest.mark.exhaustive
@needs_new_sklearn
@pytest.mark.parametrize(
    ("benchmark", "asked", "runs", "said"), PARTS, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_part_is_run_and_reported(benchmark, asked, runs, said, folder, vehicles, monkeypatch):
    monkeypatch.setattr(loss_transfer, "LEARNING", {**loss_transfer.LEARNING, "max_epochs": 2})
    monkeypatch.setattr(loss_transfer, "DISTILLING", {"n_nests": 1, "max_iter": 5})
    part, out = benchmark.EXPERIMENT.narrow(**asked, seeds=2), folder / "out"
    state = sweep(part, out, Resources(folder))
    assert (state.now, state.failed) == (runs, [])
    text, *_ = render(part, state, out)
    written = text.read_text()
    assert "Incomplete" in written
    assert said in written
    again = sweep(part, out, Resources(folder), render_only=True)
    assert (again.before, again.total) == (runs, runs)
    render(part, again, out)
    assert text.read_text() == written


def test_a_small_study_of_networks(folder, tmp_path, monkeypatch):
    part = network.EXPERIMENT.narrow(
        datasets=["tae"], models=[network.NETWORK, network.HGB, "LGBMClassifier()"], seeds=1, noise=[0.0]
    )
    monkeypatch.setattr(network.importlib.util, "find_spec", lambda _: None)
    # networks that are not better than logistic regression have no other links
    monkeypatch.setattr("legendretron.estimators.network_fit._MUST_GAIN", -1e9)
    state = sweep(part, tmp_path / "out", Resources(folder))
    assert [why for _, why in state.failed] == [
        "ValueError: LGBMClassifier() is of another library: pip install lightgbm"
    ]
    (own,) = [record for record in read_records(tmp_path / "out") if record["model"] == network.NETWORK]
    assert own["other_links"].keys() == {"no link", "a temperature", "mean of probabilities"}
    assert "| a temperature |" in render(part, state, tmp_path / "out")[0].read_text()
    assert network.left_out(Run("tae", network.NETWORK, 0.2, None, 0)), "wrong labels are for large tables"


def test_networks_and_wrong_labels(tmp_path):
    chosen = ["generalised cross-entropy", "LegendreHead, learned rate", "LegendreHead, learned matrix"]
    write_images(tmp_path / "data" / "mnist", 64, 40, noise=40.0)
    small = {**noisy_networks.SETTINGS, "width": 2, "epochs": 1, "batch": 32}
    part = noisy_networks.EXPERIMENT.narrow(datasets=["mnist"], models=chosen, seeds=1)
    part = replace(part, settings=lambda method, _: {**small, **noisy_networks.METHODS[method]}, trial=True)
    state = sweep(part, tmp_path, Resources(tmp_path / "data"))
    assert (state.now, state.failed) == (12, [])
    for record in read_records(tmp_path):
        assert 0.0 <= record["accuracy"] <= 100.0
        assert record["wrong_share"] == pytest.approx(record["noise"], abs=0.2)
        assert len(record.get("rates", [])) == (2 if "learned" in record["model"] else 0)
    text, *_ = render(part, state, tmp_path)
    assert "A trial" in text.read_text()
    assert text.read_text().count("| pair flips 30 % |") == len(chosen)


def test_a_table_that_is_not_there(folder):
    state = sweep(other_tables.EXPERIMENT.narrow(datasets=["heart"], seeds=1), folder / "out", Resources(folder))
    assert "heart.dat" in next(iter(state.skipped.values()))


@pytest.mark.parametrize("noisy_target", [False, True])
def test_halves_are_disjoint_and_noisy_where_they_should_be(vehicles, noisy_target):
    X, y = vehicles
    parts = loss_transfer.halves("vehicle", noisy_target=noisy_target)(None, 0)
    rows = [[int(np.flatnonzero((row == X).all(1))[0]) for row in part[0]] for part in parts]
    assert [len(set(numbers)) for numbers in rows] == [90, 90, 60]
    assert len(set().union(*rows)) == 240
    source, target, test = (np.mean(y[found] != part[1]) for found, part in zip(rows, parts, strict=True))
    assert 0.25 < source < 0.55
    assert (0.25 < target < 0.55) == noisy_target
    assert test == 0.0


def test_noise_and_split_are_those_of_the_seed():
    y = np.arange(3000) % 3
    train, labels, test = label_noise.noisy_split(y, 0.4, 5)
    assert len(test) == 600
    assert not set(train) & set(test)
    np.testing.assert_array_equal(labels, symmetric_noise(y[train], 0.4, 3, np.random.default_rng(5)))
    np.testing.assert_array_equal(label_noise.transition(0.4, 3), symmetric_transition(3, 0.4))
    np.testing.assert_array_equal(label_noise.transition(label_noise.PAIRS, 3), pair_transition(3, 0.3))


def test_doubts_are_judged_by_what_was_flipped():
    class Fitted:
        def label_quality(self, X, y, cv):
            return np.array([0.9, 0.1, 0.4, 0.8])

    wrong = np.array([False, True, False, True])
    found = label_noise.judge_doubts(OURS, Fitted(), np.zeros((4, 1)), np.zeros(4, int), wrong)
    assert found["average_precision"] == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)
    assert (found["called"], found["called_precision"], found["called_recall"]) == (2, 0.5, 0.5)
    assert label_noise.judge_doubts(BASELINE, Fitted(), None, wrong, wrong) == {}
