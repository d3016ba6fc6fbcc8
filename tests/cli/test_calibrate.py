"""Calibration on the command line: a model of ours, and predictions of any other."""

import io

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss

from legendretron import LegendreCalibrator, LegendreTronClassifier
from legendretron.diagnostics.scores import scores_of
from tests.cli.conftest import make_iris

KINDS = np.array(["ant", "bee", "cat"])
#: One strength instead of a choice, and fewer folds.
GIVEN = ["--strength", 1, "--cv", 2]


def make_predictions(rows=200, seed=0, classes=KINDS):
    """Logits that are three times too large, and labels."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(rows, len(classes)))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (p.cumsum(1) > rng.random((rows, 1))).argmax(1)
    frame = pd.DataFrame(3 * logits, columns=[str(label) for label in classes])
    frame["label"] = np.asarray(classes)[y]
    return frame


def softmax(frame):
    """Probabilities of logits, in columns as predict --proba writes them."""
    p = np.exp(frame.drop(columns="label"))
    p = p.div(p.sum(axis=1), axis=0).rename(columns=lambda name: f"p({name})")
    p.insert(0, "prediction", p.to_numpy().argmax(1).astype(str))  # text, not to be read
    return p.assign(label=frame["label"])


@pytest.fixture(scope="module")
def predictions(tmp_path_factory):
    """A folder of tables of predictions."""
    folder = tmp_path_factory.mktemp("predictions")
    for name, seed in (("cal", 0), ("test", 1)):
        frame = make_predictions(seed=seed)
        frame.to_csv(folder / f"logits_{name}.csv", index=False)
        softmax(frame).to_csv(folder / f"proba_{name}.csv", index=False)
    return folder


@pytest.mark.parametrize("form", ["logits", "proba"])
def test_predictions_of_another_model(run, predictions, tmp_path, form):
    cal, test, out = predictions / f"{form}_cal.csv", predictions / f"{form}_test.csv", tmp_path / "c"
    summary = run("calibrate", cal, "-t", "label", "-o", out, "--json").json
    assert (summary["calibrates"], summary["input"], summary["rows"]) == ("predictions", form, 200)
    assert summary["classes"] == KINDS.tolist()
    assert summary["after"]["log_loss"] < summary["before"]["log_loss"] - 0.1
    assert 2.0 < summary["temperature"] < 4.0
    assert sum(summary["choice"][key] for key in ("temperature", "shared", "by_class")) == pytest.approx(1)

    # as in Python
    frame, unseen = pd.read_csv(cal), pd.read_csv(test)
    columns = [f"p({kind})" if form == "proba" else kind for kind in KINDS]
    expected = LegendreCalibrator().fit(frame[columns], frame["label"])
    assert summary["temperature"] == pytest.approx(expected.temperature_)
    p = expected.predict_proba(unseen[columns])

    # applied, wherever the columns are
    unseen[["label", *reversed(columns)]].to_csv(tmp_path / "test.csv", index=False)
    got = pd.read_csv(io.StringIO(run("predict", out, tmp_path / "test.csv", "--proba").out))
    assert list(got) == ["prediction", *(f"p({kind})" for kind in KINDS)]
    assert np.allclose(got.drop(columns="prediction"), p, rtol=1e-9)
    assert got["prediction"].tolist() == expected.predict(unseen[columns]).tolist()
    scores = run("evaluate", out, tmp_path / "test.csv", "-t", "label", "--json").json
    assert scores["log_loss"] == pytest.approx(log_loss(unseen["label"], p))


def test_held_out_rows_are_not_those_of_the_fit(run, predictions, tmp_path):
    """Scores after calibration are by calibrations of other rows, in the folds of the command."""
    frame = pd.read_csv(predictions / "logits_cal.csv")
    words = ["calibrate", predictions / "logits_cal.csv", "-t", "label", "-o", tmp_path / "c", "--cv", 4, "--json"]
    summary = run(*words).json
    X, y = frame[KINDS].to_numpy(), frame["label"].to_numpy(dtype=object)
    fold, p = np.random.RandomState(0).permutation(200) % 4, np.empty((200, 3))
    for k in range(4):
        fitted = LegendreCalibrator(cv=4).fit(X[fold != k], y[fold != k])
        p[fold == k] = fitted.predict_proba(X[fold == k])
    assert summary["folds"] == 4
    assert summary["after"]["log_loss"] == pytest.approx(log_loss(y, p))
    before = np.exp(X - X.max(1, keepdims=True))
    assert summary["before"]["log_loss"] == pytest.approx(log_loss(y, before / before.sum(1, keepdims=True)))


def test_a_model_of_ours(run, tables, tmp_path):
    out, picture = tmp_path / "calibrated.safetensors", tmp_path / "reliability.png"
    words = ["calibrate", tables / "iris.safetensors", tables / "iris.csv", "-t", "kind", "-o", out, "--plot", picture]
    words += GIVEN
    ran = run(*words, "--json")
    assert ran.json["calibrates"] == "model"
    assert ran.json["plot"] == str(picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert ran.err == f"picture: {picture}\n"

    frame = make_iris()
    y = frame.pop("kind").to_numpy(dtype=object)
    clf = LegendreTronClassifier.load(tables / "iris.safetensors")
    expected = LegendreCalibrator(FrozenEstimator(clf), strength=1.0, cv=2).fit(frame, y)
    saved = LegendreCalibrator.load(out)
    assert np.allclose(saved.predict_proba(frame), expected.predict_proba(frame), rtol=1e-9)
    got = pd.read_csv(io.StringIO(run("predict", out, tables / "iris.csv", "--proba").out))
    assert np.allclose(got.drop(columns="prediction"), expected.predict_proba(frame), rtol=1e-9)
    scores = run("evaluate", out, tables / "iris.csv", "-t", "kind", "--json").json
    assert scores["log_loss"] == pytest.approx(log_loss(y, expected.predict_proba(frame)))

    printed = run(*words).out
    assert f"log-loss on held-out rows: {ran.json['after']['log_loss']:.4f}" in printed
    assert f"calibration: {ran.json['choice']['text']}\n" in printed
    assert f"{ran.json['before']['log_loss']:.4f}" in printed
    assert str(out) in printed


def test_options_reach_the_calibrator(run, predictions, tmp_path):
    words = ["calibrate", predictions / "logits_cal.csv", "-t", "label", "-o", tmp_path / "c", "--json"]
    summary = run(*words, "--order", "preserved", "--label-noise", 0.1, "--cv", 3, "--input", "logits").json
    saved = LegendreCalibrator.load(tmp_path / "c")
    assert (saved.order, saved.label_noise, saved.cv, saved.input) == ("preserved", 0.1, 3, "logits")
    assert summary["before"]["accuracy"] == summary["after"]["accuracy"]
    assert summary["label_noise"] == {"rate": pytest.approx(0.1), "low": None, "high": None, "known": True}
    assert summary["choice"]["by_class"] == 0
    assert "wrong labels" in run(*words[:-1], "--label-noise", "symmetric").out
    assert "strength inf, as given" in run(*words, "--strength", "inf").json["choice"]["text"]
    assert LegendreCalibrator.load(tmp_path / "c").strength == np.inf


def test_wrong_labels_count_before_and_after(run, tmp_path):
    """Both are scored as predictions of labels that are wrong at the same rate."""
    frame = make_predictions(400)
    wrong = np.random.default_rng(2).random(400) < 0.3
    frame.loc[wrong, "label"] = np.roll(frame["label"], 1)[wrong]
    frame.to_csv(tmp_path / "p.csv", index=False)
    words = ["calibrate", tmp_path / "p.csv", "-t", "label", "-o", tmp_path / "c", "--strength", "inf", "--json"]
    got = run(*words, "--label-noise", 0.2).json
    logits, y = frame[KINDS].to_numpy(), np.searchsorted(KINDS, frame["label"])
    p = np.exp(logits - logits.max(1, keepdims=True))
    observed = 0.7 * p / p.sum(1, keepdims=True) + 0.1  # of three classes, each wrong one a tenth
    assert got["before"] == pytest.approx(vars(scores_of(y, np.log(observed))))


@pytest.mark.parametrize("classes", [np.array([3, 7, 10]), np.array([False, True]), np.array(["01", "1"])])
def test_labels_that_are_not_words(run, tmp_path, classes):
    """Columns are found by the text of labels, and sorted as labels are: 10 after 7."""
    frame = make_predictions(60, classes=classes)
    frame[[*reversed([str(label) for label in classes]), "label"]].to_csv(tmp_path / "p.csv", index=False)
    run("calibrate", tmp_path / "p.csv", "-t", "label", "-o", tmp_path / "c", "-q", *GIVEN)
    saved = LegendreCalibrator.load(tmp_path / "c")
    assert saved.classes_.tolist() == classes.tolist()
    assert saved.feature_names_in_.tolist() == [str(label) for label in classes]
    assert run("evaluate", tmp_path / "c", tmp_path / "p.csv", "-t", "label", "--json").json["accuracy"] > 0.5


def test_one_column_of_the_second_class(run, tmp_path):
    frame = softmax(make_predictions(100, classes=["no", "yes"]))
    frame[["p(yes)", "label"]].to_csv(tmp_path / "p.csv", index=False)
    words = ["calibrate", tmp_path / "p.csv", "-t", "label", "-o", tmp_path / "c", *GIVEN]
    assert run(*words, "--json").json["classes"] == ["no", "yes"]
    assert "p(no),p(yes)" in run("predict", tmp_path / "c", tmp_path / "p.csv", "--proba").out
    frame[["p(no)", "label"]].to_csv(tmp_path / "p.csv", index=False)
    assert "it must be that of the second class, 'yes'" in run(*words, code=1).error


def test_a_class_without_rows(run, tmp_path):
    frame = make_predictions(100)
    probable = softmax(frame)
    kept = frame["label"] != "cat"
    probable[kept].to_csv(tmp_path / "p.csv", index=False)
    frame[kept].to_csv(tmp_path / "plain.csv", index=False)
    words = ["-t", "label", "-o", tmp_path / "c", "--json", *GIVEN]
    ran = run("calibrate", tmp_path / "p.csv", *words)
    assert ran.json["classes"] == KINDS.tolist()
    assert ran.err.startswith("warning: ")
    assert "has no rows of 'cat'" in ran.err
    # a column could be anything, unless it is named
    assert "not named after a label of 'label': 'cat'" in run("calibrate", tmp_path / "plain.csv", *words, code=1).error
    named = [word for kind in KINDS for word in ("--features", kind)]
    assert run("calibrate", tmp_path / "plain.csv", *words, *named).json["classes"] == KINDS.tolist()


#: Tables that are refused, by what is done to a good one, and why.
BAD = {
    "another column": (lambda frame: frame.assign(id=range(len(frame))), "not named after a label of 'label': 'id'"),
    "missing class": (lambda frame: frame.drop(columns="bee"), "labels without a column of predictions: 'bee'"),
    "text": (lambda frame: frame.assign(bee="many"), ": 'bee' .such as 'many'., the first in line 2; correct .* .--drop"),
    "one class": (lambda frame: frame[["ant"]].assign(label="ant"), "at least two classes are needed"),
    "one row": (lambda frame: frame[:1].rename(columns=lambda n: n if n == "label" else f"p({n})"), "has one row"),
    "another target": (lambda frame: frame.rename(columns={"label": "lable"}), "did you mean 'lable'"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_tables(run, tmp_path, name):
    change, message = BAD[name]
    change(make_predictions(50)).to_csv(tmp_path / "p.csv", index=False)
    ran = run("calibrate", tmp_path / "p.csv", "-t", "label", "-o", tmp_path / "c", "--json", code=1)
    assert pd.Series([ran.error]).str.contains(message).all(), ran.error
    assert ran.json["error"] == ran.error
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]


def test_two_columns_for_one_class(run, tmp_path):
    frame = make_predictions(50, classes=[1, 2])
    frame.assign(**{"1.0": frame["1"]}).astype({"label": float}).to_csv(tmp_path / "p.csv", index=False)
    error = run("calibrate", tmp_path / "p.csv", "-t", "label", "-o", tmp_path / "c", code=1).error
    assert "two columns for class '1': '1' and '1.0'; leave out one (--drop)." in error
    run("calibrate", tmp_path / "p.csv", "-t", "label", "-o", tmp_path / "c", "--drop", "1.0", "-q", *GIVEN)


def test_probabilities_that_are_none(run, predictions, tmp_path):
    words = ["calibrate", predictions / "logits_cal.csv", "-t", "label", "-o", tmp_path / "c", "--input", "proba"]
    error = run(*words, code=1).error
    assert error.startswith("the data must contain probabilities")
    assert "--input logits" in error
    # a calibrator of probabilities says the same of logits
    frame = pd.read_csv(predictions / "logits_cal.csv")
    frame.rename(columns=lambda name: f"p({name})").to_csv(tmp_path / "logits.csv", index=False)
    run("calibrate", predictions / "proba_cal.csv", "-t", "label", "-o", tmp_path / "c", "-q", *GIVEN)
    error = run("predict", tmp_path / "c", tmp_path / "logits.csv", code=1).error
    assert error.startswith(f"'{tmp_path / 'logits.csv'}', line 2: the data must contain prob")
    assert "has no column 'p(ant)'" in run("predict", tmp_path / "c", predictions / "logits_cal.csv", code=1).error


@pytest.mark.parametrize(("words", "message"), [
    (["--order", "none"], "'--order'"),
    (["--strength", "much"], "'--strength': it must be 'auto' or a number"),
    (["--label-noise", "auto"], "'--label-noise': it must be 'symmetric' or a number"),
    (["--label-noise", "0.7"], "'--label-noise': it must be below 0.667"),
    (["--cv", "1"], "'--cv'"),
    (["--input", "odds"], "'--input'"),
    (["--plot", "a.txt"], "'--plot'"),
    (["--drop", "label"], "'--drop': 'label' is the target"),
])  # fmt: skip
def test_wrong_usage(run, predictions, tmp_path, words, message):
    ran = run("calibrate", predictions / "logits_cal.csv", "-t", "label", "-o", tmp_path / "c", *words, code=2)
    assert message in ran.error
    assert list(tmp_path.iterdir()) == []


def test_files_in_the_wrong_place(run, tables, predictions, tmp_path):
    model, data, out = tables / "iris.safetensors", tables / "iris.csv", ["-t", "kind", "-o", tmp_path / "c"]
    assert "is a model; give a table to calibrate it on" in run("calibrate", model, *out, code=2).error
    assert "is a table, not a model" in run("calibrate", data, model, *out, code=1).error
    assert "'--target': which column contains the labels?" in run("calibrate", data, *out[2:], code=2).error
    assert "'--target': which column contains the labels?" in run("calibrate", model, data, *out[2:], code=2).error
    assert "'--input': it is for PREDICTIONS" in run("calibrate", model, data, *out, "--input", "proba", code=2).error
    (tmp_path / "p.libsvm").write_text("1 1:0.5\n")
    assert "is LIBSVM text, whose columns have no names" in run("calibrate", tmp_path / "p.libsvm", *out, code=1).error
    run("calibrate", model, data, *out, "-q", *GIVEN)
    for words in (["suspicious", out[-1], data, "-t", "kind"], ["calibrate", out[-1], data, "-t", "kind", "-o", "d"]):
        assert "was written by 'legendretron calibrate'; give a model that 'fit' wrote" in run(*words, code=1).error
    run("calibrate", predictions / "proba_cal.csv", "-t", "label", "-o", tmp_path / "c", "-q", *GIVEN)
    assert "is LIBSVM text, but" in run("predict", tmp_path / "c", tmp_path / "p.libsvm", code=1).error
