"""Text files as others write them: separators, decimal marks, encodings, marks of gaps."""

import gzip

import numpy as np
import pandas as pd
import pytest

from legendretron.datasets.tables import has_only_numbers, read_columns, read_table
from legendretron.datasets.text_form import TextOptions, text_form

WRITTEN = {
    "plain": ("a,b,y\n1.5,2,u\n3,4,v\n", ("utf-8", ",", ".")),
    "semicolons": ("a;b;y\n1.5;2;u\n3;4;v\n", ("utf-8", ";", ".")),
    "decimal comma": ("a;b;y\n1,5;2;u\n3;4;v\n", ("utf-8", ";", ",")),
    "tabs": ("a\tb\ty\n1,5\t2\tu\n3\t4\tv\n", ("utf-8", "\t", ",")),
    "bars": ("a|b|y\n1.5|2|u\n3|4|v\n", ("utf-8", "|", ".")),
    "other marks in quotes": ('a,b,y\n1.5,2,"u;|"\n3,4,"v;|"\n', ("utf-8", ",", ".")),
    "a comma in a name": ('a;b;"y, or so"\n1.5;2;u\n3;4;v\n', ("utf-8", ";", ".")),
    "byte order mark": ("\ufeffa;b;y\n1.5;2;u\n3;4;v\n", ("utf-8", ";", ".")),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_guesses(tmp_path, name):
    text, form = WRITTEN[name]
    for end, pack in ((".csv", bytes), (".csv.gz", gzip.compress)):
        path = tmp_path / f"t{end}"
        path.write_bytes(pack(text.encode()))
        assert text_form(path, "csv", TextOptions()) == form
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
    ({"decimal": ",", "sep": ","}, "decimal and sep must be different"),
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
    with pytest.raises(ValueError, match=r"'y' of .* has 1 missing values .*leave those rows out .--missing drop-rows"):
        read_columns(path, "y")


def test_rows_with_gaps(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(MIXED)
    table = read_columns(path, "y", missing="drop-rows", keep=["id"])
    assert (table.rows.tolist(), table.left_out) == ([0], 3)
    assert table.y.tolist() == ["u"]
    assert table.kept["id"].tolist() == ["007"]
    assert read_columns(path, "y", features=["id"], missing="drop-rows").rows.tolist() == [0, 1, 2]
    with pytest.raises(
        ValueError, match=r"missing values in columns of .*: 'a' .1., 'city' .1., the first in line 3; fill"
    ):
        read_columns(path, "y", missing="error")
    with pytest.raises(ValueError, match="missing must be one of 'impute', 'drop-rows', 'error', got 'fill'"):
        read_columns(path, "y", missing="fill")
    path.write_text("a,y\n,u\n,v\n")
    with pytest.raises(ValueError, match=r"no row of .* is without a missing value"):
        read_columns(path, "y", missing="drop-rows")


def test_parquet_has_no_separators(tmp_path):
    frame = pd.DataFrame({"a": [1.0, None], "t": ["x", None], "y": [0, 1]})
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_columns(tmp_path / "t.parquet", "y", text=TextOptions(sep=";"))
    assert table.X["a"].isna().tolist() == table.X["t"].isna().tolist() == [False, True]
