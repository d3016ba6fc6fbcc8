"""LegendreNetClassifier: fits, the choice between networks and logistic regression, wrong labels, files."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

from legendretron import LegendreNetClassifier, TableClassifier, load
from legendretron.calibration.link import CalibratedLink
from legendretron.estimators import network_fit
from legendretron.estimators.network_fit import _gain_of_mean
from legendretron.links import SoftmaxLink
from legendretron.losses import CompositeLoss
from legendretron.networks.folds import held_out_logits, train_folds
from tests.data_forms import skip_repeated_forms
from tests.saved_files import forge

QUICK = {"hidden_layers": (32, 32), "max_steps": 300, "random_state": 0}


def rings(n, seed=0, wrong=0.0):
    """Three rings, which no plane divides; labels as they are, and the true ones."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    y = np.digitize(np.hypot(X[:, 0], X[:, 1]), [0.8, 1.5])
    noisy = np.where(random.uniform(size=n) < wrong, (y + random.integers(1, 3, size=n)) % 3, y)
    return X, noisy, y


@pytest.fixture(scope="module")
def fitted():
    X, y, _ = rings(600)
    return LegendreNetClassifier(**QUICK).fit(X, y)


# a fold of weighted rows is another one than that of repeated rows
@parametrize_with_checks([LegendreNetClassifier((16,), max_steps=4, n_folds=2, label_noise=None, random_state=0)])
def test_scikit_learn_checks(estimator, check):
    if "sample_weight_equivalence" in check.func.__name__:
        pytest.skip("folds of repeated rows are other folds, as in LogisticRegressionCV")
    skip_repeated_forms(check)
    check(estimator)


def test_bends_where_logistic_regression_cannot(fitted):
    X, y, _ = rings(1000, seed=1)
    assert not fitted.is_linear_
    assert fitted.network_log_loss_ < 0.5 * fitted.linear_log_loss_
    loss = log_loss(y, fitted.predict_proba(X))
    assert loss < 0.4
    assert fitted.network_log_loss_ == pytest.approx(loss, abs=0.15)
    assert fitted.oof_score_ == pytest.approx(fitted.score(X, y), abs=0.06)
    assert isinstance(fitted.link_, CalibratedLink)
    assert fitted.n_iter_ <= 300
    assert fitted.noise_rate_ == 0.0


def test_logistic_regression_is_returned_where_it_is_as_good():
    random = np.random.default_rng(0)
    X = random.normal(size=(150, 4))
    y = (X[:, 0] + random.logistic(size=150) > 0).astype(int)
    model = LegendreNetClassifier(**QUICK).fit(X, y)
    assert model.is_linear_
    assert isinstance(model.link_, SoftmaxLink)
    assert not hasattr(model, "oof_proba_")
    assert 0.5 < model.oof_score_ < 1.0


def test_what_a_mean_of_networks_gains():
    # a loss of 1 + 1 / m: 2 of one network, 1.5 of the mean of two, 1.1 of that of ten
    assert 1.5 - _gain_of_mean(2, 10) * (2.0 - 1.5) == pytest.approx(1.1)
    assert _gain_of_mean(1, 5) == 0.0


def test_probabilities_are_those_of_link_and_loss(fitted):
    X, y, _ = rings(50, seed=2)
    z = torch.as_tensor(fitted.linear_predictor(X))
    np.testing.assert_allclose(fitted.link_.inverse(z).numpy(), fitted.predict_proba(X), atol=1e-9)
    assert isinstance(fitted.loss_, CompositeLoss)
    assert float(fitted.loss_(z, torch.as_tensor(y))) == pytest.approx(log_loss(y, fitted.predict_proba(X)), rel=1e-6)
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), fitted.predict_proba(X))


def test_classes_of_two_have_the_right_order():
    X, y = make_moons(400, noise=0.15, random_state=0)
    names = np.array(["no", "yes"])[y]
    model = LegendreNetClassifier(**QUICK).fit(X, names)
    assert model.score(X, names) > 0.95
    assert model.link_classes_.tolist() == ["yes", "no"]
    odds = model.decision_function(X)
    assert odds.shape == (400,)
    np.testing.assert_array_equal(odds > 0, model.predict(X) == "yes")
    z = model.linear_predictor(X)
    assert np.corrcoef(z[:, 0], odds)[0, 1] > 0.8


def test_rows_of_weight_zero_do_not_count():
    X, y, _ = rings(300)
    weight = np.ones(330)
    weight[300:] = 0.0
    more = np.vstack([X, 50.0 * np.ones((30, 3))]), np.r_[y, np.full(30, 2)]
    model = LegendreNetClassifier(**QUICK).fit(*more, sample_weight=weight)
    assert np.isnan(model.oof_proba_[300:]).all()
    assert np.isfinite(model.oof_proba_[:300]).all()


def test_groups_are_held_out_together():
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 6)
    X = random.normal(size=(60, 4))[groups] + 0.01 * random.normal(size=(360, 4))
    y = random.integers(2, size=60)[groups]  # nothing to learn, but by recognizing a group
    apart = LegendreNetClassifier(**QUICK).fit(X, y)
    together = LegendreNetClassifier(**QUICK).fit(X, y, groups=groups)
    assert apart.oof_score_ > 0.9
    assert together.oof_score_ < 0.7
    with pytest.raises(ValueError, match="one entry per row"):
        LegendreNetClassifier(**QUICK).fit(X, y, groups=groups[:-1])


def test_the_largest_seed_can_be_used():
    X, y, _ = rings(60)
    settings = {"hidden_layers": (8,), "max_steps": 20, "label_noise": None}
    folds = []
    for seed in (2**32 - 2, 2**32 - 1):
        model = LegendreNetClassifier(**settings, random_state=seed).fit(X, y)
        folds.append(model.history_["validation_loss"])
    assert not np.isclose(*folds).any()


def test_networks_are_compared_also_if_a_class_is_held_out_in_one_repeat_only():
    """Classes that have a share of two rows only are unknown where these are held out together."""
    for seed in range(3):
        X, y, _ = rings(240, seed)
        shares = np.eye(9)[y]
        for rare in range(6):
            shares[[2 * rare, 2 * rare + 1]] *= 0.6
            shares[[2 * rare, 2 * rare + 1], 3 + rare] = 0.4
        model = LegendreNetClassifier(**QUICK | {"random_state": seed}, label_noise=None).fit(X, shares)
        assert not model.is_linear_
        assert model.network_log_loss_ < 0.6 < model.linear_log_loss_


def test_a_network_that_diverges_does_not_count(monkeypatch):
    def train_and_lose(table, repeats, *how):
        found = train_folds(table, repeats, *how)
        found.model.flat[1] = np.nan
        return found._replace(each=held_out_logits(found.model, found.result, table, repeats))

    monkeypatch.setattr(network_fit, "train_folds", train_and_lose)
    X, y, _ = rings(1000)
    model = LegendreNetClassifier(**QUICK, label_noise=None).fit(X, y)
    assert not model.is_linear_
    assert model.score(X, y) > 0.9
    assert np.isnan(model.oof_proba_).all(1).sum() == 200
    assert len(model._logits.weight_0) == 4


def test_a_fit_that_fails_changes_nothing(fitted):
    X, _, _ = rings(60)
    before = dict(vars(fitted))
    with pytest.raises(ValueError, match="one class"):
        fitted.fit(X, np.zeros(60))
    assert vars(fitted) == before


@pytest.fixture(scope="module")
def noisy():
    X, y, true = rings(1500, wrong=0.25)
    return X, y, true, LegendreNetClassifier(**{**QUICK, "max_steps": 800}).fit(X, y)


def test_wrong_labels_are_found(noisy):
    X, y, true, model = noisy
    assert model.noise_rate_ == pytest.approx(0.25, abs=0.06)
    low, high = model.noise_rate_interval_
    assert low < 0.25 < high
    issues = model.find_label_issues(X, y)
    wrong = np.flatnonzero(y != true)
    assert np.isin(issues, wrong).mean() > 0.8
    assert np.isin(wrong, issues).mean() > 0.8


def test_probabilities_of_recorded_and_of_true_labels(noisy):
    X, y, _, model = noisy
    settings = {**QUICK, "max_steps": 800}
    plain, asked = (LegendreNetClassifier(**settings, label_noise=noise).fit(X, y) for noise in (None, "symmetric"))
    new, recorded, true = rings(1000, seed=3, wrong=0.25)
    assert log_loss(recorded, model.predict_proba(new)) < 1.01 * log_loss(recorded, plain.predict_proba(new))
    np.testing.assert_array_equal(model.predict_proba_observed(new), model.predict_proba(new))
    assert log_loss(true, asked.predict_proba(new)) < 0.7 * log_loss(true, plain.predict_proba(new))
    assert asked.predict_proba_observed(new).min() > 0.05
    assert model.predicts_recorded_
    assert not asked.predicts_recorded_
    with pytest.raises(AttributeError, match="label_noise"):
        plain.noise_rate_  # noqa: B018


def test_a_known_rate_or_matrix_is_taken():
    X, y, _ = rings(500, wrong=0.2)
    known = LegendreNetClassifier(**QUICK, label_noise=0.2).fit(X, y)
    assert known.noise_rate_ == pytest.approx(0.2)
    matrix = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    as_matrix = LegendreNetClassifier(**QUICK, label_noise=matrix).fit(X, y)
    np.testing.assert_allclose(as_matrix.noise_matrix_, matrix, atol=1e-6)
    new, _, true = rings(500, seed=4)
    for model in (known, as_matrix):
        assert log_loss(true, model.predict_proba(new)) < 0.6


def test_noise_of_each_pair_of_classes_is_estimated():
    X, _, y = rings(1500)
    random = np.random.default_rng(5)
    noisy = np.where((y == 0) & (random.uniform(size=1500) < 0.25), 1, y)
    model = LegendreNetClassifier(**QUICK, label_noise="class-conditional").fit(X, noisy)
    assert model.noise_matrix_[0, 1] == pytest.approx(0.25, abs=0.1)
    assert model.noise_matrix_[2, 2] > 0.9


def test_quality_of_the_rows_of_the_fit_needs_no_other_fit(noisy, monkeypatch):
    X, y, _, model = noisy
    monkeypatch.setattr(LegendreNetClassifier, "_refit", lambda *_: pytest.fail("fitted again"))
    quality = model.label_quality(X, y)
    assert quality.shape == (1500,)
    assert np.array_equal(quality, model.label_quality(X, y, sample_weight=np.full(1500, 3.0)))
    other = {
        "rows": (X[:900], y[:900]),
        "weights": (X, y, 5, None, np.arange(1500.0)),
        "groups": (X, y, 5, np.arange(1500)),
    }
    for arguments in other.values():
        with pytest.raises(pytest.fail.Exception):
            model.label_quality(*arguments)


def test_models_that_judge_labels_know_weights_and_groups(monkeypatch):
    X, y, _ = rings(60)
    model = LegendreNetClassifier((4,), max_steps=5, label_noise=None, random_state=0)
    model.fit(X, y)
    fit, given = LegendreNetClassifier.fit, []
    monkeypatch.setattr(LegendreNetClassifier, "fit", lambda *a, **k: given.append(k) or fit(*a, **k))
    groups, weight = np.arange(60) // 4, np.arange(60.0)
    model.label_quality(X, y, 3, groups, weight)
    assert len(given) == 3
    for one in given:
        rows = np.isin(np.arange(60), one["sample_weight"].astype(int)) & (weight > 0)
        assert np.array_equal(one["sample_weight"], weight[rows])
        assert np.array_equal(one["groups"], groups[rows])


def test_saved_and_loaded(fitted, noisy, tmp_path):
    X, _, _ = rings(50, seed=7)
    tiny = LegendreNetClassifier(class_weight={0: 1.0, 1: 2.0}, random_state=0).fit([[0.0], [1.0]], [0, 1])
    for number, model in enumerate((fitted, noisy[3], tiny)):
        path = tmp_path / f"{number}.safetensors"
        model.save(path)
        again = load(path)
        assert isinstance(again, LegendreNetClassifier)
        rows = X[:, : model.n_features_in_]
        np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))
        assert again.get_params() == model.get_params()
        assert again.is_linear_ == model.is_linear_
        assert getattr(again, "noise_rate_", None) == getattr(model, "noise_rate_", None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s["scores"].pop("bias_1"), "scores must have the fields"),
        (lambda s: s["scores"].update(weight_0=s["scores"]["weight_0"] * float("nan")), "weight_0"),
        (lambda s: s["scores"].update(factor=s["scores"]["factor"][:2]), "factor must be"),
        (lambda s: s.update(held_out=[1.0, 1.0]), "held_out"),
        (lambda s: s.update(is_linear=True), "scores"),
        (lambda s: s["link"].update(n_classes=4), "of shape"),
        (lambda s: s["parameters"].update(dropout=2.0), "dropout"),
        (lambda s: s["parameters"].update(hidden_layers=["x", 4]), "hidden_layers"),
    ],
)
def test_forged_files_are_refused(fitted, tmp_path, change, message):
    path = tmp_path / "model"
    fitted.save(path)
    forge(path, change)
    with pytest.raises(ValueError, match=message):
        load(path)


def test_labels_by_chance_can_be_saved(tmp_path):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(400, 3)), random.integers(0, 4, 400)
    model = LegendreNetClassifier((8,), max_steps=50, label_noise="symmetric", random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_set(X), model.predict_set(X))


def test_a_handful_of_rows():
    X, y, _ = rings(60)
    model = LegendreNetClassifier(max_steps=20, random_state=0).fit(X, y > 0)
    assert hasattr(model, "history_")
    for seed in range(4):
        model.set_params(random_state=seed).fit(X[:3], [0, 0, 1])
        assert model.is_linear_
        assert np.isfinite(model.predict_proba(X)).all()
    model.fit(X[:2], [0, 1])
    assert not hasattr(model, "history_")  # of an earlier fit


def test_a_link_has_an_inverse_where_it_is_reached(fitted):
    z = torch.as_tensor(fitted.linear_predictor(rings(50, seed=8)[0]))
    p = fitted.link_.inverse(z)
    again = fitted.link_.inverse(fitted.link_.link(p))
    found = again.isfinite().all(1)
    assert float(found.double().mean()) > 0.9  # near the floor, where it is flat, none may be found
    torch.testing.assert_close(again[found], p[found], atol=1e-6, rtol=1e-5)
    never = torch.tensor([[1.0 - 2e-12, 1e-12, 1e-12]], dtype=torch.float64)
    assert bool(fitted.link_.link(never).isnan().all())
    assert fitted.loss_.canonicality.n_points > 2
    assert not fitted.link_.is_canonical


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_onnx_gives_the_same(tmp_path, dtype):
    runtime = pytest.importorskip("onnxruntime")
    X, y, _ = rings(300)
    X = X.astype(np.float32)
    models = [LegendreNetClassifier(dtype=dtype, **QUICK).fit(X, np.array(["a", "b", "c"])[y])]
    models.append(LegendreNetClassifier().fit(X[:2], [0, 1]))
    for model in models:
        model.to_onnx(tmp_path / "model.onnx")
        session = runtime.InferenceSession(str(tmp_path / "model.onnx"))
        label, p = session.run(None, {"X": X[:40]})
        np.testing.assert_allclose(p, model.predict_proba(X[:40]), atol=1e-5)
        assert label.tolist() == model.predict(X[:40]).tolist()


def test_in_a_classifier_of_tables(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    X, y, _ = rings(400)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "word": np.where(X[:, 2] > 0, "up", "down")})
    frame.loc[::17, "a"] = np.nan
    model = TableClassifier(LegendreNetClassifier(**QUICK)).fit(frame, y)
    assert model.score(frame, y) > 0.7
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(frame), model.predict_proba(frame))
    assert len(model.find_label_issues(frame, y)) < 200
    model.to_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"))
    numbers = {name: frame[[name]].to_numpy() for name in ("a", "b")}
    _, p = session.run(None, {**numbers, "word": frame[["word"]].to_numpy().astype(object)})
    np.testing.assert_allclose(p, model.predict_proba(frame), atol=1e-5)


def test_extreme_and_weighted_rows(fitted):
    p = fitted.predict_proba([[1e300, -1e300, 0.0], [1e9, 1e9, 1e9]])
    np.testing.assert_allclose(p.sum(1), 1.0)
    X, y, _ = rings(400)
    plain, weighted = (
        LegendreNetClassifier(**QUICK, label_noise=None, class_weight=weight).fit(X, y).predict_proba(X)[:, 0].mean()
        for weight in (None, {0: 10.0, 1: 1.0, 2: 1.0})
    )
    assert weighted > plain + 0.02


@pytest.mark.parametrize("parameters", [
    {"hidden_layers": ()}, {"hidden_layers": (0, 4)}, {"n_folds": 1}, {"max_steps": 0}, {"dropout": 1.0},
    {"label_smoothing": -0.1}, {"device": "abacus"}, {"label_noise": "some"},
])  # fmt: skip
def test_bad_parameters_are_named(parameters, fitted):
    X, y, _ = rings(60)
    with pytest.raises(ValueError, match=next(iter(parameters))):
        LegendreNetClassifier(**parameters).fit(X, y)
    sparse = scipy.sparse.csr_array(X)
    for ask in (lambda: LegendreNetClassifier().fit(sparse, y), lambda: fitted.predict(sparse)):
        with pytest.raises(ValueError, match="LegendreTronClassifier takes sparse ones"):
            ask()
