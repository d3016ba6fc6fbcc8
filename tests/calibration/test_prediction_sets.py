"""The arithmetic of prediction sets, on made-up probabilities whose truth is known."""

import math

import numpy as np
import pytest

from legendretron.calibration import prediction_sets
from legendretron.calibration.prediction_sets import SetCalibration, set_scores
from legendretron.datasets import flip_labels, pair_transition, symmetric_transition

KINDS = [{}, {"randomized": True}, {"score": "probability"}, {"by_class": True}]


def draw(n, n_classes=4, seed=0, temperature=1.0):
    """Probabilities as a model has them, and labels from the true ones."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([0.4] * n_classes, n)
    labels = (p.cumsum(1) < rng.random((n, 1))).sum(1).clip(max=n_classes - 1)
    predicted = p ** (1.0 / temperature)
    return predicted / predicted.sum(1, keepdims=True), labels


def coverage(sets, labels):
    return sets[np.arange(len(labels)), labels].mean()


@pytest.mark.parametrize("wanted", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_coverage_is_as_asked_for_also_if_probabilities_are_wrong(kind, wanted):
    p, labels = draw(20_000, temperature=0.4)
    calibration, rng = SetCalibration.of(p[:10_000], labels[:10_000]), np.random.default_rng(0)
    sets = calibration.predict(p[10_000:], wanted, **kind, rng=rng)
    least = (p[10_000:].argmax(1) == labels[10_000:]).mean() if kind in ({}, {"by_class": True}) else 0.0
    assert coverage(sets, labels[10_000:]) == pytest.approx(max(wanted, least), abs=0.02)


def test_the_threshold_is_the_usual_quantile():
    p, labels = draw(99)
    own = np.sort(set_scores(p.astype(np.float32), "probability")[np.arange(99), labels])
    calibration = SetCalibration.of(p, labels)
    for wanted in (0.5, 0.8, 0.9, 0.99):
        rank = math.ceil(100 * wanted - 1e-9)
        assert calibration.thresholds(wanted, score="probability")[0] == own[rank - 1]
    # with so few rows, nothing can be left out
    assert np.isinf(calibration.thresholds(0.995)).all()
    assert calibration.predict(p, 0.995).all()


def test_scores_are_the_probabilities_of_likelier_classes_and_a_share_of_the_own():
    p = np.array([[0.3, 0.5, 0.2], [0.6, 0.1, 0.3]])
    draws = np.array([0.5, 0.1])
    for above, scores in (
        ([[0.5, 0.0, 0.8], [0.0, 0.9, 0.6]], set_scores(p, "cumulative")),
        ([[0.65, 0.25, 0.9], [0.06, 0.91, 0.63]], set_scores(p, "cumulative", draws)),
        (1.0 - p, set_scores(p, "probability")),
    ):
        np.testing.assert_allclose(1.0 / (1.0 + np.exp(-scores)), above, rtol=1e-6)


def test_classes_that_are_tied_have_the_same_score():
    p = np.array([[0.2, 0.3, 0.3, 0.2], [0.2, 0.3 * (1 + 1e-9), 0.3, 0.2], [0.0, 0.0, 1.0, 0.0]])
    for draws in (None, np.full(3, 0.3)):
        scores = set_scores(p, "cumulative", draws)
        np.testing.assert_allclose(scores[:2], scores[:2, ::-1], rtol=1e-6)
        assert np.isposinf(scores[2, [0, 1, 3]]).all()


def drawn_from(cells, n, rng):
    """Rows that are predicted as one of a few cells, and labels with these probabilities."""
    p = np.asarray(cells)[rng.integers(len(cells), size=n)]
    return p, (p.cumsum(1) < rng.random((n, 1))).sum(1).clip(max=p.shape[1] - 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(
    "cells",
    [
        [[0.6, 0.4]],
        [[0.7, 0.3]],
        [[1 - 1e-9, 1e-9]],
        [[1 - 1e-9, 1e-9], [1e-12, 1 - 1e-12], [1.0, 0.0]],
        [[0.5, 0.3, 0.2], [0.7, 0.2, 0.1], [0.15, 0.6, 0.25], [0.3, 0.3, 0.4]],
        [[0.1] * 10],
        np.random.default_rng(0).multinomial(10, [0.4, 0.3, 0.2, 0.1], 30) / 10,
    ],
    ids=["two classes", "two others", "near 1", "near 0 and 1", "four leaves", "nothing known", "ten trees"],
)
def test_discrete_predictions_are_covered(cells, kind, dtype):
    rng = np.random.default_rng(1)
    (p, labels), (new, truth) = drawn_from(cells, 1000, rng), drawn_from(cells, 5000, rng)
    # a row that is predicted among others differs in the last digits from one that is predicted alone
    new = (new * (1.0 + 4 * np.finfo(dtype).eps * rng.normal(size=new.shape))).astype(dtype)
    sets = SetCalibration.of(p.astype(dtype), labels).predict(new, 0.9, rng=rng, **kind)
    assert coverage(sets, truth) > 0.88


def test_certainty_is_told_from_more_certainty():
    """Scores are exact near 1: of rows that are all certain, sets are empty for those that are less so."""
    rng = np.random.default_rng(0)
    own = 10.0 ** rng.uniform(-20, -8, 4000)
    p = np.column_stack([1.0 - own, own])
    sets = SetCalibration.of(p[:2000], np.zeros(2000, int)).predict(p[2000:], 0.9, score="probability")
    assert sets[:, 0].mean() == pytest.approx(0.9, abs=0.02)


def test_every_class_is_covered():
    p, labels = draw(40_000, n_classes=3)
    p = p * [1.0, 0.2, 1.0]  # a class that the model does not believe in
    p /= p.sum(1, keepdims=True)
    calibration, new, truth = SetCalibration.of(p[:20_000], labels[:20_000]), p[20_000:], labels[20_000:]
    together, apart = (calibration.predict(new, 0.9, score="probability", by_class=by) for by in (False, True))
    assert coverage(together[truth == 1], truth[truth == 1]) < 0.85
    for k in range(3):
        assert coverage(apart[truth == k], truth[truth == k]) == pytest.approx(0.9, abs=0.015)


def test_a_class_without_rows_is_in_every_set():
    p, labels = draw(500, n_classes=3)
    seen = labels != 2
    sets = SetCalibration.of(p[seen], labels[seen]).predict(p, 0.9, by_class=True)
    assert sets[:, 2].all()
    assert not sets[:, :2].all()


@pytest.mark.parametrize("matrix", [symmetric_transition(4, 0.4), pair_transition(4, 0.3)], ids=["symmetric", "pairs"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_wrong_labels_are_made_up_for(kind, matrix):
    p, labels = draw(40_000)
    noisy, new, truth = flip_labels(labels[:20_000], matrix, random_state=1), p[20_000:], labels[20_000:]
    plain = SetCalibration.of(p[:20_000], noisy).predict(new, 0.9, **kind)
    corrected = SetCalibration.of(p[:20_000], noisy, noise=matrix).predict(new, 0.9, **kind)
    assert coverage(corrected, truth) == pytest.approx(0.9, abs=0.02)
    assert coverage(plain, truth) > 0.93
    assert corrected.sum() < plain.sum()


def test_caution_takes_the_lower_end_of_the_interval():
    p, labels = draw(4000)
    matrices = {"noise": symmetric_transition(4, 0.3), "least_noise": symmetric_transition(4, 0.2)}
    noisy = flip_labels(labels, matrices["noise"], random_state=1)
    calibration = SetCalibration.of(p, noisy, **matrices)
    sizes = [calibration.predict(p, 0.9, cautious=cautious).sum() for cautious in (False, True)]
    low = SetCalibration.of(p, noisy, noise=matrices["least_noise"]).predict(p, 0.9).sum()
    assert sizes[0] < sizes[1] == low < SetCalibration.of(p, noisy).predict(p, 0.9).sum()


def test_weights_count_as_rows():
    p, labels = draw(300)
    weight = np.random.default_rng(0).integers(1, 4, 300).astype(float)
    repeated = np.repeat(np.arange(300), weight.astype(int))
    weighted = SetCalibration.of(p, labels, weight).thresholds(0.8, score="probability")[0]
    several = SetCalibration.of(p[repeated], labels[repeated]).thresholds(0.8, score="probability")[0]
    assert weighted == pytest.approx(several, abs=0.01)


def test_many_rows_are_thinned_out(monkeypatch):
    monkeypatch.setattr(prediction_sets, "_MOST_ROWS", 1000)
    p, labels = draw(5500)
    assert SetCalibration.of(p, labels).n_rows == 917
    monkeypatch.setattr(prediction_sets, "_MOST_NUMBERS", 400)
    assert SetCalibration.of(p, labels).n_rows == 100


def test_the_former_name_of_a_score_still_works():
    p, labels = draw(300)
    calibration = SetCalibration.of(p, labels)
    with pytest.warns(FutureWarning, match=r"score='cumulated' was renamed.* from 0\.5 on; use score='cumulative'"):
        sets = calibration.predict(p, 0.8, score="cumulated")
    assert np.array_equal(sets, calibration.predict(p, 0.8))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"coverage": 1.0}, "coverage must be a number strictly between 0 and 1, got 1.0"),
        ({"coverage": "high"}, "coverage must be"),
        ({"coverage": 0.9, "score": "lac"}, "score must be one of 'cumulative', 'probability', got 'lac'"),
        ({"coverage": 0.9, "score": "probability", "randomized": True}, "randomized=True needs score='cumulative'"),
    ],
)
def test_bad_arguments(arguments, message):
    p, labels = draw(50)
    with pytest.raises(ValueError, match=message):
        SetCalibration.of(p, labels).predict(p, **arguments)
