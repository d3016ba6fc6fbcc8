"""From a table to a model to predictions: exactly what the estimators do in Python."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier, load
from tests.cli.conftest import FIXED, make_cancer, make_iris

FRAMES = {"iris": (make_iris, "kind"), "cancer": (make_cancer, "malignant")}
FAST = {"max_epochs": 15, "random_state": 0, "alpha": 1e-4, "link_alpha": 1e-4}


def in_python(name, estimator=None, **parameters):
    make, target = FRAMES[name]
    frame = make()
    X = frame.drop(columns=target)
    y = frame[target].to_numpy(dtype=object if name == "iris" else None)
    settings = {**FAST, **parameters}
    if estimator is not None:
        settings.pop("link_alpha")
    return (estimator or LegendreTronClassifier)(**settings).fit(X, y), X


@pytest.mark.parametrize("name", FRAMES)
def test_predictions_are_those_of_python(run, tables, name, monkeypatch):
    quick = run("predict", tables / f"{name}.safetensors", tables / f"{name}.csv", "--proba").out
    monkeypatch.setattr("legendretron.cli.models._SMALL", 0)  # by the estimator itself, as in Python
    printed = run("predict", tables / f"{name}.safetensors", tables / f"{name}.csv", "--proba").out
    got = pd.read_csv(io.StringIO(printed), dtype=str)
    clf, X = in_python(name)
    assert got["prediction"].tolist() == clf.predict(X).astype(str).tolist()
    assert list(got.columns) == ["prediction", *(f"p({label})" for label in clf.classes_)]
    # as text, since older versions of pandas do not read the last digit of a number as it is written
    assert np.array_equal(got.iloc[:, 1:].to_numpy().astype(float), clf.predict_proba(X))
    by_numpy = pd.read_csv(io.StringIO(quick), dtype={"prediction": str})
    assert by_numpy["prediction"].equals(got["prediction"])
    np.testing.assert_allclose(by_numpy.iloc[:, 1:], clf.predict_proba(X), rtol=1e-12)


@pytest.mark.parametrize(("words", "estimator", "parameters"), [
    (["--link", "canonical", "--link-param", "n_nests=3"], None, {"link": "canonical", "link_params": {"n_nests": 3}}),
    (["--link-param", "hidden=3", "--link-param", "depth=2"], None, {"link_params": {"hidden": 3, "depth": 2}}),
    (["--alpha", "0.01", "--link-alpha", "0.1"], None, {"alpha": 0.01, "link_alpha": 0.1}),
    (["--learning-rate", "0.05", "--batch-size", "32"], None, {"learning_rate": 0.05, "batch_size": 32}),
    (["--class-weight", "balanced", "--no-standardize"], None, {"class_weight": "balanced", "standardize": False}),
    (["--dtype", "float32", "--device", "cpu"], None, {"dtype": "float32"}),
    (["--validation", "0.3"], None, {"early_stopping": 0.3}),
    (["--model", "logistic", "--solver", "adam"], MultinomialLogisticClassifier, {"solver": "adam"}),
    (["--alpha", "auto", "--link-alpha", "0.01", "--cv", "3"], None, {"alpha": "auto", "link_alpha": 0.01, "cv": 3}),
    (["--learning-rate", "auto", "--solver", "auto"], None, {}),
    (["--link-alpha", "auto", "--epochs", "3"], None, {"link_alpha": "auto", "max_epochs": 3}),
    (["--model", "logistic", "--alpha", "auto", "--epochs", "auto"], MultinomialLogisticClassifier,
     {"alpha": "auto", "max_epochs": "auto"}),
])  # fmt: skip
def test_every_option_reaches_the_estimator(run, tables, tmp_path, words, estimator, parameters):
    out = tmp_path / "m.safetensors"
    fast = ["--epochs", 15, "--seed", 0, *(FIXED if estimator is None else FIXED[:2])]
    summary = run("fit", tables / "iris.csv", "-t", "kind", "-o", out, *fast, *words, "--json").json
    clf, X = in_python("iris", estimator, **parameters)
    loaded = (estimator or LegendreTronClassifier).load(out)
    assert loaded.get_params() == clf.get_params()
    assert np.array_equal(loaded.predict_proba(X), clf.predict_proba(X))
    assert summary["parameters"]["alpha"] == clf.alpha
    assert summary["choice"]["text"].endswith(", as given") == (not hasattr(clf, "tuning_"))
    assert summary["choice"]["alpha"] == clf.alpha_
    assert (summary["epochs"], summary["steps"]) == (clf.n_iter_, None)


def test_summary(run, tables, tmp_path):
    out = tmp_path / "m.safetensors"
    words = ["fit", tables / "iris.csv", "-t", "kind", "-o", out, "--epochs", 30, "--seed", 0, *FIXED]
    words += ["--validation", 0.2]
    summary = run(*words, "--json").json
    clf, X = in_python("iris", max_epochs=30, early_stopping=0.2)
    assert summary["rows"] == 150
    assert summary["features"] == 4
    assert summary["classes"] == ["setosa", "versicolor", "virginica"]
    assert summary["accuracy"] == clf.score(X, make_iris()["kind"])
    best = np.nanargmin(clf.history_["validation_loss"])
    assert summary["held_out"]["log_loss"] == clf.history_["validation_loss"][best]
    assert summary["out"] == str(out)
    printed = run(*words).out
    for part in ("150, 4", "3: setosa, versicolor, virginica", f"{summary['held_out']['log_loss']:.4f}", str(out)):
        assert part in printed
    assert run(*words, "--quiet") == (0, "", "")


def test_columns_are_found_by_name(run, tables, tmp_path):
    model = tables / "iris.safetensors"
    as_it_was = run("predict", model, tables / "iris.csv").out
    frame = make_iris()
    shuffled = frame[["petal width", "sepal length", "petal length", "sepal width"]].assign(note="a word")
    shuffled.to_csv(tmp_path / "shuffled.csv", index=False)
    assert run("predict", model, tmp_path / "shuffled.csv").out == as_it_was
    frame.drop(columns=["sepal width", "petal width"]).to_csv(tmp_path / "less.csv", index=False)
    error = run("predict", model, tmp_path / "less.csv", code=1).error
    assert "no column 'sepal width', 'petal width'" in error


def write_libsvm(frame, target, path):
    from sklearn.datasets import dump_svmlight_file

    dump_svmlight_file(frame.drop(columns=target).to_numpy(), frame[target].to_numpy(), str(path), zero_based=False)


def test_all_formats_give_the_same_model(run, tables, tmp_path):
    frame = make_cancer()
    # LIBSVM text is written with 16 digits; what it holds then is what all of them shall hold
    frame[list("abcdef")] = frame[list("abcdef")].round(3)
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "a.csv.gz", index=False)
    frame.to_csv(tmp_path / "a.tsv.xz", index=False, sep="\t")
    frame.to_parquet(tmp_path / "a.parquet")
    write_libsvm(frame, "malignant", tmp_path / "a.libsvm")
    for end in ("csv", "csv.gz", "tsv.xz", "parquet", "libsvm"):
        target = [] if end == "libsvm" else ["-t", "malignant"]
        run("fit", tmp_path / f"a.{end}", *target, "-o", tmp_path / end, "--epochs", 3, "--seed", 0, *FIXED)
    models = [LegendreTronClassifier.load(tmp_path / e) for e in ("csv", "csv.gz", "tsv.xz", "parquet", "libsvm")]
    for model in models:
        assert np.array_equal(model.coef_, models[0].coef_)
        assert model.classes_.tolist() == [0, 1]
        assert model.classes_.dtype == np.int64
    # and each predicts from the files of the others
    printed = run("predict", tmp_path / "csv", tmp_path / "a.csv", "--proba").out
    assert run("predict", tmp_path / "csv", tmp_path / "a.libsvm", "--proba").out == printed
    frame.drop(columns="malignant").to_csv(tmp_path / "b.csv", index=False)
    assert run("predict", tmp_path / "libsvm", tmp_path / "b.csv", "--proba").out == printed
    error = run("predict", tmp_path / "libsvm", tmp_path / "a.csv", code=1).error
    assert "6 features without names" in error
    ran = run("evaluate", tmp_path / "csv", tmp_path / "a.libsvm", "--target", "malignant")
    assert ran.err == "warning: target 'malignant' is ignored: in LIBSVM text each line begins with its label.\n"


@pytest.mark.parametrize("end", ["csv", pytest.param("tsv", marks=pytest.mark.exhaustive), "parquet"])
def test_predictions_in_a_file(run, tables, tmp_path, end):
    out = tmp_path / f"p.{end}"
    summary = run("predict", tables / "iris.safetensors", tables / "iris.csv", "--out", out, "--proba", "--json").json
    assert summary == {
        "rows": 150,
        "rows_left_out": 0,
        "drift": [],
        "out": str(out),
        "columns": ["prediction", "p(setosa)", "p(versicolor)", "p(virginica)"],
    }
    frame = pd.read_parquet(out) if end == "parquet" else pd.read_csv(out, sep="\t" if end == "tsv" else ",")
    clf, X = in_python("iris")
    assert frame["prediction"].tolist() == clf.predict(X).tolist()
    assert np.allclose(frame["p(virginica)"], clf.predict_proba(X)[:, 2], rtol=1e-12)
    printed = run("predict", tables / "iris.safetensors", tables / "iris.csv", "--out", out).out
    assert str((clf.predict(X) == "setosa").sum()) in printed


@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_predictions_on_standard_output(run, tables, monkeypatch, tmp_path, stream):
    monkeypatch.chdir(tmp_path)
    words = ["predict", tables / "iris.safetensors", tables / "iris.csv", "--proba", *stream]
    assert run(*words, "--out", "-").out == run(*words).out
    assert not (tmp_path / "-").exists()


def small_table(path, rows, **columns):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=rows), "y": np.array(["Ja, sicher", "Nein"])[np.arange(rows) % 2]})
    frame.assign(**columns).to_csv(path, index=False)


LOGISTIC = ["--model", "logistic", "--alpha", "0.1"]


@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_few_rows_are_worth_a_word(run, tmp_path, stream):
    small_table(tmp_path / "t.csv", 3)
    words = ["fit", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "m", *LOGISTIC, *stream]
    three, one = run(*words).err.splitlines()
    assert three.startswith("warning: 3 rows are hardly enough to learn from")
    assert one.startswith("warning: there is only one row of 'Nein': ")
    small_table(tmp_path / "t.csv", 30, y=["u", *["v", "w"] * 14, "w"])
    (one,) = run(*words).err.splitlines()
    assert one.startswith("warning: there is only one row of 'u': ")
    small_table(tmp_path / "t.csv", 30)
    assert run(*words).err == ""


@pytest.mark.parametrize("stream", [(), ("--stream",)])
def test_prediction_sets(run, tables, tmp_path, stream):
    run("fit", tables / "iris.csv", "-t", "kind", "-o", tmp_path / "m", "--model", "logistic", "--seed", 0)
    words = ["predict", tmp_path / "m", tables / "iris.csv", "--sets", 0.99]
    run(*words, *stream, "--out", tmp_path / "sets.csv")
    got = pd.read_csv(tmp_path / "sets.csv")
    clf = load(tmp_path / "m")
    assert list(got.columns) == ["prediction", *(f"set({label})" for label in clf.classes_)]
    assert np.array_equal(got.iloc[:, 1:], clf.predict_set(make_iris().drop(columns="kind"), 0.99))
    assert run(*words, "--json").json["set(setosa)"] == got["set(setosa)"].tolist()


def test_columns_of_shares(run, tmp_path):
    frame = make_iris()
    X, labels = frame.drop(columns="kind"), np.unique(frame["kind"])
    shares = pd.DataFrame(0.8 * (frame["kind"].to_numpy()[:, None] == labels) + 0.2 / 3, columns=labels)
    X.join(shares.round(4)).to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", tmp_path / "t.csv", "--target", ",".join(labels[::-1]), "--model", "logistic", "--alpha", 0.01]
    told = run(*words, "-o", tmp_path / "m", "--json").json
    clf = load(tmp_path / "m")
    assert clf.classes_.tolist() == labels.tolist() == told["classes"]
    same = MultinomialLogisticClassifier(alpha=0.01).fit(X, shares)
    np.testing.assert_allclose(clf.predict_proba(X), same.predict_proba(X), atol=1e-3)
    assert told["rows"] == 150
    assert told["log_loss"] == pytest.approx(-(shares.to_numpy() * same.predict_log_proba(X)).sum(1).mean(), abs=1e-3)
    words[3] = f"{labels[0]},{labels[1]}"
    error = run(*words, "-o", tmp_path / "m", code=1).error
    assert (
        "t.csv', must have a column for each class, whose shares sum to 1 in each row, but those of line 2 sum" in error
    )
    words[3] = f"{labels[0]},nothing"
    assert "there is no column 'nothing'" in run(*words, "-o", tmp_path / "m", code=2).err


@pytest.mark.parametrize(("row", "message"), [
    ("5,-0.2,1.2", "must contain shares of the classes, from 0 to 1, got [-0.2, 1.2] in line 22."),
    ("5,few,1", "must contain shares of the classes, from 0 to 1, got ['few', 1.0] in line 22."),
    ("5,2,3", "if these are votes, divide each row by their number; if a row may have"),
    ("5,,1", "1 of 21 rows of 't.csv' lack a share of a class in columns 'u', 'v', the first in line 22"),
])  # fmt: skip
def test_bad_shares_are_named_by_line(run, tmp_path, monkeypatch, row, message):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i},{int(i < 10)},{int(i >= 10)}\n" for i in range(20))
    Path("t.csv").write_text(f"a,u,v\n{rows}{row}\n")
    words = ["fit", "t.csv", "--target", "u,v", "--model", "logistic", "--alpha", 0.01, "-o", "m"]
    error = run(*words, code=1).error
    assert message in error
    if row == "5,,1":
        summary = run(*words, "--missing-labels", "drop", "--json").json
        assert (summary["rows"], summary["rows_without_label"]) == (20, 1)


def test_the_summary_of_shares_says_how_much_they_agree(run, tmp_path):
    """And not that no wrong labels were found, which says nothing about votes."""
    frame = make_iris()
    X = frame.drop(columns="kind")
    teacher = MultinomialLogisticClassifier(alpha=0.01).fit(X, frame["kind"])
    shares = pd.DataFrame(teacher.predict_proba(X), columns=teacher.classes_)
    X.join(shares).to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", tmp_path / "t.csv", "--target", ",".join(shares), "--model", "logistic", "-o", tmp_path / "m"]
    words += ["--label-noise", "auto", "--alpha", 0.1]
    printed = run(*words).out
    assert (
        f"shares: the leading class of a row has {shares.max(axis=1).mean():.0%}".replace("%", " % on average")
        in printed
    )
    assert "wrong labels" not in printed
    summary = run(*words, "--json").json
    assert summary["leading_share"] == pytest.approx(shares.max(axis=1).mean())
    assert summary["label_noise"] is None


def test_sets_that_cannot_be_predicted(run, tables):
    words = ["predict", tables / "iris.safetensors", tables / "iris.csv", "--sets"]
    assert "has no held-out predictions" in run(*words, 0.9, code=2).err
    assert "fit it without --alpha" in run(*words, 0.9, code=2).err


def test_a_calibrator_of_given_strength_has_no_sets(run, tables, tmp_path):
    run(
        "calibrate",
        tables / "iris.safetensors",
        tables / "iris.csv",
        "-t",
        "kind",
        "-o",
        tmp_path / "c",
        "--strength",
        1,
    )
    error = run("predict", tmp_path / "c", tables / "iris.csv", "--sets", 0.9, code=2).err
    assert "its strength was given; calibrate again without --strength" in error


@pytest.mark.parametrize(
    ("labels", "part"), [("true,false,maybe", "true,false"), ("1.0,2.0,a", "1.0,2.0"), ("01,02,3", "3")]
)
def test_a_file_with_some_of_the_labels_is_evaluated(run, tmp_path, labels, part):
    """Alone they may read as truth values or numbers; the model knows them as they are written."""
    for name, words in (("train", labels), ("test", part)):
        rows = [f"{i % 7},{i % 5},{word}" for i in range(12) for word in words.split(",")]
        (tmp_path / f"{name}.csv").write_text("a,b,kind\n" + "\n".join(rows) + "\n")
    run("fit", tmp_path / "train.csv", "-t", "kind", "-o", tmp_path / "model", "--epochs", 2)
    scores = run("evaluate", tmp_path / "model", tmp_path / "test.csv", "-t", "kind", "--json").json
    assert scores["rows"] == 12 * len(part.split(","))
    known = run("predict", tmp_path / "model", tmp_path / "train.csv", "--json").json["prediction"]
    assert set(known) <= set(labels.split(","))


# --- what was chosen, and what was tried ---


def test_logistic_regression_is_chosen_where_a_link_is_not_better(run, tables, tmp_path):
    words = ["fit", tables / "iris.csv", "-t", "kind", "-o", tmp_path / "m", "--seed", 0, "--epochs", 2]
    ran = run(*words, "--tuning", tmp_path / "t.svg")
    assert "model: logistic regression, alpha " in ran.out
    assert ": a learned link was not better by more than its standard error\n" in ran.out
    assert str(tmp_path / "t.svg") in ran.out
    assert b"<svg" in (tmp_path / "t.svg").read_bytes()
    choice = run(*words, "--json").json["choice"]
    assert choice["link_alpha"] is None
    assert choice["log_loss"] == choice["logistic_log_loss"]


def test_only_logistic_regression(run, tables, tmp_path):
    words = ["fit", tables / "iris.csv", "-t", "kind", "-o", tmp_path / "m", "--model", "logistic"]
    choice = run(*words, "--tuning", tmp_path / "t.parquet", "--json").json["choice"]
    assert choice["text"].endswith(f"; log-loss on held-out rows {choice['log_loss']:.3f}")
    assert choice["logistic_log_loss"] is None
    assert len(pd.read_parquet(tmp_path / "t.parquet")) > 2


def test_too_few_rows_to_choose(run, tmp_path):
    (tmp_path / "t.csv").write_text("a,kind\n1,x\n2,y\n3,z\n")
    words = ["fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m"]
    choice = run(*words, "--json").json["choice"]
    assert choice["text"].endswith(": there are too few rows to try others")
    assert choice["log_loss"] is None
    error = run(*words, "--tuning", tmp_path / "t.png", "--quiet", code=1).error
    assert error.endswith("there were too few rows to hold any out; fit to more rows, or give --alpha.")
