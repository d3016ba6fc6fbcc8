"""Tables with text, dates and gaps from the command line."""

import datetime
import decimal
import io
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import legendretron
import mixed_tables as benchmark
from legendretron import LegendreCalibrator, MultinomialLogisticClassifier, TableClassifier
from legendretron.cli import fit as fit_module
from legendretron.cli.options import Missing, MissingLabels
from legendretron.datasets import tables
from legendretron.datasets.tables import MISSING, MISSING_LABELS

QUICK = ["--model", "logistic", "--alpha", "1e-3"]


def titanic():
    frame, y = benchmark.titanic()
    return frame.assign(survived=y)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with ``titanic.csv`` and a model fitted to it."""
    folder = tmp_path_factory.mktemp("mixed")
    titanic().to_csv(folder / "titanic.csv", index=False)
    words = ["fit", folder / "titanic.csv", "-t", "survived", "-o", folder / "model", "--quiet", *QUICK]
    assert legendretron.cli.main([str(word) for word in words]) == 0
    return folder


def test_fit_is_what_python_does(folder):
    model = legendretron.load(folder / "model")
    assert isinstance(model, TableClassifier)
    frame, y = benchmark.titanic()
    with (
        pytest.warns(UserWarning, match="column 'name' is left out"),
        pytest.warns(UserWarning, match=r"'home\.dest' has categories that differ only by case or white space"),
    ):
        expected = TableClassifier(model.estimator).fit(frame, y)
    np.testing.assert_array_equal(model.predict_proba(frame), expected.predict_proba(frame))


def test_summary_says_what_became_of_each_column(run, folder, tmp_path):
    words = ["fit", folder / "titanic.csv", "-t", "survived", "-o", tmp_path / "m", *QUICK]
    ran = run(*words)
    for column, becomes in {
        "name": "left out: nearly all values are different",
        "sex": "2 columns: female, male",
        "age": "itself; missing: mean (29.88) and an indicator column",
        "cabin": "32 columns: the 31 most frequent values, 156 others pooled",
        "embarked": "4 columns: C, Q, S, (missing)",
        "3 more": "itself",
    }.items():
        (line,) = (line for line in ran.out.splitlines() if line.startswith(f"│ {column} "))
        assert becomes in line
    warning, similar = ran.err.splitlines()
    assert "home.dest" in similar
    assert "differ only by case or white space" in similar
    assert "column 'name' is left out" in warning
    assert "--categorical name takes its most frequent values" in warning
    columns = {column["name"]: column for column in run(*words, "--json", "--drop", "name").json["columns"]}
    assert columns["age"] == {
        "name": "age", "kind": "number", "missing": 263, "features": 2, "pooled": 0,
        "becomes": "itself; missing: mean (29.88) and an indicator column",
    }  # fmt: skip
    assert "name" not in columns


def test_predict_evaluate_suspicious_and_calibrate(run, folder, tmp_path):
    data, model = folder / "titanic.csv", folder / "model"
    frame, y = benchmark.titanic()
    python = legendretron.load(model)
    p = run("predict", model, data, "--proba", "--keep", "ticket", "--keep", "name", "--out", tmp_path / "p.csv")
    assert p.err == ""
    written = pd.read_csv(tmp_path / "p.csv", dtype={"ticket": str})
    assert written.columns.tolist() == ["ticket", "name", "prediction", "p(0)", "p(1)"]
    assert written["ticket"].tolist() == frame["ticket"].tolist()
    np.testing.assert_allclose(written["p(1)"], python.predict_proba(frame)[:, 1], rtol=1e-12)
    assert run("evaluate", model, data, "-t", "survived", "--json").json["accuracy"] == python.score(frame, y)
    found = run("suspicious", model, data, "-t", "survived", "--no-refit", "--threshold", 0.9999, "--json").json
    assert found["rows"] == 1309
    run("calibrate", model, data, "-t", "survived", "-o", tmp_path / "c", "--quiet")
    calibrated = run("predict", tmp_path / "c", data, "--proba", "--json").json
    np.testing.assert_allclose(calibrated["p(1)"], legendretron.load(tmp_path / "c").predict_proba(frame)[:, 1])


def test_a_calibrator_that_has_fitted_a_classifier_of_tables_itself(run, folder, tmp_path):
    """Its classifier is not in a FrozenEstimator, as that of the command line is."""
    frame, y = benchmark.titanic()
    frame = frame[["sex", "age", "embarked", "fare"]]
    table = TableClassifier(MultinomialLogisticClassifier(alpha=1e-3))
    calibrator = LegendreCalibrator(table, cv=2).fit(frame, y)
    calibrator.save(tmp_path / "c")
    got = run("predict", tmp_path / "c", folder / "titanic.csv", "--proba", "--json").json
    np.testing.assert_allclose(got["p(1)"], calibrator.predict_proba(frame)[:, 1])


def test_unknown_categories_and_columns_that_were_left_out(run, folder, tmp_path):
    frame = titanic().drop(columns=["name", "survived"]).head(3).assign(embarked=["X", None, "S"], more="a word")
    frame.to_csv(tmp_path / "new.csv", index=False)
    got = run("predict", folder / "model", tmp_path / "new.csv", "--proba", "--json").json
    expected = legendretron.load(folder / "model").predict_proba(frame)
    np.testing.assert_allclose(got["p(1)"], expected[:, 1], rtol=1e-12)
    frame.drop(columns="sex").to_csv(tmp_path / "less.csv", index=False)
    assert "has no column 'sex'" in run("predict", folder / "model", tmp_path / "less.csv", code=1).error
    frame.assign(age=["old", "1", "2"]).to_csv(tmp_path / "text.csv", index=False)
    error = run("predict", folder / "model", tmp_path / "text.csv", code=1).error
    assert error.startswith(
        f"'{tmp_path / 'text.csv'}', line 2: column 'age' held numbers in the fit, but now holds the text 'old'"
    )


class _Stdin:
    def __init__(self, content):
        self.buffer = io.BytesIO(content)


def test_standard_input(run, folder, tmp_path, monkeypatch):
    content = (folder / "titanic.csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", _Stdin(content))
    run("fit", "-", "-t", "survived", "-o", tmp_path / "m", "--quiet", *QUICK)
    monkeypatch.setattr(sys, "stdin", _Stdin(content))
    from_pipe = run("predict", tmp_path / "m", "-", "--proba").out
    assert from_pipe == run("predict", folder / "model", folder / "titanic.csv", "--proba").out
    monkeypatch.setattr(sys, "stdin", _Stdin(b"a,b\n1,2\n"))
    error = run("predict", tmp_path / "m", "-", code=1).error
    assert error.startswith("standard input has no column 'pclass', 'sex'")
    titanic().to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(sys, "stdin", _Stdin((tmp_path / "t.parquet").read_bytes()))
    assert run("predict", folder / "model", "-", "--format", "parquet", "--proba").out == from_pipe


def test_messages_about_standard_input_name_no_other_file(run, tmp_path, monkeypatch):
    rows = "".join(f"{i % 7},{'rgb'[i % 3]},{'uvU'[i % 3]}\n" for i in range(30))
    for content, words, code, said in [
        (
            f"a,b,y\n{rows}".replace("r", "\xe9").encode("latin1"),
            ["-t", "y"],
            0,
            "standard input is not UTF-8 text (byte 0xe9",
        ),
        (f"a,b,y\n{rows}".encode(), ["-t", "y"], 0, "target column 'y' of standard input has labels that differ only"),
        (b"1 1:2\n2 1:1\n", ["--format", "libsvm", "--numeric", "a"], 2, "'--numeric': standard input is LIBSVM text"),
    ]:
        monkeypatch.setattr(sys, "stdin", _Stdin(content))
        ran = run("fit", "-", "-o", tmp_path / "m", *words, *QUICK, code=code)
        assert said in ran.err
        assert "legendretron-" not in ran.err


def test_text_as_others_write_it(run, folder, tmp_path):
    frame = titanic()
    frame.to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",", encoding="cp1252", na_rep="?")
    words = ["-t", "survived", "--na", "?", "--json"]
    expected = run("evaluate", folder / "model", folder / "titanic.csv", "-t", "survived", "--json").json
    assert run("evaluate", folder / "model", tmp_path / "t.csv", *words).json == expected
    given = ["--sep", ";", "--decimal", ",", "--encoding", "cp1252"]
    assert run("evaluate", folder / "model", tmp_path / "t.csv", *words, *given).json == expected
    run("fit", tmp_path / "t.csv", "-t", "survived", "--na", "?", "-o", tmp_path / "m", "--quiet", *QUICK)
    p, q = (legendretron.load(path).predict_proba(frame) for path in (tmp_path / "m", folder / "model"))
    np.testing.assert_allclose(p, q, rtol=1e-6)


def test_missing_values(run, tmp_path):
    table = pd.DataFrame({"a": [1.0, None, 3.0, 4.0] * 6, "b": range(24), "y": ["u", "v", "u", None] * 6})
    table.to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "m", *QUICK]
    error = run(*words, code=1).error
    assert "6 of 24 labels in target column 'y' of" in error
    assert "are missing (empty, NA, NaN, null and the like count as such), in line 5, line 9, line 13, ...; " in error
    assert "--missing-labels drop leaves those rows out" in error
    assert error == run(*words, "--missing", "drop-rows", code=1).error  # that is for features
    words += ["--missing-labels", "drop"]
    assert "missing values in columns" in run(*words, "--missing", "error", code=1).error
    assert "are all 'u'" in run(*words, "--missing", "drop-rows", "--quiet", code=1).error
    (tmp_path / "t.csv").write_text("a,b,y\n" + "1,2,u\n,3,v\n5,6,v\n7,8,\n" * 6)
    ran = run(*words, "--missing", "drop-rows", "--json")
    notes = ran.err.splitlines()
    assert {"6 rows without a label were left out", "6 rows with missing values were left out"} < set(notes)
    assert any("12 rows are hardly enough" in note for note in notes)
    assert (ran.json["rows"], ran.json["rows_left_out"], ran.json["rows_without_label"]) == (12, 12, 6)
    assert ran.json["columns"] is None
    # a model of numbers without gaps takes none
    assert "missing values in columns of" in run("predict", tmp_path / "m", tmp_path / "t.csv", code=1).error
    ran = run("predict", tmp_path / "m", tmp_path / "t.csv", "--missing", "drop-rows", "--keep", "b", "--json")
    assert ran.json["b"] == ["2", "6", "8"] * 6  # as it is written
    assert (ran.json["rows"], ran.json["rows_left_out"]) == (18, 6)
    assert ran.json["row_from_0"] == [row for row in range(24) if row % 4 != 1]
    words = ["predict", tmp_path / "m", tmp_path / "t.csv", "--missing", "drop-rows"]
    assert pd.read_csv(io.StringIO(run(*words).out)).columns.tolist() == ["row_from_0", "prediction"]
    drop = ["--missing", "drop-rows", "--missing-labels", "drop"]
    words = ["suspicious", tmp_path / "m", tmp_path / "t.csv", "-t", "y", "--no-refit", "--threshold", 1]
    rows = run(*words, *drop, "--json").json["row_from_0"]
    assert set(rows) <= {place for place in range(24) if place % 4 in (0, 2)}  # as they are in the file
    scores = run("evaluate", tmp_path / "m", tmp_path / "t.csv", "-t", "y", *drop, "--json").json
    assert (scores["rows"], scores["rows_left_out"], scores["rows_without_label"]) == (12, 12, 6)
    words = ["calibrate", tmp_path / "m", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "c", *drop]
    assert run(*words).err.startswith("6 rows without a label were left out\n6 rows with missing")


@pytest.mark.parametrize(("content", "message"), [
    ("a,y\n" + "".join(f"{i},u\n" for i in range(12)) + "?,v\n", "t.csv', line 14: column 'a' holds numbers, and the text "
     "'?' (1); if that stands for a missing value, read the file with --na '?'; "
     "if the numbers are names, give --categorical a."),
    ('a,y\n"1,5",u\n"2,5",v\n', "numbers written as '1,5'; read the file with --decimal ',', or give --categorical a"),
    ("a,b,y\n,1,u\n,2,v\n", None),
    ("a,y\n,u\n,v\n", "there is no column to learn from: 'a' (no values)"),
    ("a,b,y\n1,inf,u\n2,x,v\n", None),
    ("a,b,y\n1,inf,u\n,1,v\n", "t.csv': 'b', the first in line 2"),
    ("a,b,y\n3,x,u\n3,x,v\n", None),
    ("a,b,y\n1e300,x,u\n1e308,z,v\n", None),
])  # fmt: skip
def test_bad_tables(run, tmp_path, content, message):
    (tmp_path / "t.csv").write_text(content)
    words = ["fit", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "m", *QUICK]
    if message is None:
        run(*words)
        return
    error = run(*words, code=1).error
    assert message in error
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(("words", "message"), [
    (["--categorical", "towns"], "'--categorical': there is no column 'towns' among the features; there are a, b"),
    (["--categorical", "y"], "'--categorical': 'y' is the target"),
    (["--max-categories", "1"], "--max-categories"),
    (["--missing", "fill"], "--missing"),
])  # fmt: skip
def test_wrong_usage(run, tmp_path, words, message):
    (tmp_path / "t.csv").write_text("a,b,y\n1,u,0\n2,v,1\n")
    assert message in run("fit", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "m", *words, code=2).error


def test_names_that_predictions_have(run, folder, tmp_path):
    titanic().head(3).assign(prediction=1).to_csv(tmp_path / "t.csv", index=False)
    error = run("predict", folder / "model", tmp_path / "t.csv", "--keep", "prediction", code=2).error
    assert "'--keep': 'prediction' is the name of a column of predictions" in error


def test_options_are_those_of_the_library():
    assert tuple(Missing) == MISSING
    assert tuple(MissingLabels) == MISSING_LABELS
    assert legendretron.TableEncoder().max_categories == fit_module.FitOptions.max_categories


# --- numbers with leading zeros, and columns that are kept ---

CODES = "zip,a,y\n" + "00136,1.50,u\n80331,2,v\n00136,3,u\n,4,v\n" * 6


@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_leading_zeros_are_categories(run, tmp_path, stream):
    (tmp_path / "t.csv").write_text(CODES)
    words = ["fit", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "m", *QUICK, "--epochs", 20, *stream]
    ran = run(*words)
    (warning,) = ran.err.splitlines()
    assert "column 'zip' holds numbers with leading zeros, such as '00136', and is treated as categories" in warning
    assert "--categorical zip turns this remark off; --numeric zip makes them numbers." in warning
    names = legendretron.load(tmp_path / "m").encoder_.get_feature_names_out().tolist()
    assert names == ["zip=00136", "zip=80331", "zip is missing", "a"]
    got = run("predict", tmp_path / "m", tmp_path / "t.csv", "--json").json
    assert got["prediction"] == ["u", "v", "u", "v"] * 6
    assert run(*words, "--categorical", "zip").err == ""
    run(*words, "--categorical", "zip", "--max-categories", 2, "--quiet")
    assert legendretron.load(tmp_path / "m").estimator_.n_features_in_ == 3
    (tmp_path / "t.csv").write_text(CODES.replace("\n,4", "\n7,4"))
    run(*words, "--numeric", "zip")
    assert isinstance(legendretron.load(tmp_path / "m"), MultinomialLogisticClassifier)  # nothing is encoded


@pytest.mark.parametrize("text", [
    "a,y\n00.5,u\n1.5,v\n",  # numbers of a fixed width
    "a,y\n-01,u\n02,v\n",
    "a,y\n0,u\n10,v\n",
    "a,y\n0.01,01\n10,02\n",  # labels
])  # fmt: skip
def test_other_zeros_are_numbers(run, tmp_path, text):
    header, *rows = text.splitlines()
    (tmp_path / "t.csv").write_text("\n".join([header, *rows * 5]))
    run("fit", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "m", *QUICK)
    assert not isinstance(legendretron.load(tmp_path / "m"), TableClassifier)


def test_codes_longer_than_any_integer(run, tmp_path):
    (tmp_path / "t.csv").write_text(CODES.replace("00136", "0049891234567890123456"))
    run("fit", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "m", *QUICK, "--quiet")
    assert legendretron.load(tmp_path / "m").encoder_.columns_[0].categories[0] == "0049891234567890123456"


@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_columns_are_kept_as_they_are_written(run, tmp_path, stream):
    """Also a feature that is a number, and what would be a missing value."""
    (tmp_path / "t.csv").write_text("id,a,b,y\n" + "007,1.50,NA,u\nNA,02,1,v\n" * 10)
    run("fit", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "m", "--features", "a", "--numeric", "a", *QUICK)
    words = ["predict", tmp_path / "m", tmp_path / "t.csv", *stream, "--keep", "id", "--keep", "a", "--keep", "b"]
    lines = run(*words).out.splitlines()
    assert lines[:3] == ["id,a,b,prediction", "007,1.50,NA,u", "NA,02,1,v"]
    run(*words, "--out", tmp_path / "p.parquet", "--quiet")
    assert pd.read_parquet(tmp_path / "p.parquet").iloc[0].tolist() == ["007", "1.50", "NA", "u"]


@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_columns_of_parquet_keep_their_types(run, tmp_path, stream, monkeypatch):
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 7)
    table = pa.table({
        "a": pa.array([1.5, 2.5] * 10, pa.float32()), "id": pa.array([2**60 + row for row in range(19)] + [None]),
        "day": pa.array([datetime.date(2024, 5, 31)] * 20), "price": pa.array([decimal.Decimal("1.10")] * 20),
        "note": pa.array([None] * 15 + ["x"] * 5, pa.string()), "y": ["u", "v"] * 10,
    })  # fmt: skip
    pq.write_table(table, tmp_path / "t.parquet")
    run("fit", tmp_path / "t.parquet", "-t", "y", "-o", tmp_path / "m", "--features", "a", *QUICK)
    kept = ["id", "a", "day", "price", "note"]
    words = ["predict", tmp_path / "m", tmp_path / "t.parquet", *(word for name in kept for word in ("--keep", name))]
    run(*words, *stream, "--out", tmp_path / "p.parquet", "--quiet")
    written = pq.read_table(tmp_path / "p.parquet")
    assert written.select(kept).equals(table.select(kept))
    assert run(*words, *stream).out.splitlines()[1] == "1152921504606846976,1.5,2024-05-31,1.10,,u"
    if not stream:
        found = run(*words, "--json").json
        assert (found["id"][0], found["id"][-1]) == (2**60, None)
        assert (found["day"][0], found["price"][0]) == ("2024-05-31", "1.10")


def test_several_columns_in_one_word(run, folder):
    error = run("predict", folder / "model", folder / "titanic.csv", "--keep", "ticket,name", code=1).error
    assert "'ticket', 'name' are several columns: name each apart (on the command line, repeat the option)" in error


def test_weights_with_a_decimal_comma(run, tmp_path):
    rows = [f"{row},5;{1 + row % 3},5;{'uv'[row % 2]}\n" for row in range(20)]
    (tmp_path / "t.csv").write_text("a;w;y\n" + "".join(rows))
    run("fit", tmp_path / "t.csv", "-t", "y", "--drop", "w", "-o", tmp_path / "m", *QUICK)
    plain = [row.replace(",", ".").replace(";", ",") for row in rows]
    (tmp_path / "p.csv").write_text("a,w,y\n" + "".join(plain))
    found = [
        run("evaluate", tmp_path / "m", tmp_path / name, "-t", "y", "--weight", "w", "--json").json
        for name in ("t.csv", "p.csv")
    ]
    assert found[0] == found[1]
