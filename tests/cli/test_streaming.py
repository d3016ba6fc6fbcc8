"""Tables in several files, or too large for memory: read in batches."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import dump_svmlight_file, make_classification

from legendretron.datasets.streams import source_of
from tests.cli.conftest import FIXED

N = 400
QUICK = [*FIXED, "--epochs", "3", "--seed", "0", "--link-param", "hidden=2"]


def quick_fit(folder, *more):
    """The command for a fit to ``t.csv`` in a folder."""
    return ["fit", folder / "t.csv", "-t", "y", "-o", folder / "m", "--model", "logistic", "--alpha", 1, *more]


@pytest.fixture(scope="module")
def frame():
    X, y = make_classification(N, 4, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
    return pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(kind=np.array(["x", "y", "z"])[y])


#: Columns that are not for training.
OTHERS = ["--drop", "id"]


def write(frame, path):
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, row_group_size=30)
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")


@pytest.fixture(scope="module", params=[".parquet", ".csv", pytest.param(".tsv", marks=pytest.mark.exhaustive)])
def tables(request, frame, tmp_path_factory):
    """One file, and the same rows in several, of a format."""
    folder = tmp_path_factory.mktemp("tables")
    whole = folder / f"whole{request.param}"
    frame = frame.assign(id=np.arange(N) * 7)
    write(frame, whole)
    (folder / "parts").mkdir()
    for number, start in enumerate(range(0, N, 150)):
        write(frame.iloc[start : start + 150], folder / "parts" / f"part-{number}{request.param}")
    (folder / "parts" / "_SUCCESS").write_text("")
    return whole, folder / "parts"


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr("legendretron.datasets.tables.ROWS_AT_ONCE", 64)


def test_from_fit_to_evaluate(tables, frame, run, tmp_path, monkeypatch):
    monkeypatch.setattr("legendretron.cli.models._SMALL", 0)  # one file and several by the same operations
    whole, parts = tables
    pattern = parts / f"part-*{whole.suffix}"
    models = [tmp_path / f"{name}.safetensors" for name in ("whole", "streamed", "pattern")]
    found = [
        run("fit", data, "-o", model, "-t", "kind", *QUICK, *OTHERS, "--json", *more).json
        for data, model, more in zip((whole, whole, pattern), models, ([], ["--stream"], []), strict=True)
    ]
    for other in found[1:]:
        assert (other["rows"], other["classes"]) == (N, ["x", "y", "z"])
        assert other["log_loss"] == pytest.approx(found[0]["log_loss"], abs=1e-6)
        assert other["accuracy"] == found[0]["accuracy"]
    outs = [tmp_path / name for name in ("whole.csv", "parts.csv", "parts.parquet")]
    for data, out in zip((whole, parts, pattern), outs, strict=True):
        run("predict", models[1], data, "-o", out, "--proba", "--keep", "id")
    predicted = pd.read_csv(outs[0])
    pd.testing.assert_frame_equal(pd.read_csv(outs[1]), predicted)
    as_parquet = pd.read_parquet(outs[2]).astype({"id": int})  # of text, columns to keep stay as they are written
    pd.testing.assert_frame_equal(as_parquet, predicted, check_dtype=False)
    ran = run("predict", models[1], parts, "-o", outs[1])
    assert f"written to {outs[1]}\n" in ran.out  # on one line, however long
    assert run("predict", models[1], parts, "--json").json["prediction"] == predicted["prediction"].tolist()
    printed = run("predict", models[1], parts).out
    assert printed.splitlines() == ["prediction", *predicted["prediction"]]
    scores = [run("evaluate", models[1], data, "-t", "kind", "--json").json for data in (whole, parts)]
    assert scores[0] == scores[1]


def test_libsvm_text(frame, run, tmp_path):
    X, y = frame[["a", "b", "c", "d"]].to_numpy(), frame["kind"].astype("category").cat.codes
    dump_svmlight_file(X, y, str(tmp_path / "whole.libsvm"), zero_based=False)
    (tmp_path / "parts").mkdir()
    for number, rows in enumerate(np.array_split(np.arange(N), 3)):
        dump_svmlight_file(X[rows], y[rows], str(tmp_path / "parts" / f"{number}.libsvm"), zero_based=False)
    found = [
        run("fit", tmp_path / data, "-o", tmp_path / "model.safetensors", *QUICK, "--json").json
        for data in ("whole.libsvm", "parts")
    ]
    assert found[0]["log_loss"] == pytest.approx(found[1]["log_loss"], abs=1e-6)
    scores = [
        run("evaluate", tmp_path / "model.safetensors", tmp_path / data, "--json").json
        for data in ("whole.libsvm", "parts")
    ]
    assert scores[0]["log_loss"] == pytest.approx(scores[1]["log_loss"])
    assert scores[0]["classes"] == scores[1]["classes"]
    with (tmp_path / "parts" / "2.libsvm").open("a") as file:
        file.write("7 1:1\n")
    error = run("evaluate", tmp_path / "model.safetensors", tmp_path / "parts", code=1).error
    assert f"'{tmp_path / 'parts' / '2.libsvm'}' has labels that the model does not know: '7'" in error


def test_large_files_are_streamed_by_default(tables, run, tmp_path, monkeypatch):
    whole, _ = tables
    monkeypatch.setattr("legendretron.cli.models._LARGE", 1)
    options = ["-o", tmp_path / "model", "-t", "kind", *QUICK, *OTHERS]
    run("fit", whole, *options, "--skip-bad-rows", 1)
    run("fit", whole, *options, "--skip-bad-rows", 1, "--no-stream", code=2)


# --- what goes wrong: one line, which names the place, and nothing half written ---


def test_a_file_without_rows(run, tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n")
    assert "t.csv" in run("fit", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "model", "--stream", code=1).err


def test_shares_of_classes_are_for_fits_in_memory(run, tmp_path):
    (tmp_path / "t.csv").write_text("a,u,v\n1,0.5,0.5\n2,1,0\n3,0,1\n")
    ran = run("fit", tmp_path / "t.csv", "-t", "u,v", "-o", tmp_path / "model", "--stream", code=1)
    assert "'u', 'v' are several columns: shares of classes are only for a fit in memory" in ran.err


MIXED = "".join(f"{i % 7},{'rgb'[i % 3]},{'uv'[i % 2]}\n" for i in range(30))


def test_infinite_values_beside_text_are_bad_rows(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(f"a,b,y\n{MIXED}inf,r,u\n1e400,g,v\n")
    words = ["fit", "t.csv", "-t", "y", "-o", "model", "--model", "logistic", "--alpha", 0.01, "--stream"]
    assert "in columns of 't.csv': 'a', the first in line 32; replace them" in run(*words, code=1).error
    ran = run(*words, "--skip-bad-rows", 2, "--json")
    assert (ran.json["rows"], ran.json["rows_left_out"]) == (30, 2)
    assert "'t.csv', line 32: column 'a' holds an infinite value" in ran.err


def test_text_that_is_not_utf8_is_read_as_in_memory(run, tmp_path):
    (tmp_path / "t.csv").write_bytes(f"a,b,y\n{MIXED}".replace("r", "\xe9").encode("latin1"))
    words = ["fit", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "model", "--model", "logistic", "--alpha", 0.01]
    ran, streamed = run(*words, "--json"), run(*words, "--stream", "--json")
    for other in (ran, streamed):
        assert other.err.count("is not UTF-8 text (byte 0xe9 in line 2) and was read as Windows-1252") == 1
    assert ran.json["columns"] == streamed.json["columns"]
    assert ran.json["read_as"] == streamed.json["read_as"]
    assert "is not text in utf-8" in run(*words, "--stream", "--encoding", "utf-8", code=1).error
    for command in (["predict", "--proba"], ["evaluate", "-t", "y"]):
        words = [command[0], tmp_path / "model", tmp_path / "t.csv", *command[1:], "--json"]
        ran, streamed = run(*words), run(*words, "--stream")
        assert ran.json == streamed.json
        assert streamed.err == ran.err
        assert ran.err.count("was read as Windows-1252") == 1


@pytest.mark.parametrize("text", [True, False], ids=["with text", "numbers only"])
def test_utf8_with_a_bad_byte_is_refused_as_in_memory(run, tmp_path, text):
    rows = 9000 * (f"1,{'r' if text else 2},Zürich\n2,{'g' if text else 3},Bern\n").encode()
    (tmp_path / "t.csv").write_bytes(b"a,b,y\n" + rows + b"1,3,\xff\n" + rows)
    errors = [run(*quick_fit(tmp_path, *more), code=1).error for more in ([], ["--stream"])]
    assert "t.csv' is UTF-8 text up to line 18002, which holds the byte 0xff; repair that line" in errors[0]
    assert "--encoding cp1252" in errors[0]
    assert errors[1] == errors[0]
    assert not (tmp_path / "m").exists()


def test_labels_that_differ_by_case_in_another_file(run, tmp_path):
    (tmp_path / "parts").mkdir()
    for name, labels in (("0", "uv"), ("1", "UV")):
        (tmp_path / "parts" / f"{name}.csv").write_text(
            "a,y\n" + "".join(f"{i % 3},{labels[i % 2]}\n" for i in range(20))
        )
    words = [
        "fit",
        tmp_path / "parts",
        "-t",
        "y",
        "-o",
        tmp_path / "m",
        "--model",
        "logistic",
        "--alpha",
        1,
        "--epochs",
        1,
    ]
    assert f"target column 'y' of '{tmp_path / 'parts'}' has labels that differ only by case" in run(*words).err


@pytest.fixture
def broken(frame, tmp_path):
    """Twenty files, and how to break one of them."""
    folder = tmp_path / "shards"
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(N), 20)):
        write(frame.iloc[rows], folder / f"part-{number:02}.parquet")
    return folder


def fails(run, folder, tmp_path, *more, code=1):
    ran = run("fit", folder, "-o", tmp_path / "model.safetensors", "-t", "kind", *QUICK, *more, code=code)
    assert not (tmp_path / "model.safetensors").exists()
    assert list(tmp_path.glob(".*")) == []
    return ran.error


def cut_off(path, rows):
    path.write_bytes(path.read_bytes()[:-200])


def overwrite_the_middle(path, rows):
    content = bytearray(path.read_bytes())
    content[4:400] = bytes(396)
    path.write_bytes(content)


@pytest.mark.parametrize(("damage", "message"), [
    (cut_off, "' is damaged"),
    (overwrite_the_middle, "', row group 0"),
    (lambda path, rows: write(rows.assign(c="text"), path), "column 'c' changes its type"),
    (lambda path, rows: write(rows.drop(columns="c"), path), "' has no column 'c'"),
    (lambda path, rows: write(rows.assign(kind=rows["kind"].where(rows.index != 3)), path), "row 3 (from 0): the label is"),
])  # fmt: skip
def test_one_bad_file_of_many(broken, frame, run, tmp_path, damage, message):
    damage(broken / "part-17.parquet", frame.iloc[:20])
    error = fails(run, broken, tmp_path)
    assert message in error
    assert "part-17.parquet'" in error


def test_a_gap_in_shard_17(broken, frame, run, tmp_path):
    rows = frame.iloc[:50].copy()
    rows.loc[rows.index[41], "b"] = np.nan
    write(rows, broken / "part-17.parquet")
    error = fails(run, broken, tmp_path)
    assert f"'{broken / 'part-17.parquet'}', row group 1, row 41 (from 0): column 'b' holds a missing value" in error
    assert "--skip-bad-rows is the number of bad rows that may be left out, got 0" in error
    ran = run("fit", broken, "-o", tmp_path / "model", "-t", "kind", *QUICK, "--skip-bad-rows", "1", "--json")
    assert (ran.json["rows_left_out"], ran.json["rows"]) == (1, N + 29)
    out = tmp_path / "predictions.csv"
    error = run("predict", tmp_path / "model", broken, "-o", out, code=1).error
    place = "the first in row 41 (from 0)"
    assert f"missing values in columns of '{broken / 'part-17.parquet'}': 'b' (1), {place}" in error
    assert not out.exists()
    assert place in run("evaluate", tmp_path / "model", broken, "-t", "kind", code=1).error
    words = ["predict", tmp_path / "model", broken, "--missing", "drop-rows"]
    run(*words, "-o", out)
    # 17 files of 20 rows, and 50 rows, come before and in the one of which a row is left out
    assert pd.read_csv(out)["row_from_0"].tolist() == [row for row in range(N + 30) if row != 17 * 20 + 41]
    assert run(*words, "--json").json["rows_left_out"] == 1


@pytest.mark.parametrize("mixed", [False, True])
def test_marks_of_gaps_beside_bad_rows(mixed, frame, run, tmp_path):
    """A mark is a gap however the number is written, also among rows of which one holds a word."""
    frame = frame.assign(d=frame["d"].astype(object))
    frame.loc[[90, 91], "d"] = ["-999", "-999.0"]
    if mixed:
        frame = frame.assign(color=np.where(frame["a"] > 0, "red", "blue"))
    words = ["fit", tmp_path / "t.csv", "-t", "kind", *QUICK, "--na", "-999", "--missing", "drop-rows", "--json"]
    write(frame, tmp_path / "t.csv")
    ran = run(*words, "-o", tmp_path / "model")
    assert (ran.json["rows_left_out"], ran.json["rows"]) == (2, N - 2)
    frame.loc[95, "d"] = "word"
    write(frame, tmp_path / "t.csv")
    ran = run(*words, "-o", tmp_path / "model", "--stream", "--skip-bad-rows", 1)
    assert (ran.json["rows_left_out"], ran.json["rows"]) == (3, N - 3)
    assert "2 rows with missing values were left out" in ran.err
    for more in ([], ["--stream"]):  # a word is no gap
        assert "'word'" in run(*words, "-o", tmp_path / "model", *more, code=1).err


@pytest.mark.parametrize("mixed", [False, True])
def test_predictions_say_in_which_line(mixed, frame, run, tmp_path):
    """A word among numbers, and a label that is not known, beyond the first rows that are read, after fields of two lines."""
    frame = frame.assign(note="two\nlines", d=frame["d"].round(3))
    if mixed:
        frame = frame.assign(color=np.where(frame["a"] > 0, "red", "blue"))
    write(frame, tmp_path / "train.csv")
    run("fit", tmp_path / "train.csv", "-o", tmp_path / "model", "-t", "kind", "--drop", "note", *QUICK)
    line = 2 * 200 + 2
    write(frame.assign(d=frame["d"].astype(object).where(frame.index != 200, "word")), tmp_path / "word.csv")
    out = tmp_path / "predictions.csv"
    for words in (["predict", "-o", out], ["evaluate", "-t", "kind"]):
        error = run(words[0], tmp_path / "model", tmp_path / "word.csv", *words[1:], "--stream", code=1).error
        assert "'d'" in error
        assert "'word'" in error
        assert f"line {line}" in error
        assert str(tmp_path / "word.csv") in error
    write(frame.assign(kind=frame["kind"].where(frame.index != 200, "w")), tmp_path / "label.csv")
    error = run("evaluate", tmp_path / "model", tmp_path / "label.csv", "-t", "kind", "--stream", code=1).error
    assert f"does not know: 'w', the first in line {line}" in error
    assert sorted(tmp_path.iterdir()) == [tmp_path / name for name in ("label.csv", "model", "train.csv", "word.csv")]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_with_text_is_encoded_as_it_is_read(suffix, frame, run, tmp_path):
    """Categories and means come from all parts, labels such as 01 stay text if one of any part is."""
    mixed = frame.assign(
        color=np.where(frame["a"] > 0, "red", "blue"), kind=frame["kind"].map({"x": "1", "y": "2", "z": "03"})
    )
    mixed.loc[mixed.index[300:], "colour"] = "green"
    mixed.loc[mixed.index[[5, 350]], "b"] = np.nan
    folder = tmp_path / "parts"
    folder.mkdir()
    for number in range(2):
        rows = mixed.iloc[200 * number : 200 * (number + 1)]
        write(rows[~((rows["kind"] == "03") & (number == 0))], folder / f"{number}{suffix}")
    whole = pd.concat([mixed.iloc[:200][mixed.iloc[:200]["kind"] != "03"], mixed.iloc[200:]])
    write(whole, tmp_path / f"whole{suffix}")
    found = [
        run("fit", data, "-o", tmp_path / name, "-t", "kind", *QUICK, "--json").json
        for data, name in ((tmp_path / f"whole{suffix}", "whole"), (folder, "model"))
    ]
    assert found[0]["columns"] == found[1]["columns"]
    assert found[0]["classes"] == found[1]["classes"] == ["03", "1", "2"]
    assert found[1]["log_loss"] == pytest.approx(found[0]["log_loss"], abs=1e-5)
    probabilities = [
        pd.read_csv(io.StringIO(run("predict", tmp_path / "model", data, "--proba").out))
        for data in (tmp_path / f"whole{suffix}", folder)
    ]
    pd.testing.assert_frame_equal(*probabilities)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--solver", "lbfgs"], "'--solver': it cannot be 'lbfgs', which needs all rows at once"),
        (["--no-stream"], "is 20 files, which are read in batches"),
        (["--target", "nothing"], "has no target column 'nothing'"),
        (["--features", "kind"], "'kind' is the target"),
    ],
)
def test_wrong_options(words, message, broken, run, tmp_path):
    code = 1 if "nothing" in words else 2
    assert message in fails(run, broken, tmp_path, *words, code=code)


def test_files_that_are_not_there(run, tmp_path, broken):
    options = ["-o", tmp_path / "model", "-t", "kind"]
    assert "no file matches the pattern" in run("fit", tmp_path / "part-*.csv", *options, code=1).error
    (tmp_path / "empty").mkdir()
    assert "holds no table" in run("fit", tmp_path / "empty", *options, code=1).error
    (broken / "more.csv").write_text("a,kind\n1,x\n")
    assert "holds files of several formats" in run("fit", broken, *options, code=1).error


def test_no_part_is_replaced(broken, run):
    before = (broken / "part-03.parquet").read_bytes()
    ran = run("fit", broken, "-o", broken / "part-03.parquet", "-t", "kind", *QUICK, code=2)
    assert "'--out': " in ran.error
    assert "is the file of DATA, which would be replaced" in ran.error
    assert (broken / "part-03.parquet").read_bytes() == before


def test_json_lines_unlike_the_first(run, tmp_path):
    long = "long" * 100  # the first megabyte decides what columns there are
    lines = [f'{{"x": {i % 7}, "y": "{"ab"[i % 2]}", "long": "{long}"}}' for i in range(3000)]
    words = ["fit", tmp_path / "t.jsonl", "-t", "y", "-o", tmp_path / "m", "--stream", "--drop", "long"]
    words += ["--model", "logistic", "--alpha", 1, "--epochs", 2]
    lines[-1] = '{"x": 7.5, "y": "a"}'
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    assert run(*words, "--json").json["rows"] == 3000
    lines[-1] = '{"x": 7, "y": "a", "late": 1}'
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    with pytest.raises(ValueError, match="column 'late' is not in the first lines"):
        source_of(tmp_path / "t.jsonl", target="y")
    ran = run(*words, "--json")  # by an encoder, which looks at all lines first
    assert (ran.json["rows"], ran.json["features"]) == (3000, 3)
    assert run(*words, "--drop", "late", "--json").json["features"] == 1


def test_json_lines_unlike_those_before_are_located_in_the_file(run, tmp_path):
    lines = [f'{{"x": {i % 7}, "y": "{"ab"[i % 2]}", "long": "{"long" * 100}"}}' for i in range(3000)]
    words = ["fit", tmp_path / "t.jsonl", "-t", "y", "-o", tmp_path / "m", "--stream", "--drop", "long", "--alpha", 1]
    for line, fault in (
        ('{"x": "oops", "y": "a"}', "column 'x' holds 'oops', which is not a number"),
        ('{"x": 1, "y": 2}', "column 'y' holds 2, which is not text"),
        ('{"x": 1, "x": 2, "y": "a"}', "a name occurs twice"),
    ):
        (tmp_path / "t.jsonl").write_text("\n".join([*lines, line]))
        assert f"'{tmp_path / 't.jsonl'}', line 3001: {fault}" in run(*words, code=1).error


def test_a_column_without_values_is_left_out(run, tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n" + "".join(f"{row % 7},,{row % 2}\n" for row in range(40)))
    words = quick_fit(tmp_path, "--json")
    for more in ([], ["--stream"]):
        ran = run(*words, *more)
        assert ran.json["features"] == 1
        assert "column 'b' is left out: it has no values" in ran.err


@pytest.mark.parametrize("shade", ["", ",blue"])  # text among the features, which is encoded
def test_labels_are_text_if_those_of_any_part_are(run, tmp_path, monkeypatch, shade):
    monkeypatch.setattr("legendretron.datasets.tables.ROWS_AT_ONCE", 10)
    words = quick_fit(tmp_path, "--stream")
    fractions = "".join(f"{row % 7},{row % 2}.5{shade}\n" for row in range(40))
    (tmp_path / "t.csv").write_text(f"x,y{shade}\n{fractions}3,high{shade}\n")
    assert run(*words, "--json").json["classes"] == ["0.5", "1.5", "high"]
    assert run("evaluate", tmp_path / "m", tmp_path / "t.csv", "-t", "y", "--stream", "--json").json["rows"] == 41
    (tmp_path / "t.csv").write_text(f"x,y{shade}\n{fractions}")
    assert "5, which is not a whole number" in run(*words, code=1).err


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("text", [False, True])  # among the features
def test_files_with_other_ways_to_write_two_labels(run, tmp_path, suffix, text):
    for number, labels in enumerate(([0, 1], [False, True])):
        table = pd.DataFrame({"x": np.arange(40) % 7, "y": np.array(labels)[np.arange(40) % 2]})
        write(table.assign(color=["red", "blue"] * 20) if text else table, tmp_path / f"{number}{suffix}")
    error = run(*quick_fit(tmp_path)[:1], tmp_path, *quick_fit(tmp_path)[2:], code=1).error
    assert str(tmp_path / f"0{suffix}") in error
    assert str(tmp_path / f"1{suffix}") in error


@pytest.mark.parametrize("text", [False, True])  # among the features
def test_codes_in_a_later_file(run, tmp_path, text):
    """In memory they would be categories; nothing in the first rows tells that they are no numbers."""
    for number, form in enumerate(("{}", "{:03}")):
        table = pd.DataFrame(
            {"zip": [form.format(100 * (1 - number) + row % 7) for row in range(40)], "y": [0, 1] * 20}
        )
        write(table.assign(color=["red", "blue"] * 20) if text else table, tmp_path / f"{number}.csv")
    words = ["fit", tmp_path, *quick_fit(tmp_path)[2:]]
    error = run(*words, code=1).error
    assert f"'{tmp_path / '1.csv'}', line 2: column 'zip' holds '000'" in error
    assert "give --categorical zip if they are names, or --numeric zip" in error
    assert run(*words, "--numeric", "zip", "--json").json["features"] == (3 if text else 1)
    assert run(*words, "--categorical", "zip", "--json").json["features"] == (16 if text else 14)


@pytest.mark.parametrize("at", [3, 33])
def test_a_word_among_numbers_is_a_bad_row_wherever_it_is(run, tmp_path, monkeypatch, at):
    monkeypatch.setattr("legendretron.datasets.tables.ROWS_AT_ONCE", 10)
    lines = [f"{row % 7},{'red' if row % 3 else 'blue'},{row % 2}" for row in range(40)]
    lines[at] = "oops,red,1"
    (tmp_path / "t.csv").write_text("\n".join(["x,color,y", *lines]))
    words = quick_fit(tmp_path, "--stream")
    ran = run(*words, "--skip-bad-rows", 1, "--json")
    assert ran.json["rows"] == 39
    assert f"line {at + 2}: column 'x' holds 'oops', which is not a number" in ran.err
    assert "'x'" in run(*words, code=1).err


def test_a_fit_does_not_warn_of_batches_unlike_the_whole_table(run, tmp_path):
    """Of a sorted table, no batch is like the others: a tenth of all values is missing, but all of the last ones."""
    lines = [f"{row},{'' if row > 360 else 'red' if row % 3 else 'blue'},{row % 2}" for row in range(400)]
    (tmp_path / "t.csv").write_text("\n".join(["x,color,y", *lines]))
    for more in ([], ["--stream"]):
        ran = run(*quick_fit(tmp_path, *more))
        assert "unlike" not in ran.err
    ran = run("predict", tmp_path / "m", tmp_path / "t.csv", "--stream", "--json")
    assert ran.json["drift"] == []
