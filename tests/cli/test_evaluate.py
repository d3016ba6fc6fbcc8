"""Scores against scikit-learn's, and the picture."""

import hashlib
import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import brier_score_loss, log_loss, precision_score, recall_score, roc_auc_score

from legendretron import LegendreTronClassifier
from legendretron._internal.artifacts import FORMAT
from legendretron.diagnostics import smooth_calibration_error
from legendretron.report.markup import percent
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
    assert scores["calibration_error"] == pytest.approx(smooth_calibration_error(y, p), abs=1e-5)
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
    assert "-0.0" not in json.dumps(scores["baseline"])  # no minus before a zero
    printed = run(*words).out
    assert " - " in printed
    assert " 0.0000" in printed


@pytest.fixture
def legends(monkeypatch):
    """Labels of the curves of all diagrams that are drawn."""
    from legendretron.plots import ReliabilityDisplay

    drawn, plot = [], ReliabilityDisplay.plot

    def remember(display, *args, **options):
        plot(display, *args, **options)
        drawn.append([line.get_label() for line in display.lines_.values()])
        return display

    monkeypatch.setattr(ReliabilityDisplay, "plot", remember)
    return drawn


def test_calibration_error_is_one_number(run, tables, tmp_path, quick, legends):
    make_cancer().assign(w=np.arange(569) % 3).to_csv(tmp_path / "a.csv", index=False)
    words = ["evaluate", tables / "cancer.safetensors", tmp_path / "a.csv", "-t", "malignant", "--weight", "w"]
    page = tmp_path / "page.html"
    error = run(*words, "--json", "--report", page, "--plot", tmp_path / "a.png").json["calibration_error"]
    assert f"calibration error</span><b>{percent(error)}<" in page.read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert legends == [[f"cancer (calibration error {error:.3f})"]]
    (line,) = [line for line in run(*words).out.splitlines() if "calibration error" in line]
    assert f"{error:.4f}" in line


def test_plot_without_matplotlib(run, tables, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    words = ["evaluate", tables / "iris.safetensors", tables / "iris.csv", "-t", "kind", "--plot", "a.png"]
    assert run(*words, code=1).error == "drawing needs matplotlib: pip install 'legendretron[plots]'."


@pytest.fixture(scope="module")
def quick():
    """Fewer draws and folds than users get."""
    with pytest.MonkeyPatch.context() as patch:
        fewer = {
            "diagnostics.intervals.DRAWS": 100,
            "diagnostics.decomposition._FOLDS": 2,
            "report.measured._CHANCES": 20,
        }
        for name, value in fewer.items():
            patch.setattr(f"legendretron.{name}", value)
        yield


def test_the_report(run, tables, tmp_path, quick):
    words = ["evaluate", tables / "iris.safetensors", tables / "iris.csv", "-t", "kind"]
    words += ["--report", tmp_path / "r.html"]
    ran = run(*words, "--json")
    assert ran.json["report"] == str(tmp_path / "r.html")
    assert ran.json["summary"].startswith(f"The model is right on {ran.json['accuracy']:.1%}".replace("%", " %"))
    page = (tmp_path / "r.html").read_text()
    assert "<title>Evaluation of iris</title>" in page
    assert hashlib.sha256((tables / "iris.csv").read_bytes()).hexdigest() in page
    assert "iris.csv, 150 rows, 3 classes" in page


def test_a_second_model_beside_the_first(run, tables, tmp_path, quick):
    frame = make_iris()
    y = frame.pop("kind").to_numpy(dtype=object)
    LegendreTronClassifier(link="softmax", alpha=1.0).fit(frame.iloc[:, 2:], y).save(tmp_path / "two.safetensors")
    words = ["evaluate", tables / "iris.safetensors", tables / "iris.csv", "-t", "kind", "--against"]
    ran = run(*words, tmp_path / "two.safetensors", "--report", tmp_path / "r.html", "--json").json
    other = run("evaluate", tmp_path / "two.safetensors", tables / "iris.csv", "-t", "kind", "--json").json
    assert ran["against"]["log_loss"] == pytest.approx(other["log_loss"])
    assert "By log-loss it is better than the other one, two (" in ran["summary"]
    assert "Side by side" in (tmp_path / "r.html").read_text()
    assert "against" in run(*words, tmp_path / "two.safetensors", "--quiet").out
    streamed = run(*words, tmp_path / "two.safetensors", "--stream", "--json").json
    assert streamed["against"]["log_loss"] == pytest.approx(other["log_loss"])


def test_two_models_are_judged_on_the_same_rows(run, tables, tmp_path):
    frame = make_iris()
    y = frame["kind"].to_numpy(dtype=object)
    LegendreTronClassifier(link="softmax", alpha=1.0).fit(frame.iloc[:, 2:4], y).save(tmp_path / "two.safetensors")
    frame.loc[:4, "sepal width"] = np.nan  # a column of the first model only
    frame.to_csv(tmp_path / "gaps.csv", index=False)
    words = ["evaluate", tables / "iris.safetensors", tmp_path / "gaps.csv", "-t", "kind", "--missing", "drop-rows"]
    assert (
        "with other missing values" in run(*words, "--quiet", "--against", tmp_path / "two.safetensors", code=1).error
    )
    same = run(*words, "--against", tables / "iris.safetensors", "--json", "--quiet").json
    assert (same["rows"], same["against"]["log_loss"]) == (145, same["log_loss"])


def test_the_report_names_rows_as_the_file_does(run, tables, tmp_path, quick):
    frame = make_iris()
    frame.loc[:119, "sepal width"] = np.nan
    frame.loc[100, "sepal width"] = 3.0
    frame.to_csv(tmp_path / "gaps.csv", index=False)
    words = ["evaluate", tables / "iris.safetensors", tmp_path / "gaps.csv", "-t", "kind", "--missing", "drop-rows"]
    run(*words, "--report", tmp_path / "r.html", "--quiet")
    labels = (tmp_path / "r.html").read_text().split('<section id="labels">')[1]
    listed = [int(number) for number in re.findall(r'<th scope="row" class="n" data-v="(\d+)"', labels)]
    assert sorted(listed) == [100, *range(120, 150)]


def test_weights_of_rows(run, tables, tmp_path, monkeypatch):
    frame = make_iris()
    weight = np.arange(len(frame)) % 4
    frame.assign(weight=weight).to_csv(tmp_path / "weighted.csv", index=False)
    frame.loc[np.repeat(frame.index, weight)].to_csv(tmp_path / "repeated.csv", index=False)
    model = tables / "iris.safetensors"
    words = ["evaluate", model, tmp_path / "weighted.csv", "-t", "kind", "--weight", "weight", "--json"]
    one = run(*words).json
    with monkeypatch.context() as patch:
        patch.setattr("legendretron.datasets.tables.ROWS_AT_ONCE", 1)  # so that all weights of some parts are zero
        assert run(*words, "--stream").json["log_loss"] == pytest.approx(one["log_loss"])
    two = run("evaluate", model, tmp_path / "repeated.csv", "-t", "kind", "--json").json
    for score in ("accuracy", "log_loss", "brier", "calibration_error", "auc"):
        assert one[score] == pytest.approx(two[score])
        assert one["baseline"][score] == pytest.approx(two["baseline"][score])


@pytest.fixture
def bad_tables(tables, tmp_path):
    frame = make_iris()
    frame.replace("setosa", "rose").to_csv(tmp_path / "unseen.csv", index=False)
    frame[frame["kind"] == "setosa"].to_csv(tmp_path / "one.csv", index=False)
    frame.drop(columns="petal width").to_csv(tmp_path / "missing.csv", index=False)
    frame.assign(w=-1, zero=0).to_csv(tmp_path / "weights.csv", index=False)
    frame.to_csv(tmp_path / "iris.csv", index=False)
    content = (tables / "iris.safetensors").read_bytes()
    (tmp_path / "other.safetensors").write_bytes(content.replace(FORMAT.encode(), b"legendretron-9"))
    for name in ("iris", "cancer"):
        (tmp_path / f"{name}.safetensors").write_bytes((tables / f"{name}.safetensors").read_bytes())
    return tmp_path


@pytest.mark.parametrize(
    ("model", "data", "more", "message", "code"),
    [
        ("iris", "unseen", [], "has labels that the model does not know: 'rose', the first in line 4; it knows", 1),
        ("iris", "one", [], "has rows of one class only, 'setosa'; a report needs rows of at least two", 1),
        ("iris", "missing", [], "has no column 'petal width'", 1),
        ("other", "iris", [], "is in the format .* Fit again", 1),
        ("iris", "iris", ["--against", "other"], "is in the format .* Fit again", 1),
        ("iris", "iris", ["--against", "cancer"], "has other classes than", 1),
        (
            "iris",
            "weights",
            ["--weight", "w"],
            "'w' of .* must contain weights that are numbers .* got .-1. in line 2",
            1,
        ),
        ("iris", "weights", ["--weight", "zero"], "holds only zeros; mend", 1),
        ("iris", "weights", ["--weight", "v"], "has no column 'v'", 1),
        ("iris", "iris", ["--weight", "kind"], "'kind' is the column of the true classes", 2),
        ("iris", "iris", ["--weight", "petal width"], "'petal width' is a feature of the model", 2),
    ],
)
def test_bad_input_is_one_line_and_leaves_no_report(run, bad_tables, model, data, more, message, code):
    out = bad_tables / "report.html"
    more = [bad_tables / f"{word}.safetensors" if word in ("other", "cancer") else word for word in more]
    words = [bad_tables / f"{model}.safetensors", bad_tables / f"{data}.csv", "-t", "kind", "--report", out, *more]
    assert re.search(message, run("evaluate", *words, code=code).error)
    assert not out.exists()


def test_a_report_is_html_and_replaces_no_input(run, tables):
    words = ["evaluate", tables / "iris.safetensors", tables / "iris.csv", "-t", "kind", "--report"]
    assert "--report" in run(*words, "report.pdf", code=2).error
    link = tables / "iris.html"
    link.symlink_to(tables / "iris.csv")
    assert "would be replaced" in run(*words, link, code=2).error


def test_a_report_needs_all_rows_in_memory(run, tables, tmp_path):
    words = ["evaluate", tables / "iris.safetensors", tables / "iris.csv", "-t", "kind", "--stream"]
    assert "needs all rows in memory" in run(*words, "--report", tmp_path / "r.html", code=2).error
    assert not (tmp_path / "r.html").exists()


LOGISTIC = ["--model", "logistic", "--alpha", "0.01", "--quiet"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with text and one of numbers, and the same with other values."""
    path, rng, n = tmp_path_factory.mktemp("drift"), np.random.default_rng(0), 300
    frame = pd.DataFrame({"Job": rng.choice(["cook", "smith"], n), "Age": rng.normal(40, 10, n).round(1)})
    frame["paid"] = np.where((frame["Job"] == "cook") ^ (rng.random(n) < 0.2), "yes", "no")
    frame.to_csv(path / "train.csv", index=False)
    frame.assign(Job="baker", Age=frame["Age"] / 100).to_csv(path / "other.csv", index=False)
    frame.assign(Job=None).to_csv(path / "empty.csv", index=False)
    numbers = frame.drop(columns="Job")
    numbers.to_csv(path / "numbers.csv", index=False)
    numbers.assign(Age=numbers["Age"] / 100).to_csv(path / "other_numbers.csv", index=False)
    return path


@pytest.fixture
def models(run, folder):
    for name in ("train", "numbers"):
        model = folder / f"{name}.safetensors"
        if not model.exists():
            run("fit", folder / f"{name}.csv", "-t", "paid", "--out", model, *LOGISTIC)
    return folder


UNKNOWN = ["Job: 300 of 300 values unknown", "Age: 300 of 300 values below the usual range of the fit, "]
CASES = [
    ("train", "other", UNKNOWN),
    ("train", "empty", ["Job: 300 of 300 values missing"]),
    ("numbers", "other_numbers", ["Age: 300 of 300 values below the usual range of the fit, "]),
    ("train", "train", []),
    ("numbers", "numbers", []),
]


@pytest.mark.parametrize(("model", "data", "said"), CASES)
def test_predict_and_evaluate_say_so(run, models, tmp_path, model, data, said):
    files = [models / f"{model}.safetensors", models / f"{data}.csv"]
    for words in (["predict", *files, "--proba"], ["evaluate", *files, "-t", "paid"]):
        lines = run(*words).err.splitlines()
        assert len(lines) == len(said)
        assert all(line.startswith(f"warning: {start}") for line, start in zip(lines, said, strict=True))
        found = run(*words, "--json", "--quiet").json["drift"]
        assert [f"warning: {column['text']}" for column in found] == lines
        assert all((column["values"], column["of"]) == (300, 300) for column in found)
        assert run(*words, "--quiet").err == ""
    words = ["predict", *files, "--out", tmp_path / "p.csv", "--json"]
    assert run(*words).json["drift"] == found
    streamed = run(*words, "--stream")
    assert streamed.json["drift"] == found
    assert streamed.err.splitlines() == lines
    assert run("evaluate", *files, "-t", "paid", "--stream", "--json").json["drift"] == found
