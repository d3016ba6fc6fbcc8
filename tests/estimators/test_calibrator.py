"""Calibration: better probabilities, two guarantees about order, every form of scores, and bad input refused."""

import functools
from contextlib import nullcontext

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from legendretron import LegendreCalibrator, LegendreTronClassifier, MultinomialLogisticClassifier, TableClassifier
from legendretron.calibration import CalibrationMap
from tests.data_forms import skip_repeated_forms
from tests.given import GIVEN
from tests.saved_files import forge


def made(n=1200, c=4, sharpness=3.0, seed=0):
    """Labels, and logits that are right but for a scale, a bias and a mix of two classes."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, c)) * 1.5
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (p.cumsum(1) > rng.random((n, 1))).argmax(1)
    logits = logits + 0.4 * np.roll(logits, 1, axis=1) + (np.arange(c) % 4) * 0.5
    return sharpness * logits, y


def proba(logits):
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


LOGITS, Y = made()
CAL, TEST = slice(0, 600), slice(600, None)


@functools.cache
def fitted(order="any"):
    return LegendreCalibrator(order=order).fit(LOGITS[CAL], Y[CAL])


def test_better_than_temperature_where_there_is_more_to_learn():
    any_order = log_loss(Y[TEST], fitted().predict_proba(LOGITS[TEST]))
    preserved = log_loss(Y[TEST], fitted("preserved").predict_proba(LOGITS[TEST]))
    assert any_order < preserved - 0.05 < log_loss(Y[TEST], proba(LOGITS[TEST])) - 0.3
    assert fitted().temperature_ > 2.0


def right_logits(n, c, seed, scale=2.0):
    """Logits from which labels are drawn: nothing is to be learned."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=scale, size=(n, c))
    return logits, (logits + rng.gumbel(size=(n, c))).argmax(1)


@pytest.mark.parametrize("factor", [1e-300, 1e3, 1e300])
def test_scale_of_logits_does_not_matter(factor):
    logits, y = right_logits(50, 5, 0)
    fits = [LegendreCalibrator().fit(scale * logits, y) for scale in (1.0, factor)]
    assert fits[1].temperature_ == pytest.approx(factor * fits[0].temperature_, rel=1e-3)
    assert 0.5 < fits[0].temperature_ < 2.0
    np.testing.assert_allclose(fits[1].predict_proba(factor * logits), fits[0].predict_proba(logits), atol=1e-3)


@pytest.mark.parametrize(("c", "rows"), [(3, 300), pytest.param(100, 1000, marks=pytest.mark.exhaustive)])
def test_where_temperature_is_right_no_more_than_a_thousandth_is_lost(c, rows):
    """Folds must not tell held-out rows from the others, or what is learned by chance seems to help."""
    excess = []
    for seed in range(3 if c < 100 else 1):
        logits, y = right_logits(rows, c, seed)
        calibrator = LegendreCalibrator(classes=range(c)).fit(logits, y)
        new, _ = right_logits(2000, c, 1000 + seed)
        by_temperature = np.log(proba(new / calibrator.temperature_))
        excess.append((proba(new) * (by_temperature - calibrator.predict_log_proba(new))).sum(1).mean())
        found = calibrator.cv_results_
        assert found["log_loss"].min() > found["log_loss"][0] - 0.01  # held-out rows claim no gain
    assert np.mean(excess) < 0.001


ROWS = st.lists(st.floats(-1e3, 1e3) | st.sampled_from([0.0, 1.0, 1.0 + 2**-52, -1e300, 1e300]), min_size=4, max_size=4)


def assert_in_order(x, p):
    higher = x[:, :, None] > x[:, None, :]
    equal = x[:, :, None] == x[:, None, :]
    assert not (higher & (p[:, :, None] < p[:, None, :])).any()
    assert not (equal & (p[:, :, None] != p[:, None, :])).any()
    assert np.isfinite(p).all()
    assert (p > 0).all()


@given(st.floats(0.01, 3.0), st.floats(0.01, 3.0), st.floats(1e-3, 1e3), st.lists(ROWS, min_size=1, max_size=5))
def test_order_is_preserved_whatever_was_learned(low, high, tau, rows):
    """Also where the shape bends down, so that rounding alone could turn two classes around."""
    of_logits = CalibrationMap(4, ordered=True)
    of_logits.inverse_temperature.fill_(tau)
    of_logits.slope.fill_(low)
    of_logits.rise.fill_(high - low)
    x = torch.tensor(rows, dtype=torch.float64)
    assert_in_order(x.numpy(), of_logits(x).exp().numpy())


def test_function_that_is_learned_increases():
    """Labels that are the opposite of the scores ask for a decreasing one."""
    logits, y = made(300)
    calibrator = LegendreCalibrator(order="preserved").fit(-logits, y)
    low, high = float(calibrator.map_.slope[0]), float(calibrator.map_.slope[0] + calibrator.map_.rise[0])
    assert low > 0
    assert high > 0
    assert np.array_equal(calibrator.predict(-logits), (-logits).argmax(1))


def test_probabilities_and_logits_are_the_same():
    calibrator = LegendreCalibrator().fit(proba(LOGITS[CAL]), Y[CAL])
    assert calibrator._form.is_proba
    ours, theirs = calibrator.predict_proba(proba(LOGITS[TEST])), fitted().predict_proba(LOGITS[TEST])
    assert np.allclose(ours, theirs, atol=2e-3)
    assert not fitted()._form.is_proba


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_column_of_two_classes(dtype):
    logits, y = made(500, c=2)
    scores = (logits[:, 1] - logits[:, 0]).astype(dtype)
    of_two = LegendreCalibrator().fit(logits.astype(dtype), y).predict_proba(logits.astype(dtype))
    for X in (scores, scores.reshape(-1, 1), pd.Series(scores)):
        calibrator = LegendreCalibrator(input="logits").fit(X, y)
        assert np.allclose(calibrator.predict_proba(X), of_two, atol=1e-4)
    as_proba = LegendreCalibrator().fit(proba(logits)[:, 1], y)
    assert as_proba._form.is_proba
    assert np.allclose(as_proba.predict_proba(proba(logits)[:, 1]), of_two, atol=5e-3)


def test_zeros_are_half_the_smallest_probability():
    X, y = load_digits(return_X_y=True)
    forest = RandomForestClassifier(20, random_state=0).fit(X[:600], y[:600])
    p = forest.predict_proba(X[600:])
    calibrator = LegendreCalibrator().fit(p[:300], y[600:900])
    assert calibrator._form.floor == pytest.approx(p[:300][p[:300] > 0].min() / 2)
    found = calibrator.predict_proba(p[300:])
    assert (found > 0).all()
    assert log_loss(y[900:], found) < 0.7 * log_loss(y[900:], p[300:])


def test_extreme_scores():
    _, y = made(300)
    certain = LegendreCalibrator().fit(100.0 * np.eye(4)[y], y)  # everything is right: no infinite temperature
    assert np.isfinite(certain.predict_log_proba(100.0 * np.eye(4)[y])).all()
    nothing = LegendreCalibrator().fit(np.zeros((300, 4)), y).predict_proba(np.zeros((1, 4)))
    assert np.allclose(nothing, np.bincount(y) / len(y), atol=0.1)


@pytest.mark.parametrize("classes", [None, np.arange(4)])
def test_classes_without_rows(classes):
    """They keep what temperature and shape give them: nothing is known about them."""
    kept = Y[CAL] != 2
    expected = pytest.warns(UserWarning, match="no row of '2'; the score columns are assumed to be '0', '1', '2', '3'")
    with nullcontext() if classes is not None else expected:
        calibrator = LegendreCalibrator(classes=classes).fit(LOGITS[CAL][kept], Y[CAL][kept])
    assert np.array_equal(calibrator.classes_, np.arange(4))
    assert calibrator.map_.mixing[:, :, 2].abs().max() == 0.0
    ordered = LegendreCalibrator(order="preserved", classes=range(4)).fit(LOGITS[CAL][kept], Y[CAL][kept])
    after, by_temperature = (log_loss(Y[TEST], c.predict_proba(LOGITS[TEST])) for c in (calibrator, ordered))
    assert after < by_temperature + 0.05


def test_one_row_of_any_size_changes_little():
    logits = LOGITS[CAL].copy()
    plain = log_loss(Y[TEST], LegendreCalibrator().fit(logits, Y[CAL]).predict_proba(LOGITS[TEST]))
    for size in (1e3, 1e308):
        logits[0] = [size, 0.0, 0.0, -size]
        fitted = LegendreCalibrator().fit(logits, Y[CAL])
        assert log_loss(Y[TEST], fitted.predict_proba(LOGITS[TEST])) < plain + 0.02


def test_rounded_probabilities_are_probabilities():
    p = proba(LOGITS)
    rounded = p.round(2)
    auto, as_logits = (
        LegendreCalibrator(input=kind).fit(rounded[CAL], Y[CAL]).predict_proba(rounded[TEST])
        for kind in ("auto", "logits")
    )
    assert log_loss(Y[TEST], auto) < log_loss(Y[TEST], as_logits) - 0.01
    with pytest.raises(ValueError, match="divide each row by its sum"):
        LegendreCalibrator(input="proba").fit(0.8 * p[CAL], Y[CAL])


def test_strings_and_missing_strings():
    names = np.array(["ant", "bee", "cat", "dog"])
    calibrator = LegendreCalibrator().fit(LOGITS[CAL], names[Y[CAL]])
    assert np.allclose(calibrator.predict_proba(LOGITS[TEST]), fitted().predict_proba(LOGITS[TEST]))
    assert set(calibrator.predict(LOGITS[TEST])) <= set(names)
    kept = Y[CAL] != 2
    with pytest.raises(ValueError, match=r"scores of 4 classes, but y holds 3 classes.*classes="):
        LegendreCalibrator().fit(LOGITS[CAL][kept], names[Y[CAL]][kept])
    LegendreCalibrator(classes=names).fit(LOGITS[CAL][kept], names[Y[CAL]][kept])


def test_weights_are_repetitions():
    logits, y = made(150)
    repeats = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = LegendreCalibrator(strength=1.0).fit(logits, y, sample_weight=repeats)
    repeated = LegendreCalibrator(strength=1.0).fit(np.repeat(logits, repeats, axis=0), np.repeat(y, repeats))
    assert np.allclose(weighted.predict_proba(logits), repeated.predict_proba(logits), atol=2e-3)
    tiny = LegendreCalibrator(strength=1.0).fit(logits, y, sample_weight=np.full(len(y), 1e-310))
    plain = LegendreCalibrator(strength=1.0).fit(logits, y)
    assert np.allclose(tiny.predict_proba(logits), plain.predict_proba(logits), atol=1e-6)


@pytest.mark.parametrize("noise", [0.3, "symmetric"])
def test_wrong_labels(noise):
    """Nearly certain scores, three in ten labels wrong: predictions stay certain, and the share is found."""
    rng = np.random.default_rng(0)
    true = rng.integers(4, size=3000)
    logits = 8.0 * np.eye(4)[true] + rng.normal(size=(3000, 4))
    y = np.where(rng.random(3000) < 0.3, (true + rng.integers(1, 4, 3000)) % 4, true)
    told = LegendreCalibrator(label_noise=noise).fit(logits[:1000], y[:1000])
    believed = LegendreCalibrator().fit(logits[:1000], y[:1000])
    assert told.noise_rate_ == pytest.approx(0.3 if noise == 0.3 else (y != true)[:1000].mean(), abs=0.02)
    assert log_loss(true[1000:], told.predict_proba(logits[1000:])) < 0.1
    assert log_loss(true[1000:], believed.predict_proba(logits[1000:])) > 0.2


def test_around_a_frozen_classifier():
    X, y = load_digits(return_X_y=True)
    X = X / 16
    model = LogisticRegression(C=1e4, max_iter=2000).fit(X[:300], y[:300])
    wrapped = LegendreCalibrator(FrozenEstimator(model)).fit(X[300:800], y[300:800])
    by_hand = LegendreCalibrator().fit(model.predict_proba(X[300:800]), y[300:800])
    assert np.array_equal(wrapped.predict_proba(X[800:]), by_hand.predict_proba(model.predict_proba(X[800:])))
    assert log_loss(y[800:], wrapped.predict_proba(X[800:])) < log_loss(y[800:], model.predict_proba(X[800:]))
    assert wrapped.n_features_in_ == 64
    assert clone(wrapped).estimator.estimator is model


def test_around_a_classifier_without_probabilities():
    X, y = load_digits(return_X_y=True)
    wrapped = LegendreCalibrator(LinearSVC()).fit(X[:900] / 16, y[:900])
    assert log_loss(y[900:], wrapped.predict_proba(X[900:] / 16)) < 0.4


@parametrize_with_checks([LegendreCalibrator(LogisticRegression(max_iter=200), strength=1.0)])
def test_scikit_learn_checks(estimator, check):
    if "sample_weight_equivalence" in check.func.__name__:
        pytest.skip("folds of repeated rows are other folds, as in CalibratedClassifierCV")
    skip_repeated_forms(check, any_format=False)
    check(estimator)


def in_form(form):
    """Scores of a form and labels; the name of the form begins with ``one`` for one column."""
    logits, y = made(400, c=2 if form.startswith("one") else 4)
    X = proba(logits) if form.endswith("proba") else logits - logits[:, :1]
    X = X[:, 1:] if form.startswith("one") else X
    return X.astype(np.float32 if "float32" in form else np.float64), np.array(["a", "b", "c", "d"])[y]


@pytest.mark.parametrize(("order", "form"), [("any", "one proba"), ("preserved", "proba")])
def test_onnx(order, form, tmp_path):
    X, y = in_form(form)
    calibrator = LegendreCalibrator(order=order).fit(X, y)
    calibrator.to_onnx(tmp_path / "map.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "map.onnx")
    label, found = session.run(["label", "probabilities"], {"X": X[:57]})
    assert np.allclose(found, calibrator.predict_proba(X[:57]), rtol=1e-9, atol=1e-12)
    assert list(label) == list(calibrator.predict(X[:57]))


@pytest.mark.parametrize(("form", "parameters"), [
    ("logits", {"order": "preserved"}), ("proba", {}), ("one", {"order": "preserved", "strength": np.inf}),
    ("one proba", {"strength": 2.5}), ("float32", {"label_noise": 0.1, "cv": 3}),
])  # fmt: skip
def test_files(form, parameters, tmp_path):
    X, y = in_form(form)
    frame = pd.DataFrame(X, columns=list("wxyz")[: X.shape[1]])
    calibrator = LegendreCalibrator(classes=np.unique(y), **parameters).fit(frame, y)
    calibrator.save(tmp_path / "map.safetensors")
    again = LegendreCalibrator.load(tmp_path / "map.safetensors")
    assert np.array_equal(again.predict_proba(frame), calibrator.predict_proba(frame))
    np.testing.assert_equal(again.get_params(), calibrator.get_params())
    assert again.noise_rate_ == pytest.approx(parameters.get("label_noise", 0.0))
    assert list(again.feature_names_in_) == list(frame)
    for name, values in calibrator.cv_results_.items():
        assert np.array_equal(again.cv_results_[name], values, equal_nan=True)


@pytest.mark.parametrize("order", ["any", "preserved"])
def test_torch_module(order):
    module, p = fitted(order).to_torch(), fitted(order).predict_proba(LOGITS)
    assert np.allclose(module.predict_proba(torch.as_tensor(LOGITS)).numpy(), p)
    assert np.allclose(module.float()(torch.as_tensor(LOGITS).float()).exp().numpy(), p, atol=1e-5)
    assert not list(module.parameters())
    assert fitted(order).map_.bias.dtype == torch.float64  # a copy was converted


def test_files_of_other_kinds_are_refused(tmp_path):
    MultinomialLogisticClassifier(alpha=0.1).fit(LOGITS[:50], Y[:50]).save(tmp_path / "other")
    with pytest.raises(ValueError, match="holds a MultinomialLogisticClassifier, but LegendreCalibrator is needed"):
        LegendreCalibrator.load(tmp_path / "other")
    wrapped = LegendreCalibrator(LogisticRegression(), strength=1.0).fit(LOGITS[CAL], Y[CAL])
    with pytest.raises(ValueError, match="to be saved, got a LogisticRegression"):
        wrapped.save(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    calibrator = clone(fitted()).fit(LOGITS[CAL], Y[CAL])
    calibrator.map_.bias[0] = torch.nan
    with pytest.raises(ValueError, match="cannot be saved: bias must be finite values"):
        calibrator.save(tmp_path / "none")


def around(kind, frozen):
    """A calibrator around one of our estimators, fitted to a data frame with labels that are words."""
    frame = pd.DataFrame(LOGITS[:300], columns=list("wxyz"))
    words = np.array(["a", "b", "c", "d"], dtype=object)[Y[:300]]
    inner = {
        "logistic": MultinomialLogisticClassifier(alpha=1e-3),
        "canonical": LegendreTronClassifier("canonical", link_params={"n_nests": 2}, max_epochs=2, **GIVEN),
        "table": TableClassifier(MultinomialLogisticClassifier(alpha=1e-3)),
    }[kind]
    inner = FrozenEstimator(inner.fit(frame[:100], words[:100])) if frozen else inner
    return LegendreCalibrator(inner).fit(frame[100:], words[100:]), frame


@pytest.mark.parametrize(("kind", "frozen"), [("logistic", False), ("canonical", True), ("table", True)])
def test_files_hold_an_estimator_of_ours(kind, frozen, tmp_path):
    calibrator, frame = around(kind, frozen)
    calibrator.save(tmp_path / "both")
    again = LegendreCalibrator.load(tmp_path / "both")
    assert np.array_equal(again.predict_proba(frame), calibrator.predict_proba(frame))
    assert list(again.predict(frame)) == list(calibrator.predict(frame))
    assert list(again.feature_names_in_) == list("wxyz")
    assert isinstance(again.estimator, FrozenEstimator) == frozen
    assert str(again.estimator) == str(calibrator.estimator)
    again.save(tmp_path / "again")
    checksums = [safe_open(tmp_path / name, "np").metadata()["sha256"] for name in ("both", "again")]
    assert checksums[0] == checksums[1]
    again.fit(frame, calibrator.predict(frame))  # as any other


FORGED = {
    "columns": (lambda state: state["scores"].update(columns=7), "columns must be 4"),
    "floor": (lambda state: state["scores"].update(floor=-1.0), "floor must be a number from 0 to 0.5"),
    "order": (lambda state: state["parameters"].update(order="none"), "order must be"),
    "parameter": (lambda state: state["parameters"].update(estimator="os"), "unknown are estimator"),
    "candidates": (lambda state: state["cv_results"].update(shape=[1, 2]), "shape must be"),
    "rank": (
        lambda state: state["map"].update(
            directions=torch.zeros(2, 4, 5).double(), mixing=torch.zeros(2, 5, 4).double()
        ),
        "rank must be at most the number of classes",
    ),
    "shape": (lambda state: state["map"].update(slope=state["map"]["slope"][:2].clone()), "slope"),
    "infinite map": (lambda state: state["map"]["bias"].fill_(torch.inf), "bias must be finite values"),
    "temperature": (lambda state: state["map"]["inverse_temperature"].fill_(-1.0), "inverse_temperature positive"),
    "class": (lambda state: state["estimator"].update({"class": "os"}), "class must be one of"),
    "no estimator": (lambda state: state.update(estimator=None), "estimator must be present"),
    "logits": (lambda state: state["scores"].update(is_proba=False), "those of the probabilities of estimator"),
    "other classes": (lambda state: state["classes"]["values"].__setitem__(3, "e"), "those of estimator"),
    "infinite weights": (lambda state: state["estimator"]["state"]["coef"].fill_(torch.inf), "coef must be finite"),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_files_are_refused(name, tmp_path):
    change, message = FORGED[name]
    inside = name in ("class", "no estimator", "logits", "other classes", "infinite weights")
    (around("logistic", frozen=True)[0] if inside else fitted()).save(tmp_path / "map")
    forge(tmp_path / "map", change)
    with pytest.raises(ValueError, match=message):
        LegendreCalibrator.load(tmp_path / "map")


@pytest.mark.parametrize(("parameters", "X", "message"), [
    ({"input": "proba"}, LOGITS, "X must contain probabilities"),
    ({"input": "proba"}, 0.8 * proba(LOGITS), "divide each row by its sum"),
    ({"classes": [0, 1]}, LOGITS, "labels of 4 columns of scores, got 2"),
    ({"classes": [1, 0, 2, 3]}, LOGITS, "classes must be different"),
    ({"classes": [0, 1, 2, 9]}, LOGITS, r"not in classes: \[3\]"),
    ({}, LOGITS[:, :3], "scores of 3 classes, but y holds 4"),
    ({"label_noise": 0.8}, LOGITS, "label_noise must be below 0.75"),
    ({"order": "some"}, LOGITS, "'order' parameter"),
    ({"estimator": LogisticRegression(), "classes": [0, 1]}, LOGITS, "leave classes and input out"),
])  # fmt: skip
def test_bad_input_is_refused_and_nothing_is_half_fitted(parameters, X, message):
    calibrator = clone(fitted()).fit(LOGITS[CAL], Y[CAL])
    with pytest.raises(ValueError, match=message):
        calibrator.set_params(**parameters).fit(X, Y)
    assert np.array_equal(calibrator.map_.bias, fitted().map_.bias)


def test_other_bad_input():
    with pytest.raises(ValueError, match=r"sum to 1. If they are rounded, divide each row"):
        LegendreCalibrator().fit(proba(LOGITS), Y).predict_proba(LOGITS)
    with pytest.raises(ValueError, match=r"sample_weight|zero"):
        LegendreCalibrator().fit(LOGITS, Y, np.zeros(len(Y)))


def test_logarithms_of_zero_are_refused_with_a_way_out():
    scores = np.log(np.eye(3)[[0, 1, 2] * 10] + 1e-3)
    scores[0, 1] = -np.inf
    with pytest.raises(ValueError, match=r"give the probabilities, np.exp\(X\)"):
        LegendreCalibrator().fit(scores, [0, 1, 2] * 10)
    scores[0] -= np.log(np.exp(scores[0]).sum())
    LegendreCalibrator().fit(proba(scores), [0, 1, 2] * 10)
