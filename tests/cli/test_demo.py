"""The demonstration, shorter."""

import inspect
import math

import pytest
import sklearn.linear_model
import torch

from legendretron.cli import demo

MODELS = ["LogisticRegressionCV", "LegendreTronClassifier", "HistGradientBoostingClassifier", "LegendreNetClassifier"]
SCORES = {"accuracy": 0.75, "log_loss": 0.25, "brier": 0.1, "calibration_error": 0.01, "auc": 0.9, "seconds": 1.0}


def test_demo(run, tmp_path, monkeypatch):
    """A tenth of the rows; everything else as it is."""
    split = demo._split
    monkeypatch.setattr(demo, "_split", lambda X, y: split(X[:180], y[:180]))
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    result = run("demo", "--out", tmp_path / "new", "--json", "--quiet").json
    after = torch.get_num_threads()
    torch.set_num_threads(threads)
    assert after == threads + 1
    assert list(result["datasets"]) == ["digits", "breast cancer"]
    for got in result["datasets"].values():
        assert list(got["models"]) == MODELS
        assert all(scores["accuracy"] > 0.6 for scores in got["models"].values())
        assert got["choice"]["text"] in got["text"]
    for path in result["plots"]:
        with open(path, "rb") as file:
            assert file.read(4) == b"\x89PNG"


@pytest.mark.exhaustive
def test_demo_shows_both_sides(run, tmp_path):
    """Digits are better by a learned link and by networks, and logistic regression is chosen for the tumours."""
    ran = run("demo", "--out", tmp_path)
    assert "On the test rows it is better: log-loss " in ran.out
    assert "Networks beside boosting: better, log-loss " in ran.out
    assert "So both are logistic regression" in ran.out
    assert "compiles code" in ran.err


@pytest.mark.parametrize(("difference", "error", "word"), [
    (-0.1, 0.02, "better"), (0.1, 0.02, "worse"), (0.1, 0.2, "not clearly different"), (-0.1, math.inf, "not clearly"),
])  # fmt: skip
def test_sentences_follow_from_the_numbers(difference, error, word):
    ours = {**SCORES, "log_loss": 0.25 + difference}
    models = dict(zip(MODELS, (SCORES, ours, SCORES, ours), strict=True))
    differences = dict.fromkeys(MODELS[1::2], (difference, error))
    text = demo._Outcome(models, differences, {"model": "learned link", "text": "learned link"}).in_words()
    both = f"log-loss {ours['log_loss']:.3f} and 0.250, 75.0% and 75.0% right."
    assert f"it is {word}" in text
    assert f": {word}" in text
    assert text.count(both) == 2
    choice = {"model": "logistic regression", "text": "logistic regression, alpha 1"}
    text = demo._Outcome(models, differences, choice).in_words()
    assert f"of their own choice: {both}" in text


def test_logistic_regression_of_older_versions(monkeypatch):
    """Before scikit-learn 1.8 some parameters did not exist."""

    class Older(sklearn.linear_model.LogisticRegressionCV):
        def __init__(self, Cs=10, scoring=None, max_iter=100):
            self.given = {"Cs": Cs, "scoring": scoring, "max_iter": max_iter}

    assert "use_legacy_attributes" not in inspect.signature(Older).parameters
    monkeypatch.setattr(demo, "LogisticRegressionCV", Older)
    assert demo._logistic()[-1].given == {"Cs": 10, "scoring": "neg_log_loss", "max_iter": 1000}
