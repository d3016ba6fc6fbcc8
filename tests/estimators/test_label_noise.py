"""Wrong labels: found, given or learned in training, and what a fitted model says about them."""

import pickle
import warnings

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.model_selection import GroupKFold

from legendretron import LabelNoiseWarning, LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.estimators.label_posterior import calibrate_on_labels, label_posterior
from legendretron.estimators.numpy_predictor import load_predictor
from tests.given import GIVEN

FAST = {**GIVEN, "max_epochs": 20, "random_state": 0, "batch_size": 32}
#: Strengths and noise are chosen, but not with much care for learned links.
QUICK = {"cv": 2, "max_epochs": 3, "random_state": 0}
T2 = np.array([[0.9, 0.1], [0.3, 0.7]])
T3 = np.array([[0.8, 0.2, 0.0], [0.0, 0.9, 0.1], [0.1, 0.1, 0.8]])
NAMES = np.array(["ant", "bee", "cat"])


def clean_data(n=300, n_classes=2, seed=0, n_features=3):
    """Classes that a linear model tells apart, and their true labels."""
    generator = np.random.default_rng(seed)
    directions = 12.0 * np.eye(n_features)[:, :n_classes]
    X = generator.normal(size=(n, n_features))
    return X, np.argmax(X @ directions + generator.gumbel(size=(n, n_classes)) * 0.3, axis=1)


def observed(y, matrix, seed=1):
    """Labels as they are observed."""
    u = np.random.default_rng(seed).uniform(size=(len(y), 1))
    return np.minimum((u > np.cumsum(np.asarray(matrix)[y], axis=1)).sum(1), len(matrix) - 1)


def symmetric(wrong, n_classes):
    """The matrix for a share of wrong labels."""
    return np.full((n_classes, n_classes), wrong / (n_classes - 1)) + np.eye(n_classes) * (
        1.0 - wrong - wrong / (n_classes - 1)
    )


def noisy_data(wrong=0.2, n=300, n_classes=2, seed=0):
    """Features, labels as they are observed, and true ones."""
    X, y = clean_data(n, n_classes, seed)
    return X, observed(y, symmetric(wrong, n_classes), seed + 1), y


X_NOISY, Y_NOISY, Y_TRUE = noisy_data(seed=5)
X_CLEAN, Y_CLEAN = clean_data(200)


@pytest.fixture(scope="module")
def found():
    """A fit that has found noise by itself."""
    return LegendreTronClassifier(**QUICK).fit(X_NOISY, Y_NOISY)


# --- found ---


def test_noise_is_found_and_its_rate_is_near_the_truth():
    n_classes = 3
    X, y, true = noisy_data(0.3, 300, n_classes, seed=5)
    clf = LegendreTronClassifier(**QUICK).fit(X, y)
    plain = LegendreTronClassifier(**QUICK, label_noise=None).fit(X, y)
    share = (y != true).mean()
    assert clf.noise_rate_ == pytest.approx(share, abs=0.06)
    low, high = clf.noise_rate_interval_
    assert low <= clf.noise_rate_ <= high
    assert low <= share <= high
    np.testing.assert_allclose(clf.noise_matrix_, symmetric(clf.noise_rate_, n_classes), atol=1e-9)
    new, labels = clean_data(1000, n_classes, seed=9)
    rows = np.arange(1000)
    loss, plain_loss = (-m.predict_log_proba(new)[rows, labels].mean() for m in (clf, plain))
    assert loss < 0.8 * plain_loss
    assert not clf.history_.to_frame().empty


def test_no_noise_is_found_in_clean_data_and_the_model_is_that_of_none():
    clf = LegendreTronClassifier(**QUICK).fit(X_CLEAN, Y_CLEAN)
    plain = LegendreTronClassifier(**QUICK, label_noise=None).fit(X_CLEAN, Y_CLEAN)
    assert clf.noise_rate_ == 0.0
    assert clf.noise_rate_interval_[0] == 0.0
    np.testing.assert_array_equal(clf.noise_matrix_, np.eye(2))
    assert (clf.alpha_, clf.link_alpha_) == (plain.alpha_, plain.link_alpha_)
    np.testing.assert_array_equal(clf.coef_, plain.coef_)
    np.testing.assert_array_equal(clf.predict_proba(X_CLEAN), plain.predict_proba(X_CLEAN))
    np.testing.assert_array_equal(clf.predict_proba_observed(X_CLEAN), clf.predict_proba(X_CLEAN))
    with pytest.raises(AttributeError, match="label_noise is None"):
        _ = plain.noise_rate_


def test_logistic_regression_looks_for_noise_only_if_asked():
    plain = MultinomialLogisticClassifier().fit(X_NOISY, Y_NOISY)
    assert not hasattr(plain, "noise_rate_")
    clf = MultinomialLogisticClassifier(label_noise="auto").fit(X_NOISY, Y_NOISY)
    assert clf.noise_rate_ == pytest.approx((Y_NOISY != Y_TRUE).mean(), abs=0.06)


def test_single_precision(found):
    clf = LegendreTronClassifier(**QUICK).fit(X_NOISY.astype(np.float32), Y_NOISY)
    assert clf.predict_proba(X_NOISY).dtype == clf.predict_proba_observed(X_NOISY).dtype == np.float32
    assert clf.noise_rate_ == pytest.approx(found.noise_rate_, abs=0.02)
    np.testing.assert_allclose(clf.predict_proba(X_NOISY), found.predict_proba(X_NOISY), atol=0.05)
    quality = clf.label_quality(X_NOISY, Y_NOISY, cv=3)
    assert 0.0 <= quality.min() <= quality.max() <= 1.0


# --- given ---


@pytest.mark.parametrize("matrix", [T2, T3], ids=["two", "three"])
def test_a_matrix_that_is_known_is_in_the_order_of_the_classes(matrix):
    X, true = clean_data(3000, len(matrix))
    y = observed(true, matrix)
    clf = MultinomialLogisticClassifier(alpha=1e-3, label_noise=matrix.tolist()).fit(X, NAMES[y])
    np.testing.assert_allclose(clf.noise_matrix_, matrix)
    assert clf.noise_rate_ == pytest.approx((y != true).mean(), abs=0.03)
    np.testing.assert_allclose(clf.predict_proba_observed(X), clf.predict_proba(X) @ matrix, atol=1e-12)
    # observed and true classes are as frequent as they are: a matrix in the wrong order would show
    np.testing.assert_allclose(clf.predict_proba_observed(X).mean(0), np.bincount(y) / 3000, atol=0.01)
    np.testing.assert_allclose(clf.predict_proba(X).mean(0), np.bincount(true) / 3000, atol=0.03)


def test_a_matrix_is_found_in_the_order_of_the_classes():
    X, true = clean_data(1500)
    y = NAMES[observed(true, T2)]
    clf = MultinomialLogisticClassifier(label_noise="class-conditional", cv=2).fit(X, y)
    np.testing.assert_allclose(clf.noise_matrix_, T2, atol=0.05)
    assert clf.noise_rate_ == pytest.approx((y != NAMES[true]).mean(), abs=0.03)


@pytest.mark.parametrize(
    ("zero", "estimator"),
    [
        (0.0, MultinomialLogisticClassifier(alpha=1e-2, tol=1e-10)),
        (0, LegendreTronClassifier(solver="lbfgs", alpha=0.1, link_alpha=0.1, random_state=0)),
        (np.eye(2), LegendreTronClassifier(**FAST)),
    ],
    ids=["logistic", "lbfgs", "adam"],
)
def test_no_noise_that_is_known_is_none(zero, estimator):
    plain = clone(estimator).set_params(label_noise=None).fit(X_CLEAN, Y_CLEAN)
    clf = clone(estimator).set_params(label_noise=zero).fit(X_CLEAN, Y_CLEAN)
    assert clf.noise_rate_ == 0.0
    np.testing.assert_allclose(clf.predict_proba(X_CLEAN), plain.predict_proba(X_CLEAN), atol=1e-5)


# --- learned in training ---


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("link", "solver", "kind"),
    [
        ("composite", "auto", "symmetric"),
        ("canonical", "lbfgs", "symmetric"),
        ("softmax", "auto", "symmetric"),
        ("softmax", "adam", "symmetric"),
        ("canonical", "adam", "class-conditional"),
        ("composite", "lbfgs", "class-conditional"),
    ],
)
def test_noise_is_learned_in_training_if_strengths_are_given(link, solver, kind):
    given = {"alpha": 1e-3, "link_alpha": "auto" if link == "softmax" else 1e-2}
    X, y, true = noisy_data(0.2, 600)
    clf = LegendreTronClassifier(link, **given, solver=solver, max_epochs=40, random_state=0, label_noise=kind)
    clf.fit(X, y)
    assert clf.noise_rate_ == pytest.approx(0.2, abs=0.08)
    low, high = clf.noise_rate_interval_
    assert 0.0 <= low < clf.noise_rate_ < high <= 1.0
    np.testing.assert_allclose(clf.noise_matrix_.sum(1), 1.0)
    assert (clf.predict(X) == true).mean() > 0.93
    np.testing.assert_allclose(clf.predict_proba_observed(X), clf.predict_proba(X) @ clf.noise_matrix_, atol=1e-6)


def test_given_strengths_and_auto_say_why_there_is_no_rate():
    clf = LegendreTronClassifier(**FAST).fit(X_NOISY, Y_NOISY)
    plain = LegendreTronClassifier(**FAST, label_noise=None).fit(X_NOISY, Y_NOISY)
    for name in ("noise_rate_", "noise_rate_interval_", "noise_matrix_"):
        with pytest.raises(AttributeError, match=r"penalties were given.*label_noise='symmetric'"):
            getattr(clf, name)
    np.testing.assert_array_equal(clf.predict_proba(X_NOISY), plain.predict_proba(X_NOISY))
    np.testing.assert_array_equal(clf.predict_proba_observed(X_NOISY), clf.predict_proba(X_NOISY))
    quality = clf.label_quality(X_NOISY, Y_NOISY, cv=None)  # rows are ranked all the same
    assert np.median(quality[Y_NOISY != Y_TRUE]) < np.quantile(quality[Y_NOISY == Y_TRUE], 0.1)


# --- what a model says about labels ---


@pytest.mark.parametrize("matrix", [T2, T3], ids=["two", "three"])
def test_the_formulas(matrix):
    X, true = clean_data(300, len(matrix))
    y = observed(true, matrix)
    clf = MultinomialLogisticClassifier(alpha=1e-2, label_noise=matrix).fit(X, NAMES[y])
    joint = calibrate_on_labels(clf.predict_log_proba(X), y, matrix) * matrix[:, y].T
    posterior = joint / joint.sum(1, keepdims=True)
    np.testing.assert_allclose(clf.label_posterior(X, NAMES[y], cv=None), posterior, atol=1e-12)
    np.testing.assert_allclose(clf.label_quality(X, NAMES[y], cv=None), posterior[np.arange(300), y], atol=1e-12)
    np.testing.assert_allclose(clf.predict_proba_observed(X), clf.predict_proba(X) @ matrix, atol=1e-12)


def test_folds_of_labels_to_judge():
    clf = MultinomialLogisticClassifier(alpha=1e-2, label_noise=0.2).fit(X_NOISY, Y_NOISY)
    twice = [(np.arange(150, 300), np.arange(150)), (np.arange(150), np.arange(149, 300))]
    with pytest.raises(ValueError, match="row 149 is held out 2 times"):
        clf.label_quality(X_NOISY, Y_NOISY, cv=twice)
    with pytest.raises(ValueError, match="row 0 is held out 0 times"):
        clf.label_quality(X_NOISY, Y_NOISY, cv=twice[1:])
    seen = [(np.arange(149, 300), np.arange(150)), (np.arange(150), np.arange(150, 300))]
    with pytest.raises(ValueError, match="must not train on the rows that it holds out, but does on row 149"):
        clf.label_quality(X_NOISY, Y_NOISY, cv=seen)
    halves = [(np.arange(150, 300), np.arange(150)), (np.arange(150), np.arange(150, 300))]
    groups = np.repeat(["a", "b"], 150)
    together = clf.label_quality(X_NOISY, Y_NOISY, cv=GroupKFold(2), groups=groups)
    np.testing.assert_allclose(together, clf.label_quality(X_NOISY, Y_NOISY, cv=halves))
    found = clf.find_label_issues(X_NOISY, Y_NOISY, cv=GroupKFold(2), groups=groups)
    assert set(found) == set(np.flatnonzero(together < 0.5))


@pytest.mark.parametrize(("form", "cv"), [(np.asarray, None), (pd.DataFrame, 5), (scipy.sparse.csr_matrix, 5)])
def test_quality_of_labels(form, cv):
    X, y, true = X_NOISY, NAMES[Y_NOISY], NAMES[Y_TRUE]
    data = form(X)
    if form is pd.DataFrame:
        data.columns = ["a", "b", "c"]
        y = pd.Series(y, index=np.arange(len(y))[::-1])
    clf = MultinomialLogisticClassifier(alpha=1e-2, label_noise=0.2).fit(data, y)
    quality = clf.label_quality(data, y, cv=cv)
    assert quality.shape == (300,)
    assert 0.0 <= quality.min() <= quality.max() <= 1.0
    wrong = np.asarray(y) != true
    assert quality[~wrong].mean() > quality[wrong].mean() + 0.3
    posterior = clf.label_posterior(data, y, cv=cv)
    np.testing.assert_allclose(posterior.sum(1), 1.0)
    np.testing.assert_allclose(posterior[np.arange(300), (np.asarray(y) == "bee").astype(int)], quality)


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_are_judged_by_models_that_have_not_seen_them(weighted):
    weight = np.random.default_rng(0).choice([0.0, 1.0, 9.0], 300) if weighted else None
    clf = MultinomialLogisticClassifier(alpha=1e-2, label_noise=0.2).fit(X_NOISY, Y_NOISY, weight)
    folds = [(np.arange(0, 300, 2), np.arange(1, 300, 2)), (np.arange(1, 300, 2), np.arange(0, 300, 2))]
    log_p = np.empty((300, 2))
    for train, test in folds:
        own = None if weight is None else weight[train]
        log_p[test] = clone(clf).fit(X_NOISY[train], Y_NOISY[train], own).predict_log_proba(X_NOISY[test])
    expected = label_posterior(log_p, Y_NOISY, clf.noise_matrix_)
    given = {"cv": folds, "sample_weight": weight}
    np.testing.assert_allclose(clf.label_posterior(X_NOISY, Y_NOISY, **given), expected, atol=1e-6)
    quality = expected[np.arange(300), Y_NOISY]
    np.testing.assert_allclose(clf.label_quality(X_NOISY, Y_NOISY, **given), quality, atol=1e-6)
    assert len(clf.find_label_issues(X_NOISY, Y_NOISY, **given)) == (quality < 0.5).sum()
    calibration = clf.calibrate_sets(X_NOISY, Y_NOISY, weight, cv=folds).set_calibration_
    seen = slice(None) if weight is None else weight > 0
    np.testing.assert_allclose(calibration.proba, np.exp(log_p[seen]), atol=1e-6)


def test_rows_of_a_group_are_judged_by_models_of_other_groups():
    """There is nothing to learn, but by recognizing a group."""
    random = np.random.default_rng(0)
    groups = np.tile(np.arange(40), 5)
    X = random.normal(size=(40, 60))[groups] + 0.01 * random.normal(size=(200, 60))
    y = random.integers(2, size=40)[groups]
    clf = MultinomialLogisticClassifier(alpha=1e-3).fit(X, y)
    log_p = {
        name: clf._out_of_fold(X, y, np.ones(200), 5, own) for name, own in (("apart", None), ("together", groups))
    }
    right = {name: (own.argmax(1) == y).mean() for name, own in log_p.items()}
    assert right["apart"] > 0.95
    assert right["together"] < 0.7
    assert clf.label_quality(X, y, groups=groups).mean() != pytest.approx(clf.label_quality(X, y).mean(), abs=1e-3)
    few = groups % 3
    assert np.isfinite(clf.calibrate_sets(X, y, cv=5, groups=few).set_calibration_.proba).all()
    for wrong, message in ((few[:-1], r"one entry per row, 200, got shape \(199,\)"), (0 * few, "needs at least 2")):
        with pytest.raises(ValueError, match=f"groups .*{message}"):
            clf.find_label_issues(X, y, groups=wrong)


@pytest.mark.parametrize("method", ["label_quality", "label_posterior", "find_label_issues"])
def test_labels_that_do_not_fit_the_model(method):
    clf = MultinomialLogisticClassifier(alpha=1e-2, label_noise=0.2).fit(X_NOISY, Y_NOISY)
    judge = getattr(clf, method)
    with pytest.raises(ValueError, match=r"y holds labels that are not in classes_: \[7\]"):
        judge(X_NOISY, np.where(np.arange(300) == 5, 7, Y_NOISY))
    with pytest.raises(ValueError, match=r"one label per row of X, 300, got shape \(299,\)"):
        judge(X_NOISY, Y_NOISY[:-1])
    with pytest.raises(ValueError, match="X has 2 features"):
        judge(X_NOISY[:, :2], Y_NOISY)


def test_issues_are_flipped_labels_the_most_suspicious_first(found):
    issues = found.find_label_issues(X_NOISY, Y_NOISY)
    quality = found.label_quality(X_NOISY, Y_NOISY, cv=5)
    assert issues.dtype.kind == "i"
    assert (np.diff(quality[issues]) >= 0).all()
    assert set(issues) == set(np.flatnonzero(quality < 0.5))
    wrong = Y_NOISY != Y_TRUE
    assert wrong[issues].mean() > 0.85
    assert wrong[issues].sum() > 0.7 * wrong.sum()
    few = found.find_label_issues(X_NOISY, Y_NOISY, threshold=float(np.quantile(quality[issues], 0.8)))
    assert 0 < len(few) < len(issues)
    assert np.array_equal(issues[: len(few)], few)
    assert len(found.find_label_issues(X_NOISY, Y_NOISY, cv=None, threshold=0.0)) == 0
    for threshold in (-0.1, 1.5, True, "half"):
        with pytest.raises(ValueError, match="threshold must be a probability"):
            found.find_label_issues(X_NOISY, Y_NOISY, threshold=threshold)


# --- going on ---


def test_a_warm_start_keeps_what_was_found(found):
    clf = pickle.loads(pickle.dumps(found)).set_params(warm_start=True)
    rate, interval, matrix = clf.noise_rate_, clf.noise_rate_interval_, clf.noise_matrix_
    clf.fit(X_NOISY, Y_NOISY)
    assert (clf.noise_rate_, clf.noise_rate_interval_) == (rate, interval)
    np.testing.assert_array_equal(clf.noise_matrix_, matrix)
    assert (clf.predict(X_NOISY) == Y_TRUE).mean() > 0.93
    before = clf.predict_proba(X_NOISY)
    for changed in (0.3, None):
        with pytest.raises(ValueError, match="continues with the label noise that was found in the first fit"):
            clf.set_params(label_noise=changed).fit(X_NOISY, Y_NOISY)
    np.testing.assert_array_equal(clf.predict_proba(X_NOISY), before)


def test_a_warm_start_goes_on_learning_noise():
    given = {**GIVEN, "random_state": 0, "max_epochs": 5, "link_params": {"hidden": 2}}
    clf = LegendreTronClassifier(label_noise="class-conditional", warm_start=True, **given).fit(X_NOISY, Y_NOISY)
    early = clf.noise_rate_
    for _ in range(3):
        clf.fit(X_NOISY, Y_NOISY)
    assert 0.0 < clf.noise_rate_ < 0.5
    assert clf.noise_rate_ != early


def test_partial_fit_with_noise_that_is_known():
    clf = MultinomialLogisticClassifier(label_noise=T2, random_state=0)
    X, true = clean_data(600)
    y = observed(true, T2)
    for part in np.array_split(np.tile(np.arange(600), 5), 10):
        clf.partial_fit(X[part], y[part], classes=[0, 1])
    np.testing.assert_allclose(clf.noise_matrix_, T2)
    assert (clf.predict(X) == true).mean() > 0.9
    clf.partial_fit(X[:1], y[:1])
    np.testing.assert_allclose(clf.noise_matrix_, T2)


def test_partial_fit_starts_where_a_fit_with_noise_ended():
    """Coefficients have the temperature of predictions, and must not get it again."""
    X, y, _ = noisy_data(0.2)
    clf = MultinomialLogisticClassifier(label_noise="symmetric", cv=2, learning_rate=1e-12, random_state=0).fit(X, y)
    before = clf.coef_
    assert clf._noise.temperature > 1.1
    np.testing.assert_allclose(clf.partial_fit(X[:2], y[:2]).coef_, before, rtol=1e-6)


@pytest.mark.parametrize("kind", ["symmetric", "class-conditional"])
def test_partial_fit_cannot_learn_noise(kind):
    clf = LegendreTronClassifier(label_noise=kind)
    with pytest.raises(ValueError, match=f"label_noise='{kind}' needs all data at once"):
        clf.partial_fit(X_NOISY, Y_NOISY, classes=[0, 1])
    assert not [name for name in vars(clf) if name.endswith("_")]
    auto = LegendreTronClassifier(random_state=0).partial_fit(X_NOISY, Y_NOISY, classes=[0, 1])
    assert not hasattr(auto, "noise_rate_")


class _Stopped(Exception):
    pass


def test_a_fit_that_was_stopped_after_the_choice_has_the_same_noise(tmp_path, monkeypatch, found):
    path = tmp_path / "checkpoint"
    stopped = clone(found).set_params(checkpoint=path)
    with monkeypatch.context() as patch:

        def stop(*arguments, **options):
            raise _Stopped

        for name in ("fit_convex", "train"):
            patch.setattr(f"legendretron.estimators.linear_fit.{name}", stop)
        with pytest.raises(_Stopped):
            stopped.fit(X_NOISY, Y_NOISY)
    assert path.with_name("checkpoint.strengths").exists()

    def refuse(*arguments, **options):
        raise AssertionError("nothing is to be chosen again")

    monkeypatch.setattr("legendretron.estimators.settings.tune", refuse)
    resumed = stopped.fit(X_NOISY, Y_NOISY)
    assert not path.with_name("checkpoint.strengths").exists()
    np.testing.assert_equal(vars(resumed._noise), vars(found._noise))
    np.testing.assert_array_equal(resumed.noise_matrix_, found.noise_matrix_)
    np.testing.assert_allclose(resumed.predict_proba(X_NOISY), found.predict_proba(X_NOISY), atol=1e-3)


# --- bad values ---


@pytest.mark.parametrize("value", [-0.1, 0.5, "symetric", T3, [[0.9, 0.2], [0.3, 0.7]], [[1, 0], [0]]], ids=str)
def test_bad_values_are_refused_and_nothing_is_half_fitted(value):
    for fit in (lambda clf: clf.fit(X_CLEAN, Y_CLEAN), lambda clf: clf.partial_fit(X_CLEAN, Y_CLEAN, classes=[0, 1])):
        clf = MultinomialLogisticClassifier(alpha=0.1, label_noise=value)
        with pytest.raises(ValueError, match="label_noise"):
            fit(clf)
        assert not [name for name in vars(clf) if name.endswith("_")]
    fitted = MultinomialLogisticClassifier(alpha=0.1, label_noise=0.1).fit(X_CLEAN, Y_CLEAN)
    before = fitted.predict_proba(X_CLEAN)
    with pytest.raises(ValueError, match="label_noise"):
        fitted.set_params(label_noise=value).fit(X_CLEAN[::2], Y_CLEAN[::2])
    np.testing.assert_array_equal(fitted.predict_proba(X_CLEAN), before)
    assert fitted.noise_rate_ == pytest.approx(0.1)


def test_too_few_rows_to_hold_out():
    with pytest.raises(ValueError, match="label_noise needs held-out rows"):
        LegendreTronClassifier(label_noise="symmetric").fit([[0.0], [1.0]], [0, 1])
    assert LegendreTronClassifier(random_state=0).fit([[0.0], [1.0]], [0, 1]).predict([[0.0]]) == [0]


# --- with other parameters ---


def test_onnx_predicts_true_labels(tmp_path):
    clf = MultinomialLogisticClassifier(alpha=1e-2, label_noise=T2.tolist()).fit(X_NOISY, NAMES[Y_NOISY])
    clf.to_onnx(tmp_path / "clf.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "clf.onnx", providers=["CPUExecutionProvider"])
    label, p = session.run(["label", "probabilities"], {"X": X_NOISY})
    np.testing.assert_array_equal(label, clf.predict(X_NOISY))
    np.testing.assert_allclose(p, clf.predict_proba(X_NOISY), atol=1e-9)
    assert np.abs(p - clf.predict_proba_observed(X_NOISY)).max() > 0.05


def test_class_weights_are_weights_of_rows():
    given, weight = {0: 1.0, 1: 2.0}, 1.0 + (Y_NOISY == 1)
    by_class = MultinomialLogisticClassifier(label_noise="auto", class_weight=given, random_state=0).fit(
        X_NOISY, Y_NOISY
    )
    by_row = MultinomialLogisticClassifier(label_noise="auto", random_state=0).fit(
        X_NOISY, Y_NOISY, sample_weight=weight
    )
    assert by_class.noise_rate_interval_ == by_row.noise_rate_interval_
    np.testing.assert_allclose(by_class.predict_proba(X_NOISY), by_row.predict_proba(X_NOISY))


@pytest.mark.filterwarnings("ignore:The least populated class")
def test_a_fold_without_a_class_can_have_the_rate_of_all_classes():
    X, y = clean_data(100)
    y = np.where(np.arange(100) == 0, 2, y)
    clf = MultinomialLogisticClassifier(alpha=0.1, label_noise=0.6).fit(X, y)
    assert clf.label_quality(X, y, cv=5)[0] < 0.5


@pytest.mark.parametrize("make", [LegendreTronClassifier, MultinomialLogisticClassifier])
def test_a_fit_says_what_it_found_and_how_to_get_the_other(make):
    settings = {"cv": 2, "random_state": 0, **({"max_epochs": 3} if make is LegendreTronClassifier else {})}
    said = r"about 2\d % of the labels in y look wrong or random.*label_noise='symmetric'.*label_noise=None"
    with pytest.warns(LabelNoiseWarning, match=said):
        clf = make(label_noise="auto", **settings).fit(X_NOISY, Y_NOISY)
    assert clf.predicts_recorded_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(label_noise="auto", **settings).fit(X_CLEAN, Y_CLEAN)
        asked = make(label_noise="symmetric", **settings).fit(X_NOISY, Y_NOISY)
    assert not asked.predicts_recorded_
    # the same model, once of recorded labels and once of true ones
    assert clf.predict_proba(X_NOISY).min() > asked.predict_proba(X_NOISY).min() + 0.05
    assert (clf.predict(X_NOISY) == asked.predict(X_NOISY)).mean() > 0.97
    np.testing.assert_array_equal(clf.predict_proba_observed(X_NOISY), clf.predict_proba(X_NOISY))


def test_a_matrix_predicts_recorded_labels_everywhere(tmp_path):
    X, true = clean_data(1500, 3)
    y = NAMES[observed(true, T3)]
    clf = MultinomialLogisticClassifier(label_noise="auto", cv=2, random_state=0).fit(X, y)
    np.testing.assert_allclose(clf.noise_matrix_, T3, atol=0.08)
    p = clf.predict_proba(X)
    np.testing.assert_allclose(p.mean(0), [(y == name).mean() for name in clf.classes_], atol=0.01)
    np.testing.assert_allclose(np.exp(clf.predict_log_proba(X)), p, rtol=1e-9)
    clf.save(tmp_path / "m")
    np.testing.assert_allclose(MultinomialLogisticClassifier.load(tmp_path / "m").predict_proba(X), p, rtol=1e-9)
    np.testing.assert_allclose(load_predictor(tmp_path / "m")._predict_all(X, log=False), p, rtol=1e-6)
    clf.to_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    np.testing.assert_allclose(session.run(["probabilities"], {"X": X})[0], p, rtol=1e-6)
