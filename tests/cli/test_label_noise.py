"""Wrong labels on the command line: told or found, and which rows they are."""

import io

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import StratifiedKFold

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.cli.command_options import THRESHOLD
from legendretron.cli.summaries import choice_of, noise_in_words
from legendretron.cli.suspicious import FOLDS
from tests.cli.conftest import FIXED, make_iris

KINDS = np.array(["setosa", "versicolor", "virginica"])
LOGISTIC = ["--model", "logistic", "--seed", 0]


def make_noisy():
    """Flowers of which some have a wrong name, and which."""
    frame, rng = make_iris(), np.random.default_rng(0)
    wrong = rng.random(len(frame)) < 0.15
    true = np.searchsorted(KINDS, frame["kind"].to_numpy(dtype=str))
    frame["kind"] = KINDS[np.where(wrong, (true + rng.integers(1, 3, len(frame))) % 3, true)]
    return frame, wrong


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    path = tmp_path_factory.mktemp("noisy") / "noisy.csv"
    make_noisy()[0].to_csv(path, index=False)
    return path


def fit_words(noisy, tmp_path, *words):
    return ["fit", noisy, "-t", "kind", "-o", tmp_path / "m", *words]


def features_and_labels():
    frame, _ = make_noisy()
    return frame.drop(columns="kind"), frame["kind"].to_numpy(dtype=object)


def test_wrong_labels_are_found_and_listed(run, noisy, tmp_path):
    out = tmp_path / "suspicious.csv"
    words = fit_words(noisy, tmp_path, *LOGISTIC, "--label-noise", "auto")
    summary = run(*words, "--json").json
    listed = run("suspicious", tmp_path / "m", noisy, "-t", "kind", "-o", out, "--json").json
    X, y = features_and_labels()
    clf = MultinomialLogisticClassifier.load(tmp_path / "m")
    low, high = clf.noise_rate_interval_
    assert summary["label_noise"] == {
        "rate": clf.noise_rate_,
        "low": low,
        "high": high,
        "known": False,
        "predicted": "recorded labels",
    }
    assert low < 0.15 < high
    rows = pd.read_csv(out)
    assert (listed["suspicious"], listed["out"]) == (len(rows), str(out))
    # as in Python
    assert rows["row_from_0"].tolist() == clf.find_label_issues(X, y).tolist()
    assert np.allclose(rows["quality"], clf.label_quality(X, y, cv=5)[rows["row_from_0"]], rtol=1e-9)
    assert rows["label"].tolist() == y[rows["row_from_0"]].tolist()
    assert (rows["suggested"] != rows["label"]).mean() > 0.9
    assert rows["quality"].is_monotonic_increasing
    # most of the wrong labels, and few others; the suggestion is the true class
    wrong = make_noisy()[1]
    assert wrong[rows["row_from_0"]].mean() > 0.8
    assert wrong[rows["row_from_0"]].sum() > 0.8 * wrong.sum()
    true = make_iris()["kind"].to_numpy()
    assert (rows["suggested"] == true[rows["row_from_0"]]).mean() > 0.8

    printed = run(*words).out
    assert f"wrong labels: {noise_in_words(summary['label_noise'])}\n" in printed
    assert "predictions are of labels as they are recorded" in printed


def test_a_file_without_suspicious_rows(run, tmp_path):
    (tmp_path / "t.csv").write_text("a,kind\n" + "".join(f"{i},{'xy'[i > 9]}\n" for i in range(20) if i not in (9, 10)))
    out = tmp_path / "s.tsv"
    words = ["fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m", "--model", "logistic", "--alpha", 1e-3]
    assert run(*words, "--json").json["label_noise"] is None
    assert (
        run("suspicious", tmp_path / "m", tmp_path / "t.csv", "-t", "kind", "-o", out, "--json").json["suspicious"] == 0
    )
    assert out.read_text() == "line\trow_from_0\tlabel\tsuggested\tquality\n"


@pytest.mark.parametrize(("words", "given", "words_for_it"), [
    ([], "auto", None),  # penalties are given: nothing is tried
    (["--label-noise", "none"], None, None),
    (["--label-noise", "0.1"], 0.1, "10 %, as given"),
    (["--label-noise", "symmetric"], "symmetric", "about "),
    (["--label-noise", "class-conditional"], "class-conditional", "about "),
])  # fmt: skip
def test_the_option_reaches_the_estimator(run, noisy, tmp_path, words, given, words_for_it):
    ran = run(*fit_words(noisy, tmp_path, "--seed", 0, "--epochs", 10, *FIXED, *words))
    X, y = features_and_labels()
    settings = {} if not words else {"label_noise": given}
    clf = LegendreTronClassifier(alpha=1e-4, link_alpha=1e-4, max_epochs=10, random_state=0, **settings).fit(X, y)
    loaded = LegendreTronClassifier.load(tmp_path / "m")
    assert loaded.label_noise == given
    assert np.array_equal(loaded.predict_proba(X), clf.predict_proba(X))
    # probabilities of true classes are what predict writes
    printed = run("predict", tmp_path / "m", noisy, "--proba").out
    got = pd.read_csv(io.StringIO(printed), dtype=str).iloc[:, 1:].to_numpy().astype(float)
    np.testing.assert_allclose(got, clf.predict_proba(X), rtol=1e-12)  # by numpy, as the table is small
    assert ("wrong labels: " in ran.out) == (words_for_it is not None)
    assert words_for_it is None or f"wrong labels: {words_for_it}" in ran.out


MATRIX = {
    "setosa": {"setosa": 0.9, "versicolor": 0.1, "virginica": 0.0},
    "versicolor": {"setosa": 0.05, "versicolor": 0.75, "virginica": 0.2},
    "virginica": {"setosa": 0.0, "versicolor": 0.3, "virginica": 0.7},
}


@pytest.mark.parametrize("mark", [",", "\t", ", "])
def test_a_matrix_from_a_file(run, noisy, tmp_path, mark):
    """Names in any order."""
    order = ["virginica", "setosa", "versicolor"]
    lines = [["true", *reversed(order)], *([true, *(MATRIX[true][to] for to in reversed(order))] for true in order)]
    path = tmp_path / ("matrix.tsv" if mark == "\t" else "matrix.csv")
    path.write_text("\n".join(mark.join(map(str, line)) for line in lines) + "\n\n")
    summary = run(*fit_words(noisy, tmp_path, *LOGISTIC, "--alpha", 0.01, "--label-noise", path, "--json")).json
    clf = MultinomialLogisticClassifier.load(tmp_path / "m")
    wanted = [list(row.values()) for row in MATRIX.values()]
    assert np.allclose(clf.noise_matrix_, wanted, atol=1e-12)
    assert summary["parameters"]["label_noise"] == wanted
    assert summary["label_noise"]["known"]


NAMED = "-,setosa,versicolor,virginica\n"


@pytest.mark.parametrize(("text", "message"), [
    ("0.9,0.1\n0.1,0.9\n", "must have the names of the classes, 'setosa', 'versicolor', 'virginica', in its first row"),
    ("", "must have the names of the classes"),
    (NAMED + "setosa,0.9,0.1,0\nversicolor,0,1,0\nvirginica,0,0.5,0.4\n", "with sum 1, but line 4 is 'virginica,0,0.5,0.4'"),
    (NAMED + "setosa,0.9,0.1,0\nversicolor,0,1,0\nvirginica,0,1.5,-0.5\n", "but line 4 is 'virginica,0,1.5,-0.5'"),
    (NAMED + "setosa,0.9,0.1,0\nversicolor,0,1,0\nvirginica,0,a,b\n", "but line 4 is 'virginica,0,a,b'"),
    (NAMED + "setosa,1,0,0\nversicolor,0,1,0\nvirginica,0,1,0\n", "matrix must be invertible"),
    (NAMED.replace("versicolor", "rose") + "setosa,1,0,0\nversicolor,0,1,0\nvirginica,0,0,1\n", "'versicolor'"),
    (NAMED + "a,1,0,0\nb,0,1,0\nc,0,0,1\n", "'setosa' is not in its first column"),
    (NAMED + "setosa,1,0,0\nsetosa,1,0,0\nversicolor,0,1,0\nvirginica,0,0,1\n", "'setosa' is more than once"),
    (NAMED + "setosa,1,0,0\nversicolor,0,1,0\nvirginica,0,1\n", "but line 4 is 'virginica,0,1'"),
])  # fmt: skip
def test_bad_matrices_are_wrong_usage(run, noisy, tmp_path, text, message):
    (tmp_path / "matrix.csv").write_text(text)
    error = run(*fit_words(noisy, tmp_path, "--label-noise", tmp_path / "matrix.csv"), code=2).error
    assert "'--label-noise'" in error
    assert message in error
    assert not (tmp_path / "m").exists()


def test_other_wrong_usage(run, noisy, tmp_path):
    words = fit_words(noisy, tmp_path)
    for value in ("often", "1", "-0.1", "nan", "matrix.txt"):
        error = run(*words, f"--label-noise={value}", code=2).error
        assert "'--label-noise': it must be 'auto' or 'class-conditional' or 'symmetric' or a number" in error
        assert value in error
    error = run(*words, "--label-noise", 0.7, code=2).error
    assert "'--label-noise': it must be a share of wrong labels from 0 to below 0.667" in error
    assert "none.csv" in run(*words, "--label-noise", tmp_path / "none.csv", code=1).error
    matrix = tmp_path / "matrix.csv"
    matrix.write_text("content")
    error = run(*words, "--label-noise", matrix, "--tuning", matrix, code=2).error
    assert "is the file of --label-noise, which would be replaced" in error
    assert matrix.read_text() == "content"


def test_rows_that_cannot_be_judged(run, tmp_path):
    (tmp_path / "t.csv").write_text("a,kind\n" + "".join(f"{i},x\n" for i in range(9)) + "9,y\n")
    words = ["fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m", "--alpha", 0.1, "--model", "logistic"]
    run(*words, "--quiet")
    words = ["suspicious", tmp_path / "m", tmp_path / "t.csv", "-t", "kind"]
    assert run(*words, code=2).error.startswith("Invalid value for '--refit': class 'y' has one row")
    assert run(*words, "--no-refit").out.startswith("line,row_from_0,label,suggested,quality\n")


@pytest.fixture(scope="module")
def model(noisy, tmp_path_factory):
    X, y = features_and_labels()
    clf = MultinomialLogisticClassifier(alpha=1e-3, label_noise=0.15).fit(X, y)
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    clf.save(path)
    return path, clf


def test_suspicious_rows_of_a_finished_model(run, noisy, tmp_path, model):
    path, clf = model
    X, y = features_and_labels()
    words = ["suspicious", path, noisy, "-t", "kind"]
    printed = run(*words).out
    rows = pd.read_csv(io.StringIO(printed))
    assert (
        rows["row_from_0"].tolist()
        == clf.find_label_issues(X, y, cv=StratifiedKFold(FOLDS), threshold=THRESHOLD).tolist()
    )
    got = run(*words, "--json", "--keep", "kind").json
    assert got["kind"] == rows["label"].tolist()
    assert (got["rows"], got["suspicious"], got["threshold"], got["refit"]) == (150, len(rows), THRESHOLD, True)
    assert got["row_from_0"] == rows["row_from_0"].tolist()
    assert got["label_noise"]["known"]

    out, plot = tmp_path / "s.parquet", tmp_path / "s.svg"
    summary = run(*words, "--no-refit", "--threshold", 0.9, "-o", out, "--plot", plot, "--json").json
    frame = pd.read_parquet(out)
    assert frame["row_from_0"].tolist() == clf.find_label_issues(X, y, cv=None, threshold=0.9).tolist()
    assert np.allclose(frame["quality"], clf.label_quality(X, y, cv=None)[frame["row_from_0"]], rtol=1e-9)
    assert (summary["suspicious"], summary["out"], summary["plot"]) == (len(frame), str(out), str(plot))
    assert b"<svg" in plot.read_bytes()
    printed = run(*words, "--no-refit", "-o", tmp_path / "s.csv")
    assert "15 %, as given" in printed.out
    assert printed.err == ""


def test_suspicious_rows_are_found_in_the_file(run, tmp_path, model):
    """Lines are those of editors and errors, and columns are kept as they stand."""
    path, _ = model
    frame = make_noisy()[0]
    frame.insert(0, "id", [f"0{i}" for i in range(150)])
    frame.insert(1, "note", ["two\nlines", *[""] * 149])
    frame.to_csv(tmp_path / "a.csv", index=False)
    words = ["suspicious", path, tmp_path / "a.csv", "-t", "kind", "--no-refit", "--keep", "id", "--out"]
    run(*words, tmp_path / "s.csv")
    rows = pd.read_csv(tmp_path / "s.csv", dtype={"id": str})
    assert rows.columns.tolist() == ["id", "line", "row_from_0", "label", "suggested", "quality"]
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert len(rows) > 5
    assert rows["id"].tolist() == [f"0{row}" for row in rows["row_from_0"]]
    assert all(lines[line - 1].startswith(f"{name},") for line, name in zip(rows["line"], rows["id"], strict=True))
    assert run(*words, "-").out == (tmp_path / "s.csv").read_text()
    assert run(*words, "-", "--json").json["id"] == rows["id"].tolist()
    frame.to_parquet(tmp_path / "a.parquet")
    words[2] = tmp_path / "a.parquet"
    assert run(*words, "-").out.startswith("id,row_from_0,label,")
    frame.rename(columns={"id": "quality"}).to_csv(tmp_path / "a.csv", index=False)
    words = ["suspicious", path, tmp_path / "a.csv", "-t", "kind", "--no-refit", "--keep", "quality"]
    assert "'--keep': 'quality' is the name of a column of the result" in run(*words, code=2).error


class Fitted:
    """An estimator that has chosen a learned link."""

    alpha_, link_alpha_, noise_rate_ = 0.1, 0.01, 0.0

    def __init__(self, rows):
        names = ["model", "label_noise", "log_loss", "difference", "chosen"]
        self.tuning_ = pd.DataFrame(rows, columns=names)


def test_the_choice_names_what_a_link_was_compared_with():
    """Logistic regression with wrong labels, where that was better than without."""
    estimator = Fitted([
        ("learned link", 0.0, 0.4, -0.1, True),
        ("logistic regression", 0.1, 0.5, 0.0, False),
        ("logistic regression", 0.12, 0.45, -0.05, False),
        ("logistic regression", 0.0, 0.6, 0.1, False),
    ])  # fmt: skip
    choice = choice_of(estimator)
    assert choice["text"].endswith("0.400, logistic regression with wrong labels 0.500")
    assert choice["logistic_log_loss"] == 0.5
