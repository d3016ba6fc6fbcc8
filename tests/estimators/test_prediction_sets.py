"""Prediction sets of the estimators: what a fit calibrates them on, and what is kept of it."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from legendretron import (
    LegendreCalibrator,
    LegendreNetClassifier,
    LegendreTronClassifier,
    MultinomialLogisticClassifier,
    TableClassifier,
    load,
)
from legendretron.datasets import symmetric_noise, symmetric_transition

X, Y = make_classification(3000, 6, n_informative=4, n_redundant=0, n_classes=3, class_sep=1.2, random_state=0)
TRAIN, TEST = slice(0, 1000), slice(1000, None)


def coverage(sets, labels=Y[TEST]):
    return sets[np.arange(len(labels)), labels].mean()


FITTED = {
    "logistic regression": lambda: MultinomialLogisticClassifier(random_state=0),
    "link": lambda: LegendreTronClassifier(
        alpha=0.1, max_epochs=20, link_params={"hidden": 2, "depth": 2}, random_state=0
    ),
    "networks": lambda: LegendreNetClassifier((16,), max_steps=300, random_state=0),
    "calibrator": lambda: LegendreCalibrator(LogisticRegression()),
    "table": lambda: TableClassifier(MultinomialLogisticClassifier(random_state=0)),
}


@pytest.fixture(scope="module", params=FITTED)
def model(request):
    return FITTED[request.param]().fit(X[TRAIN], Y[TRAIN])


def test_sets_cover_right_after_a_fit(model):
    calibration = model.set_calibration_
    assert calibration.out_of_fold
    assert calibration.n_rows in (1000, 400)  # all folds, or the two on which links were tried
    assert calibration.noise is None
    assert "Calibrated on" in str(calibration)
    for wanted in (0.8, 0.95):
        sets = model.predict_set(X[TEST], wanted, randomized=True, random_state=0)
        assert sets.dtype == bool
        assert coverage(sets) == pytest.approx(wanted, abs=0.04)
    assert coverage(model.predict_set(X[TEST])) > 0.86


def test_sets_are_calibrated_on_held_out_rows(model):
    kept, own = model.set_calibration_, model.predict_proba(X[TEST])
    assert model.calibrate_sets(X[TEST], Y[TEST]) is model
    calibration = model.set_calibration_
    assert calibration.n_rows == 2000
    assert not calibration.out_of_fold
    np.testing.assert_allclose(calibration.proba, own, rtol=1e-5)
    assert coverage(model.predict_set(X[TEST], 0.9, score="probability")) == pytest.approx(0.9, abs=0.001)
    getattr(model, "estimator_", model)._sets = model._sets = kept


def test_sets_are_saved(model, tmp_path):
    if isinstance(model, LegendreCalibrator):
        model = LegendreCalibrator().fit(model.estimator_.predict_proba(X[TRAIN]), Y[TRAIN])
        features = np.random.default_rng(0).dirichlet([1, 1, 1], 50)
    else:
        features = X
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert np.array_equal(again.predict_set(features), model.predict_set(features))
    assert str(again.set_calibration_) == str(model.set_calibration_)


CATEGORIES = np.eye(4)
CHANCES = np.array([[0.5, 0.3, 0.2], [0.7, 0.2, 0.1], [0.15, 0.6, 0.25], [0.3, 0.3, 0.4]])


def draw_categories(n, seed):
    rng = np.random.default_rng(seed)
    cell = rng.integers(4, size=n)
    return CATEGORIES[cell], (CHANCES[cell].cumsum(1) < rng.random((n, 1))).sum(1)


DISCRETE = {
    "logistic regression": lambda: MultinomialLogisticClassifier(alpha=1e-3),
    "networks": lambda: LegendreNetClassifier((8,), max_steps=50, label_noise=None, random_state=0),
    "tree": lambda: LegendreCalibrator(DecisionTreeClassifier(max_leaf_nodes=4)),
    "forest": lambda: LegendreCalibrator(RandomForestClassifier(10, random_state=0)),
    "neighbors": lambda: LegendreCalibrator(KNeighborsClassifier(15)),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_rows_with_the_same_predictions_are_covered(name, tmp_path):
    """Also those that are predicted alone, in single precision, or by a model that was saved."""
    model = DISCRETE[name]().fit(*draw_categories(400, 0))
    model.calibrate_sets(*draw_categories(1000, 1))
    new, truth = draw_categories(3000, 2)
    cell = new.argmax(1)
    for kind in ({}, {"score": "probability"}, {"by_class": True}):
        sets = model.predict_set(new, 0.9, **kind)
        assert coverage(sets, truth) > 0.88
        alone = np.concatenate([model.predict_set(row[None], 0.9, **kind) for row in CATEGORIES])
        assert np.array_equal(sets, alone[cell])
        assert np.array_equal(sets, model.predict_set(new.astype(np.float32), 0.9, **kind))
        if hasattr(model, "link_"):
            model.save(tmp_path / "m")
            assert np.array_equal(sets, load(tmp_path / "m").predict_set(new, 0.9, **kind))
    drawn = model.predict_set(new, 0.9, randomized=True, random_state=0)
    assert coverage(drawn, truth) == pytest.approx(0.9, abs=0.03)


def test_the_former_name_of_the_score_warns_where_sets_are_predicted():
    model = FITTED["table"]().fit(X[:200], Y[:200])
    with pytest.warns(FutureWarning, match="use score='cumulative'") as warned:
        sets = model.predict_set(X[TEST], score="cumulated")
    assert len(warned) == 1
    assert np.array_equal(sets, model.predict_set(X[TEST]))


def test_under_wrong_labels_coverage_is_of_the_true_class():
    found = []
    for seed in range(5):  # of one fit, the standard deviation is 0.036
        noisy = symmetric_noise(Y[TRAIN], 0.3, 3, random_state=seed)
        model = MultinomialLogisticClassifier(label_noise=0.3, random_state=0).fit(X[TRAIN], noisy)
        found.append(coverage(model.predict_set(X[TEST], randomized=True, random_state=0)))
    assert np.mean(found) == pytest.approx(0.9, abs=0.04)


@pytest.mark.parametrize("kind", ["logistic regression", "networks"])
def test_sets_are_smaller_than_those_of_noisy_labels_as_they_are(kind):
    noisy = symmetric_noise(Y[TRAIN], 0.3, 3, random_state=0)
    model = FITTED[kind]().set_params(label_noise=0.3).fit(X[TRAIN], noisy)
    assert coverage(model.predict_set(X[TEST])) > 0.85
    corrected = model.predict_set(X[TEST]).sum()
    # with clean labels there is nothing to correct; with noisy ones taken for clean, sets are too large
    model.calibrate_sets(X[TEST], Y[TEST], clean=True)
    assert model.set_calibration_.noise is None
    model.calibrate_sets(X[TRAIN], noisy, cv=3)
    assert model.set_calibration_.noise is not None
    model.calibrate_sets(X[TRAIN], noisy, cv=3, clean=True)
    assert model.predict_set(X[TEST]).sum() > 1.2 * corrected


def test_an_estimated_rate_is_used_and_its_interval():
    noisy = symmetric_noise(Y[TRAIN], 0.3, 3, random_state=0)
    model = MultinomialLogisticClassifier(label_noise="symmetric", random_state=0).fit(X[TRAIN], noisy)
    calibration = model.set_calibration_
    np.testing.assert_allclose(calibration.noise, model.noise_matrix_)
    np.testing.assert_allclose(calibration.least_noise, symmetric_transition(3, model.noise_rate_interval_[0]))
    assert model.predict_set(X[TEST], cautious=True).sum() > model.predict_set(X[TEST]).sum()
    # rows of the folds were predicted as this model predicts: with its temperature, and its floor
    assert calibration.proba.min() == pytest.approx(model.predict_proba(X[TRAIN]).min(), rel=0.5)
    noisy_calibrator = LegendreCalibrator(LogisticRegression(), label_noise=0.3).fit(X[TRAIN], noisy)
    np.testing.assert_allclose(noisy_calibrator.set_calibration_.noise, symmetric_transition(3, 0.3))


def test_what_has_seen_no_other_rows_says_so():
    model = LegendreTronClassifier("softmax", alpha=0.01, warm_start=True).fit(X[TRAIN], Y[TRAIN])
    with pytest.raises(AttributeError, match=r"has no held-out predictions to calibrate sets on.*calibrate_sets"):
        model.predict_set(X)
    model.calibrate_sets(X[TRAIN], Y[TRAIN], cv=4)
    assert coverage(model.predict_set(X[TEST], score="probability")) == pytest.approx(0.9, abs=0.03)
    model.fit(X[TRAIN], Y[TRAIN])  # goes on, so what was calibrated is of another model
    assert not hasattr(model, "set_calibration_")
    chosen = MultinomialLogisticClassifier().fit(X[TRAIN], Y[TRAIN])
    assert not hasattr(chosen.partial_fit(X[:10], Y[:10]), "set_calibration_")


def test_a_streamed_fit_has_sets():
    batches = [(X[start : start + 200], Y[start : start + 200]) for start in range(0, 1000, 200)]
    model = MultinomialLogisticClassifier(random_state=0).fit_stream(batches, sample_rows=600)
    assert 590 < model.set_calibration_.n_rows < 620
    assert coverage(model.predict_set(X[TEST], score="probability")) == pytest.approx(0.9, abs=0.04)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.predict_set(X, 1.5), "coverage must be a number strictly between 0 and 1, got 1.5"),
        (lambda m: m.calibrate_sets(X, Y + 7), "y holds labels that are not in classes_"),
        (lambda m: m.calibrate_sets(X, Y[:5]), "y must have one label per row of X, 3000, got shape"),
        (lambda m: m.calibrate_sets(X, Y[:5], cv=2), "y must have one label per row of X, 3000, got shape"),
    ],
)
def test_bad_arguments(call, message):
    model = MultinomialLogisticClassifier(alpha=0.01).fit(X[TRAIN], Y[TRAIN])
    model.calibrate_sets(X[TEST], Y[TEST])
    with pytest.raises(ValueError, match=message):
        call(model)
