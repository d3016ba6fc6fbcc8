"""Text files as others write them: separators, decimal marks, encodings, marks of gaps."""

import gzip

import numpy as np
import pandas as pd
import pytest

from legendretron.datasets.tables import has_only_numbers, read_columns, read_table
from legendretron.datasets.text_file import TextFile
from legendretron.datasets.text_form import TextOptions

WRITTEN = {
    "plain": ("a,b,y\n1.5,2,u\n3,4,v\n", ("utf-8", ",", ".", None)),
    "semicolons": ("a;b;y\n1.5;2;u\n3;4;v\n", ("utf-8", ";", ".", None)),
    "decimal comma": ("a;b;y\n1,5;2;u\n3;4;v\n", ("utf-8", ";", ",", None)),
    "tabs": ("a\tb\ty\n1,5\t2\tu\n3\t4\tv\n", ("utf-8", "\t", ",", None)),
    "bars": ("a|b|y\n1.5|2|u\n3|4|v\n", ("utf-8", "|", ".", None)),
    "other marks in quotes": ('a,b,y\n1.5,2,"u;|"\n3,4,"v;|"\n', ("utf-8", ",", ".", None)),
    "a comma in a name": ('a;b;"y, or so"\n1.5;2;u\n3;4;v\n', ("utf-8", ";", ".", None)),
    "byte order mark": ("\ufeffa;b;y\n1.5;2;u\n3;4;v\n", ("utf-8", ";", ".", None)),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_guesses(tmp_path, name):
    text, form = WRITTEN[name]
    for end, pack in ((".csv", bytes), (".csv.gz", gzip.compress)):
        path = tmp_path / f"t{end}"
        path.write_bytes(pack(text.encode()))
        assert TextFile.open(path, "csv").form == form
        table = read_table(path, features=["a", "b"])
        assert table.X.to_numpy().tolist() == [[1.5, 2], [3, 4]]


def test_utf_16(tmp_path):
    (tmp_path / "t.csv").write_text("a;y\n1,5;ü\n2,5;v\n", encoding="utf-16")
    table = read_table(tmp_path / "t.csv", "y")
    assert table.y.tolist() == ["ü", "v"]
    assert table.X["a"].tolist() == [1.5, 2.5]


def test_windows(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("a,y\n1,é\n2,€\n".encode("cp1252"))
    with pytest.warns(UserWarning, match=r"not UTF-8 text .byte 0xe9. and was read as Windows-1252; give encoding="):
        assert read_table(path, "y").y.tolist() == ["é", "€"]
    assert read_table(path, "y", text=TextOptions(encoding="cp1252")).y.tolist() == ["é", "€"]
    with pytest.raises(ValueError, match=r"is not text in utf-8 .byte 0xe9.; give its encoding, such as encoding="):
        read_table(path, "y", text=TextOptions(encoding="utf-8"))


def test_options_override_guesses(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a:b:y\n1,5:?:u\n2,5:1:v\n")
    table = read_columns(path, "y", text=TextOptions(sep=":", decimal=",", na=("?",)))
    assert table.X["a"].tolist() == [1.5, 2.5]
    assert np.isnan(table.X["b"][0])


@pytest.mark.parametrize(("options", "message"), [
    ({"sep": "::"}, "sep must be one character, such as ';', got '::'"),
    ({"decimal": "·"}, "decimal must be '.' or ','"),
    ({"decimal": ",", "sep": ","}, "decimal must differ from sep"),
    ({"thousands": "_"}, "thousands must be '.', ',', \"'\" or a space, got '_'"),
    ({"thousands": ".", "decimal": "."}, "thousands must differ from decimal, got '.' for both"),
    ({"encoding": "utf-99"}, "encoding must be one that Python knows, such as latin1, got 'utf-99'"),
])  # fmt: skip
def test_bad_options(tmp_path, options, message):
    (tmp_path / "t.csv").write_text("a,y\n1,u\n")
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "t.csv", "y", text=TextOptions(**options))


MIXED = "id,a,city,y\n007,1,Rome,u\n008,,Bern,v\n009,3,,u\n010,4,Rome,\n"


def test_columns_as_they_are(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(MIXED)
    table = read_columns(path, features=["a", "city"], keep=["id"])
    assert table.kept["id"].tolist() == ["007", "008", "009", "010"]
    assert read_columns(path, keep=["id"]).feature_names == ("a", "city", "y")
    assert not has_only_numbers(table)
    assert has_only_numbers(read_columns(path, features=["id"]))
    assert read_columns(path, features=["id"], as_text=["id"]).X["id"][0] == "007"
    with pytest.raises(
        ValueError, match=r"1 of 4 labels in target column 'y' of .* are missing .*, in line 5; missing_labels='drop'"
    ):
        read_columns(path, "y")


def test_rows_with_gaps(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(MIXED)
    table = read_columns(path, "y", missing="drop-rows", missing_labels="drop", keep=["id"])
    assert (table.rows.tolist(), table.left_out, table.unlabelled) == ([0], 2, 1)
    assert table.labels_left_out == {"u", "v"}
    assert table.y.tolist() == ["u"]
    assert table.kept["id"].tolist() == ["007"]
    table = read_columns(path, "y", missing_labels="drop")  # gaps in features stay
    assert (table.rows.tolist(), table.left_out, table.unlabelled) == ([0, 1, 2], 0, 1)
    assert read_columns(path, features=["id"], missing="drop-rows").rows.tolist() == [0, 1, 2, 3]
    with pytest.raises(
        ValueError, match=r"missing values in columns of .*: 'a' .1., 'city' .1., the first in line 3; fill"
    ):
        read_columns(path, "y", missing="error", missing_labels="drop")
    with pytest.raises(ValueError, match="missing must be one of 'impute', 'drop-rows', 'error', got 'fill'"):
        read_columns(path, "y", missing="fill")
    with pytest.raises(ValueError, match="missing_labels must be one of 'error', 'drop', got 'fill'"):
        read_columns(path, "y", missing_labels="fill")
    path.write_text("a,y\n1,\n2,NA\n")
    with pytest.raises(ValueError, match=r"no row of .* has a label"):
        read_columns(path, "y", missing_labels="drop")
    path.write_text("a,y\n,u\n,v\n")
    with pytest.raises(ValueError, match=r"no row of .* is without a missing value"):
        read_columns(path, "y", missing="drop-rows")


def test_parquet_has_no_separators(tmp_path):
    frame = pd.DataFrame({"a": [1.0, None], "t": ["x", None], "y": [0, 1]})
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_columns(tmp_path / "t.parquet", "y", text=TextOptions(sep=";"))
    assert table.X["a"].isna().tolist() == table.X["t"].isna().tolist() == [False, True]


@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_marks_of_missing_values_in_all_formats(tmp_path, end):
    frame = pd.DataFrame({"a": [1.5, -9.0], "b": ["?", "x"], "y": ["u ", " ? "]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_columns(tmp_path / f"t.{end}", "y", text=TextOptions(na=("?", "-9")), missing_labels="drop")
    assert (table.y.tolist(), table.unlabelled, table.X["b"].isna().tolist()) == (["u"], 1, [True])
    assert read_columns(tmp_path / f"t.{end}", text=TextOptions(na=("-9",))).X["a"].isna().tolist() == [False, True]


@pytest.mark.parametrize(("written", "options", "numbers"), [
    (["1.234,56", "12,5", "7", ""], {"thousands": "."}, [1234.56, 12.5, 7]),
    (["1.234", "12.500"], {"thousands": ".", "decimal": ","}, [1234, 12500]),
    (['"1,234.5"', "-7"], {"thousands": ","}, [1234.5, -7]),
    (["1 234", "1\u202f000 000"], {"thousands": " "}, [1234, 1000000]),
    (["31.12.2020", "1.1.2021"], {"thousands": "."}, None),
    (["12.5", "1.234,5"], {"thousands": "."}, None),
])  # fmt: skip
def test_thousands_that_are_set_apart(tmp_path, written, options, numbers):
    """Where all values of a column are written so; dates are none, nor is a number with a group of two digits."""
    (tmp_path / "t.csv").write_text("a;y\n" + "".join(f"{text};u\n" for text in written))
    a = read_columns(tmp_path / "t.csv", "y", text=TextOptions(sep=";", **options)).X["a"]
    assert a.dropna().tolist() == (written if numbers is None else numbers)
