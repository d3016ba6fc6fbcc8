"""Scores against scikit-learn's, and the picture."""

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss, precision_score, recall_score, roc_auc_score

from legendretron import LegendreTronClassifier
from legendretron.diagnostics import expected_calibration_error
from tests.cli.conftest import make_cancer, make_iris


def test_two_classes(run, tables):
    scores = run("evaluate", tables / "cancer.safetensors", tables / "cancer.csv", "-t", "malignant", "--json").json
    frame = make_cancer()
    clf = LegendreTronClassifier.load(tables / "cancer.safetensors")
    y = frame.pop("malignant").to_numpy()
    p = clf.predict_proba(frame)
    assert scores["accuracy"] == clf.score(frame, y)
    assert scores["log_loss"] == pytest.approx(log_loss(y, p))
    assert scores["brier"] == pytest.approx(2 * brier_score_loss(y, p[:, 1]))
    assert scores["calibration_error"] == pytest.approx(expected_calibration_error(y, p))
    assert scores["auc"] == pytest.approx(roc_auc_score(y, p[:, 1]))
    share = y.mean()
    assert scores["baseline"] == pytest.approx({
        "accuracy": max(share, 1 - share),
        "log_loss": log_loss(y, np.full(len(y), share)),
        "brier": 2 * share * (1 - share),
        "calibration_error": 0,
        "auc": 0.5,
    })  # fmt: skip


def test_many_classes(run, tables):
    words = ["evaluate", tables / "iris.safetensors", tables / "iris.csv", "-t", "kind"]
    scores = run(*words, "--json").json
    frame = make_iris()
    clf = LegendreTronClassifier.load(tables / "iris.safetensors")
    y = frame.pop("kind").to_numpy(dtype=object)
    p, predicted = clf.predict_proba(frame), clf.predict(frame)
    assert scores["log_loss"] == pytest.approx(log_loss(y, p))
    assert scores["auc"] == pytest.approx(roc_auc_score(y, p, multi_class="ovr"))
    assert [row["class"] for row in scores["classes"]] == clf.classes_.tolist()
    for row in scores["classes"]:
        label = [row["class"]]
        assert row["rows"] == 50
        assert row["precision"] == pytest.approx(precision_score(y, predicted, labels=label, average="macro"))
        assert row["recall"] == pytest.approx(recall_score(y, predicted, labels=label, average="macro"))
    printed = run(*words, "--quiet").out
    assert f"{scores['log_loss']:.4f}" in printed
    assert f"{scores['classes'][1]['recall']:.2%}" in printed


def test_one_class_only_has_no_auc(run, tables, tmp_path):
    frame = make_iris()
    frame[frame["kind"] == "setosa"].to_csv(tmp_path / "one.csv", index=False)
    words = ["evaluate", tables / "iris.safetensors", tmp_path / "one.csv", "-t", "kind"]
    scores = run(*words, "--json").json
    assert scores["auc"] is None
    assert scores["baseline"]["log_loss"] == 0
    assert scores["classes"][2] == {"class": "virginica", "rows": 0, "precision": None, "recall": None}
    assert " - " in run(*words).out


def test_labels_are_compared_as_text(run, tmp_path):
    """A column of numbers, read alone, is the same labels as in a column that also holds words."""
    frame = make_iris().replace({"setosa": "1", "versicolor": "2"})
    frame.to_csv(tmp_path / "mixed.csv", index=False)
    frame[frame["kind"] != "virginica"].to_csv(tmp_path / "numbers.csv", index=False)
    run("fit", tmp_path / "mixed.csv", "-t", "kind", "-o", tmp_path / "m", "--epochs", 3, "--seed", 0)
    assert run("evaluate", tmp_path / "m", tmp_path / "numbers.csv", "-t", "kind", "--json").json["rows"] == 100


def test_unknown_labels(run, tables, tmp_path):
    make_iris().replace({"setosa": "rosa"}).to_csv(tmp_path / "other.csv", index=False)
    error = run("evaluate", tables / "iris.safetensors", tmp_path / "other.csv", "-t", "kind", code=1).error
    assert error.endswith("does not know: 'rosa'; it knows 'setosa', 'versicolor', 'virginica'.")


@pytest.mark.parametrize(("end", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_plot(run, tables, tmp_path, end, start):
    picture = tmp_path / f"reliability.{end}"
    words = ["evaluate", tables / "iris.safetensors", tables / "iris.csv", "-t", "kind", "--plot", picture]
    ran = run(*words, "--json")
    assert ran.json["plot"] == str(picture)
    assert ran.err == f"picture: {picture}\n"
    assert picture.read_bytes().startswith(start)


def test_plot_without_matplotlib(run, tables, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    words = ["evaluate", tables / "iris.safetensors", tables / "iris.csv", "-t", "kind", "--plot", "a.png"]
    assert run(*words, code=1).error == "drawing needs matplotlib: pip install 'legendretron[plots]'."


def test_target_is_asked_for(run, tables):
    assert "--target" in run("evaluate", tables / "iris.safetensors", tables / "iris.csv", code=2).error
