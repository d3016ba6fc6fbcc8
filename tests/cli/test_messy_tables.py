"""Twelve kinds of messy table, as people have them, from the command line: what is read, what is said, what is refused."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import legendretron
from legendretron.datasets import tables

QUICK = ["--model", "logistic", "--alpha", "1e-3", "--seed", "0"]
STREAM = pytest.mark.parametrize("stream", [[], ["--stream"]], ids=["whole", "in batches"])
FORMATS = pytest.mark.parametrize("end", ["csv", "parquet", "feather", "jsonl"])
N = 120


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 50)


def customers():
    """Numbers and text with a gap here and there, and three classes."""
    rng = np.random.default_rng(0)
    age = rng.normal(40, 10, N).round(1)
    city = rng.choice(["Rome", "Bern", "Oslo"], N)
    label = np.where(age + 10 * (city == "Rome") + rng.normal(0, 5, N) > 45, "Yes", "No").astype(object)
    label[::10] = "Maybe"
    return pd.DataFrame({"age": age, "city": city, "answer": label})


def write(frame, path):
    writers = {
        ".csv": lambda: frame.to_csv(path, index=False),
        ".parquet": lambda: frame.to_parquet(path),
        ".feather": lambda: frame.to_feather(path),
        ".jsonl": lambda: frame.to_json(path, orient="records", lines=True),
        ".xlsx": lambda: frame.to_excel(path, index=False),
    }
    writers[path.suffix]()
    return path


def fit(run, tmp_path, data, *more, code=0):
    few = ["--epochs", "2"] if "--stream" in more else []
    return run("fit", data, "-t", "answer", "-o", tmp_path / "model", *QUICK, *few, "--json", *more, code=code)


def encoded(tmp_path):
    """Names of what the fitted model takes."""
    return legendretron.load(tmp_path / "model").encoder_.get_feature_names_out().tolist()


@STREAM
@FORMATS
def test_missing_labels(run, tmp_path, stream, end):
    """Rows without a label are left out, and no others."""
    frame = customers()
    frame.loc[[3, 40, 77, 78, 100], "answer"] = [None, None, None, " ", None]
    frame.loc[5:30, "age"] = None
    data = write(frame, tmp_path / f"t.{end}")
    error = fit(run, tmp_path, data, *stream, code=1).error
    assert "--missing-labels drop leaves" in error
    assert "drop-rows" not in error
    if not stream:
        assert error.startswith("5 of 120 labels in target column 'answer' of")
        assert {"csv": "line 5, line 42, line 79, ..."}.get(end, "row 3 (from 0)") in error
    ran = fit(run, tmp_path, data, "--missing-labels", "drop", *stream)
    assert "5 rows without a label were left out" in ran.err
    assert (ran.json["rows"], ran.json["rows_without_label"], ran.json["rows_left_out"]) == (N - 5, 5, 5)
    words = ["evaluate", tmp_path / "model", data, "-t", "answer", *stream]
    assert "--missing-labels drop leaves" in run(*words, code=1).error
    ran = run(*words, "--missing-labels", "drop", "--json")
    assert (ran.json["rows"], ran.json["rows_without_label"]) == (N - 5, 5)
    assert ran.err == "5 rows without a label were left out\n"


@pytest.mark.parametrize(("text", "stream"), [(True, []), (True, ["--stream"]), (False, [])])
def test_a_last_line_of_totals(run, tmp_path, stream, text):
    """A word in a row that is left out does not make text of the numbers above it."""
    frame = customers() if text else customers().drop(columns="city").assign(more=1.5)
    frame["size"] = frame["age"].round()
    write(frame, data := tmp_path / "t.csv")
    expected = fit(run, tmp_path, data, *stream).json
    with open(data, "a") as file:
        file.write("Total" + "," * (frame.shape[1] - 2) + ",4800\n")
    assert "1 of 121 labels" in fit(run, tmp_path, data, code=1).error
    found = fit(run, tmp_path, data, "--missing-labels", "drop", *stream).json
    assert found["log_loss"] == pytest.approx(expected["log_loss"], rel=1e-9)
    assert found["rows_without_label"] == 1
    scores = run(
        "evaluate", tmp_path / "model", data, "-t", "answer", "--missing-labels", "drop", "--json", *stream
    ).json
    assert scores["log_loss"] == pytest.approx(expected["log_loss"], rel=1e-9)
    coded = fit(run, tmp_path, data, "--missing-labels", "drop", "--categorical", "age", *stream).json
    assert next(column["kind"] for column in coded["columns"] if column["name"] == "age") == "categories"


@STREAM
@pytest.mark.parametrize("text", [True, False], ids=["with text", "numbers only"])
def test_a_class_that_vanishes_with_dropped_rows(run, tmp_path, stream, text):
    frame = customers() if text else customers().drop(columns="city").assign(more=1.5)
    frame.loc[frame["answer"] == "Maybe", "age"] = None
    data = write(frame, tmp_path / "t.csv")
    ran = fit(run, tmp_path, data, "--missing", "drop-rows", *stream)
    assert "warning: all rows of class 'Maybe' " in ran.err
    assert ran.json["classes"] == ["No", "Yes"]
    error = run("evaluate", tmp_path / "model", data, "-t", "answer", *stream, code=1).error
    assert "does not know: 'Maybe'" in error or "missing values" in error


@STREAM
@FORMATS
@pytest.mark.parametrize("text", [True, False], ids=["with text", "numbers only"])
def test_white_space(run, tmp_path, stream, end, text):
    """It makes no classes, categories or columns, in any format: one table gives one model."""
    clean = customers() if text else customers().drop(columns="city")
    spaced = clean.copy()
    for name in spaced.columns.drop("age"):
        places = np.arange(N) % 3
        spaced[name] = np.where(
            places == 1, spaced[name] + "  ", np.where(places == 2, " " + spaced[name], spaced[name])
        )
    data = write(spaced.rename(columns={"age": " age", "answer": "answer\t" if end != "csv" else "answer "}),
                 tmp_path / f"t.{end}")  # fmt: skip
    ran = fit(run, tmp_path, data, *stream)
    assert ran.json["classes"] == ["Maybe", "No", "Yes"]
    assert "warning" not in ran.err
    p = run("predict", tmp_path / "model", data, "--proba", "--json", *([] if not stream else ["--no-stream"])).json
    expected = fit(run, tmp_path, write(clean, tmp_path / "clean.parquet"), *stream).json
    assert ran.json["log_loss"] == pytest.approx(expected["log_loss"], rel=1e-9)
    of_clean = run("predict", tmp_path / "model", tmp_path / "clean.parquet", "--proba", "--json").json
    np.testing.assert_allclose(p["p(Yes)"], of_clean["p(Yes)"], rtol=1e-9)
    scores = run("evaluate", tmp_path / "model", data, "-t", "answer", "--json", *stream).json
    assert scores["rows"] == N


def test_white_space_in_the_classes_of_a_model_from_python(run, tmp_path):
    frame = customers()
    frame["answer"] = " " + frame["answer"]
    legendretron.TableClassifier(legendretron.MultinomialLogisticClassifier(alpha=1e-3)).fit(
        frame[["age", "city"]], frame["answer"]
    ).save(tmp_path / "model")
    data = write(frame, tmp_path / "t.csv")
    assert run("evaluate", tmp_path / "model", data, "-t", "answer", "--json").json["rows"] == N


@STREAM
@pytest.mark.parametrize("text", [True, False], ids=["with text", "numbers only"])
def test_labels_that_differ_by_case(run, tmp_path, stream, text):
    frame = customers() if text else customers().drop(columns="city")
    frame.loc[::7, "answer"] = frame.loc[::7, "answer"].str.lower()
    ran = fit(run, tmp_path, write(frame, tmp_path / "t.csv"), *stream)
    assert f"target column 'answer' of '{tmp_path / 't.csv'}' has labels that differ only by case or white" in ran.err
    assert "'Yes' and 'yes'" in ran.err
    new = write(frame.assign(answer=frame["answer"].str.upper()), tmp_path / "new.csv")
    error = run("evaluate", tmp_path / "model", new, "-t", "answer", *stream, code=1).error
    assert "; 'MAYBE' differs from 'Maybe' only by case or white space." in error


@STREAM
@pytest.mark.parametrize(("column", "word"), [("since", "31/02/2023"), ("since", "unknown"), ("age", "?")])
def test_a_stray_text_among_numbers_or_dates(run, tmp_path, stream, column, word):
    """The error says where it is, and its advice works."""
    frame = customers().assign(
        since=(pd.Timestamp("2023-01-01") + pd.to_timedelta(np.arange(N), "D")).strftime("%d/%m/%Y")
    )
    frame[column] = frame[column].astype(object)
    frame.loc[3, column] = word
    data = write(frame, tmp_path / "t.csv")
    error = fit(run, tmp_path, data, *stream, code=1).error
    what = "dates" if column == "since" else "numbers"
    assert error.startswith(f"'{data}', line 5: column '{column}' holds {what}, and the")
    assert f"and the text '{word}' (1); if that stands for a missing value, read the file with --na" in error
    found = fit(run, tmp_path, data, "--na", word, *stream).json
    kinds = {column["name"]: (column["kind"], column["missing"]) for column in found["columns"]}
    assert kinds["age"] == ("number", int(column == "age"))
    assert kinds["since"] == ("day-first date", int(column == "since"))


@STREAM
@pytest.mark.parametrize("text", [True, False], ids=["with text", "numbers only"])
def test_dates_written_as_numbers_are_named(run, tmp_path, stream, text):
    frame = customers() if text else customers().drop(columns="city")
    days = (pd.Timestamp("2023-01-01") + pd.to_timedelta(np.arange(N), "D")).strftime("%Y%m%d").astype(int)
    ran = fit(run, tmp_path, write(frame.assign(since=days), tmp_path / "t.csv"), *stream)
    assert ran.err.count("column 'since' seems to hold dates written as numbers, such as 20230101, and is used as") == 1


@STREAM
@pytest.mark.parametrize("text", [True, False], ids=["with text", "numbers only"])
def test_thousands_with_points(run, tmp_path, stream, text):
    """What the advice says works, here and for predictions."""
    rng = np.random.default_rng(0)
    price = rng.uniform(100, 5000, N).round(2)
    frame = pd.DataFrame({"price": [f"{value:,.2f}".translate({44: ".", 46: ","}) for value in price]})
    frame = frame.assign(answer=np.where(price > 2000, "Yes", "No"), **({"city": "Rome"} if text else {}))
    frame.to_csv(tmp_path / "t.csv", index=False, sep=";")
    data = tmp_path / "t.csv"
    for more in ([], ["--decimal", ","]):
        error = fit(run, tmp_path, data, *stream, *more, code=1).error
        assert "column 'price' holds numbers written as '" in error
        assert "; read the file with --decimal ',' and --thousands '.', or give --categorical price" in error
    marks = ["--decimal", ",", "--thousands", "."]
    plain = fit(run, tmp_path, write(frame.assign(price=price), tmp_path / "plain.csv"), *stream).json
    found = fit(run, tmp_path, data, *stream, *marks).json
    assert found["log_loss"] == pytest.approx(plain["log_loss"], rel=1e-9)
    assert found["read_as"][0]["thousands"] == "."
    error = run("predict", tmp_path / "model", data, "--decimal", ",", code=1).error
    assert "--decimal ',' and --thousands '.'" in error
    words = ["evaluate", tmp_path / "model", data, "-t", "answer", *marks, *stream, "--json"]
    assert run(*words).json["log_loss"] == pytest.approx(plain["log_loss"], rel=1e-9)


@STREAM
@pytest.mark.parametrize("end", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize("text", [True, False], ids=["with text", "numbers only"])
def test_points_that_separate_thousands_are_no_decimal_points(run, tmp_path, stream, end, text):
    """With decimal commas they are no numbers, neither in a fit nor for a model that was fitted to plain numbers."""
    frame = customers().assign(price=1000 + 25 * np.arange(N))
    frame = frame.drop(columns=["age"] if text else ["age", "city"])
    plain = write(frame, tmp_path / "plain.csv")
    data = write(
        frame.assign(price=[f"{price:,}".replace(",", ".") for price in frame["price"]]), tmp_path / f"t.{end}"
    )
    decimal, thousands = ["--decimal", ","], ["--thousands", "."]
    if end == "csv":
        data.write_text(data.read_text().replace(",", ";"))
    error = fit(run, tmp_path, data, *decimal, *stream, code=1).error
    assert "such as '1.000'; read the file with --decimal ',' and --thousands '.' if points separate thousands" in error
    expected = fit(run, tmp_path, plain, *stream).json["log_loss"]
    assert fit(run, tmp_path, data, *decimal, *thousands, *stream).json["log_loss"] == pytest.approx(expected, rel=1e-9)
    for model in (plain, data):
        fit(run, tmp_path, model, *(decimal + thousands if model == data else []))
        words = ["evaluate", tmp_path / "model", data, "-t", "answer", *decimal, *stream]
        assert "(such as '1.000'), the first in " in (error := run(*words, code=1).error)
        assert "; read the file with --decimal ',' and --thousands '.', correct them" in error
        assert run(*words, *thousands, "--json").json["rows"] == N


def test_a_point_in_a_bad_row(run, tmp_path):
    rows = "".join(f"{i % 7},5;{i};{'uv'[i % 2]}\n" for i in range(30))
    (tmp_path / "t.csv").write_text(f"a;b;answer\n{rows}1,5;3.432;u\n")
    ran = fit(run, tmp_path, tmp_path / "t.csv", "--decimal", ",", "--stream", "--skip-bad-rows", 1)
    assert (
        "column 'b' holds '3.432', which is not a number, unless the file is read with --decimal ',' and --th"
        in ran.err
    )


@STREAM
@pytest.mark.parametrize("end", ["parquet", "feather", "jsonl"])
def test_decimal_commas_in_text_of_typed_files(run, tmp_path, stream, end):
    """The same advice works in formats whose values have types."""
    frame = customers()
    frame.loc[3, "age"] = None
    written = frame.assign(age=[None if np.isnan(age) else str(age).replace(".", ",") for age in frame["age"]])
    data = write(written, tmp_path / f"t.{end}")
    assert "holds numbers written as " in (error := fit(run, tmp_path, data, *stream, code=1).error)
    assert "; read the file with --decimal ','" in error
    found = fit(run, tmp_path, data, *stream, "--decimal", ",").json
    scores = run("evaluate", tmp_path / "model", data, "-t", "answer", "--decimal", ",", "--json", *stream).json
    expected = fit(run, tmp_path, write(frame, tmp_path / "plain.parquet"), *stream).json
    assert found["log_loss"] == pytest.approx(expected["log_loss"], rel=1e-9)
    assert scores["log_loss"] == pytest.approx(expected["log_loss"], rel=1e-9)
    assert "'--decimal'" in fit(run, tmp_path, data, *stream, "--decimal", ";", code=2).error


@STREAM
@FORMATS
@pytest.mark.parametrize("decimal", [False, True])
def test_codes_that_are_too_long_for_numbers(run, tmp_path, stream, end, decimal):
    frame, classes = customers().drop(columns="city"), ["Maybe", "No", "Yes"]
    codes, ids = [2**60 + classes.index(answer) for answer in frame["answer"]], 2**60 + np.arange(N)
    if decimal and end in ("parquet", "feather"):
        codes, ids = [Decimal(code) for code in codes], [Decimal(int(number)) for number in ids]
    elif decimal:
        pytest.skip("there are no decimals in text")
    data = write(frame.assign(code=codes, id=ids), tmp_path / f"t.{end}")
    ran = fit(run, tmp_path, data, *stream)
    kinds = {column["name"]: column["kind"] for column in ran.json["columns"]}
    assert kinds == {"age": "number", "code": "categories", "id": "identifier"}
    assert (
        "column 'code' holds numbers too long to be told apart in double precision, such as '1152921504606846"
        in ran.err
    )
    words = ["evaluate", tmp_path / "model", data, "-t", "answer", "--json", *stream]
    assert run(*words).json["log_loss"] == pytest.approx(ran.json["log_loss"], rel=1e-9)
    found = fit(run, tmp_path, data, "--numeric", "code", "--drop", "id", *stream).json
    assert found["features"] == 2


@STREAM
@pytest.mark.parametrize("end", ["csv", "parquet", "jsonl"])
def test_leading_zeros_in_rows_that_are_kept(run, tmp_path, stream, end):
    """Rows that are left out do not turn codes into numbers; on demand they are numbers in each format."""
    frame = customers().drop(columns="city").assign(zip=["007", "008", "012"] * (N // 3))
    frame.loc[3, "answer"] = None
    data = write(frame, tmp_path / f"t.{end}")
    for more, kinds in (([], {"age": "number", "zip": "categories"}), (["--numeric", "zip"], None)):
        found = fit(run, tmp_path, data, "--missing-labels", "drop", *more, *stream).json
        assert found["features"] == (4 if kinds else 2)
        assert kinds in (None, {column["name"]: column["kind"] for column in found["columns"] or ()})


@STREAM
@FORMATS
def test_other_formats(run, tmp_path, stream, end):
    """One table gives one model, whatever the format."""
    frame = customers()
    frame.loc[[1, 2], "city"] = None
    found = fit(run, tmp_path, write(frame, tmp_path / f"t.{end}"), *stream).json
    expected = fit(run, tmp_path, write(frame, tmp_path / "t.csv"), *stream).json
    assert found["log_loss"] == pytest.approx(expected["log_loss"], rel=1e-9)
    assert found["classes"] == expected["classes"]
    words = ["predict", tmp_path / "model", tmp_path / f"t.{end}", "--keep", "age", "-o", tmp_path / "p.csv", *stream]
    run(*words, "--quiet")
    assert pd.read_csv(tmp_path / "p.csv")["age"].tolist() == frame["age"].tolist()


def test_excel(run, tmp_path):
    frame = customers().assign(since=pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(N), "D"))
    frame.loc[3, "answer"] = None
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        frame.rename(columns={"city": "city "}).to_excel(book, sheet_name="Data", index=False)
        frame.to_excel(book, sheet_name="Notes")
    error = run("fit", tmp_path / "t.xlsx", "-t", "answer", "-o", tmp_path / "model", *QUICK, "--quiet", code=1).error
    assert "1 of 120 labels in target column 'answer'" in error
    assert "in row 5 of the sheet" in error
    ran = fit(run, tmp_path, tmp_path / "t.xlsx", "--missing-labels", "drop")
    assert "has 2 sheets, of which the first is read, 'Data'" in ran.err
    kinds = {column["name"]: column["kind"] for column in ran.json["columns"]}
    assert kinds == {"age": "number", "city": "categories", "since": "date"}
    run("predict", tmp_path / "model", tmp_path / "t.xlsx", "--quiet", "-o", tmp_path / "p.csv")
    (tmp_path / "broken.xlsx").write_bytes(b"PK\x03\x04")
    error = run("predict", tmp_path / "model", tmp_path / "broken.xlsx", code=1).error
    assert "broken.xlsx' is damaged or not an Excel file" in error


def test_words_in_excel(run, tmp_path):
    """As in Parquet, a text such as NA is a value; empty cells, and those that hold an error of the sheet, are missing."""
    frame = customers().assign(wall=(["None", "NA", "Brick"] * N)[:N])
    expected = fit(run, tmp_path, write(frame, tmp_path / "t.parquet")).json["columns"]
    assert fit(run, tmp_path, write(frame, tmp_path / "t.xlsx")).json["columns"] == expected
    wall = next(column for column in expected if column["name"] == "wall")
    assert (wall["missing"], wall["becomes"]) == (0, "3 columns: Brick, NA, None")
    frame["age"] = frame["age"].astype(object)
    frame.loc[[3, 4, 5], "age"] = ["NA", None, "#N/A"]
    frame.loc[6, "wall"] = None
    data = write(frame, tmp_path / "t.xlsx")
    error = fit(run, tmp_path, data, code=1).error
    assert "('NA'), which have no common meaning; if that is a missing value, read the file with --na NA; or" in error
    found = fit(run, tmp_path, data, "--na", "NA").json["columns"]
    missing = {column["name"]: column["missing"] for column in found}
    assert missing == {"age": 3, "city": 0, "wall": N // 3 + 1}
    words = ["evaluate", tmp_path / "model", data, "-t", "answer", "--na", "NA", "--json"]
    assert run(*words).json["rows"] == N


def test_formats_that_are_not_read(run, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    (tmp_path / "us.xlsx").write_bytes(b"PK\x03\x04")
    words = ["-t", "y", "-o", tmp_path / "model"]
    error = run("fit", tmp_path / "us.xlsx", *words, code=1).error
    assert "us.xlsx', an Excel file, needs openpyxl: pip install 'legendretron[excel]'; or save it as CSV." in error
    error = run("fit", tmp_path / "us.dta", *words, code=2).error
    assert "us.dta' does not tell its format; give one of csv, " in error
    (tmp_path / "us.jsonl").write_text('{"a": 1, "y": "u"}\nnot JSON\n')
    assert (
        "us.jsonl' is not JSON with an object in each line: line 2: Expecting value"
        in run("fit", tmp_path / "us.jsonl", *words, code=1).error
    )
    (tmp_path / "us.jsonl").write_text('[{"a": 1, "y": "u"}, {"a": 2, "y": "v"}]')
    for more in ([], ["--stream"]):
        error = run("fit", tmp_path / "us.jsonl", *words, *more, code=1).error
        assert "line 1 holds an array. Write each row in a line of its own" in error
    (tmp_path / "us.feather").write_text("a,y\n1,u\n")
    assert "us.feather' is damaged or not a Feather file" in run("fit", tmp_path / "us.feather", *words, code=1).error
