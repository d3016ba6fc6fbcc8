"""The test of softmax against learned links."""

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from legendretron import LegendreTronClassifier
from legendretron.diagnostics import LinkTest, link_test
from legendretron.diagnostics.softmax_test import score_test


def draw(z, rng):
    return (z + rng.gumbel(size=z.shape)).argmax(1)


@pytest.mark.parametrize(("n_classes", "n"), [
    pytest.param(2, 600, marks=pytest.mark.exhaustive), (4, 600), pytest.param(20, 1000, marks=pytest.mark.exhaustive)
])  # fmt: skip
def test_softmax_is_seldom_rejected_where_it_is_right(n_classes, n):
    rng = np.random.default_rng(n_classes)
    z = 2.0 * rng.normal(size=(n, n_classes))
    said = log_softmax(0.5 * z + 0.3, axis=1)  # another temperature and other biases do not matter
    p_values = [score_test(said, draw(z, rng)).p_value for _ in range(200)]
    assert np.mean(np.array(p_values) < 0.05) < 0.09  # three standard errors above 5 %


def test_a_model_that_is_surer_than_it_may_be_is_not_rejected_for_it():
    """Nearly separable classes and hardly any penalty: some labels are far less probable than predicted."""
    rejected = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(200, 8))
        y = draw(5.0 * x[:, :3], rng)
        model = LogisticRegression(C=1e3, max_iter=1000).fit(x[:100], y[:100])
        rejected += link_test(model, x[100:], y[100:]).p_value < 0.05
    assert rejected <= 6  # three standard errors above 5 %


def test_known_bends_are_found():
    rng = np.random.default_rng(0)
    z = 2.0 * rng.normal(size=(2000, 4))
    bent = z.copy()
    bent[:, 1] += 1.5 * np.sqrt(1.0 + z[:, 1] ** 2)
    test = score_test(log_softmax(z, axis=1), draw(bent, rng), classes=np.array(list("abcd")))
    assert test.p_value < 1e-6
    assert "b" in test.rejected_classes
    assert test.gain > 2.0 * test.gain_error > 0.0
    assert str(test).startswith("softmax is rejected")


def test_a_jump_between_two_classes_is_found():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 1))
    y = (rng.random(1000) < np.where(x[:, 0] > 0.0, 0.9, 0.1)).astype(int)
    test = link_test(LogisticRegression().fit(x[:500], y[:500]), x[500:], y[500:])
    assert test.p_value < 1e-3
    assert test.class_p_values.tolist() == [test.p_value] * 2


def test_linear_models_and_pipelines_are_tested():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 3))
    y = np.array(["low", "mid", "top"])[draw(x @ rng.normal(size=(3, 3)), rng)]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(x[:400], y[:400])
    test = link_test(model, x[400:], y[400:])
    assert test.classes.tolist() == ["low", "mid", "top"]
    assert test.p_value > 0.01
    assert test.rejected_classes.size == 0 or test.p_value < 0.05
    back = LinkTest.from_state(test.to_state())
    assert (back.statistic, back.df, back.gain) == (test.statistic, test.df, test.gain)
    with pytest.raises(ValueError, match="gain"):
        LinkTest.from_state({**test.to_state(), "gain": "much"})


def test_extreme_and_constant_scores():
    labels = np.arange(40) % 3
    sure = np.where(np.eye(3)[labels] > 0, 0.0, -800.0)
    for log_proba in (sure, np.full((40, 3), np.log(1 / 3))):
        test = score_test(log_proba, labels)
        assert 0.0 <= test.p_value <= 1.0
        assert np.isfinite([test.statistic, test.gain, test.gain_error]).all()


def test_a_fit_says_what_it_found(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    y = np.array(["no", "yes"])[(rng.random(300) < 1 / (1 + np.exp(-2 * x[:, 0]))).astype(int)]
    model = LegendreTronClassifier(random_state=0).fit(x, y)
    assert model.link_test_.classes.tolist() == ["no", "yes"]
    model.save(tmp_path / "model")
    assert LegendreTronClassifier.load(tmp_path / "model").link_test_.p_value == model.link_test_.p_value
    given = LegendreTronClassifier(alpha=0.1, link_alpha=0.1, max_epochs=2).fit(x, y)
    with pytest.raises(AttributeError, match="link_test_"):
        _ = given.link_test_


def test_weights_of_rows_count():
    rng = np.random.default_rng(0)
    z = 2.0 * rng.normal(size=(2000, 3))
    bent = z + 2.0 * np.sqrt(1.0 + z**2) * np.array([1.0, -1.0, 0.0])
    labels = np.where(np.arange(2000) < 1000, draw(z, rng), draw(bent, rng))
    said = log_softmax(z, axis=1)
    plain, alike = (score_test(said, labels, sample_weight=weight) for weight in (None, np.full(2000, 3.0)))
    assert alike.statistic == pytest.approx(plain.statistic)
    assert plain.p_value < 1e-6
    weight = np.where(np.arange(2000) < 1000, 1.0, 1e-9)  # the rows of the other link count for nothing
    assert score_test(said, labels, sample_weight=weight).p_value > 0.01


X, Y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2


@pytest.mark.parametrize(("model", "x", "y", "message"), [
    (LogisticRegression(), X, np.where(Y, 7, 0), "labels of the classes"),
    (LogisticRegression(), X, np.where(Y, "yes", "no"), "labels of the classes"),
    (LinearSVC(), X, Y, "predict_proba"),
    (LogisticRegression(), X[:1], Y[:1], "at least 2 rows"),
    (LogisticRegression(), X, Y[:1], "inconsistent numbers of samples"),
    (LogisticRegression(), X, Y[:, None], "one label for each row"),
])  # fmt: skip
def test_bad_input_is_refused(model, x, y, message):
    with pytest.raises(NotFittedError):
        link_test(LogisticRegression(), X, Y)
    with pytest.raises(ValueError, match=message):
        link_test(model.fit(X, Y), x, y)
