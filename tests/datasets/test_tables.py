"""Tables of one's own: what comes in as numbers, and one clear line for everything else."""

import bz2
import gzip
import lzma
import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from legendretron.datasets.tables import read_columns, read_table

GOOD = "a,b,y\n1,2.5,u\n3,4.5,v\n"


def write(tmp_path, content, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(("name", "pack"), [
    ("t.csv", bytes), ("t.CSV", bytes), ("t.csv.gz", gzip.compress), ("t.csv.bz2", bz2.compress),
    ("t.csv.xz", lzma.compress), ("t.tsv", lambda text: text.replace(b",", b"\t")), ("t.csv", b"\xef\xbb\xbf".__add__),
    ("t.csv", lambda text: text.replace(b"\n", b"\r\n")), ("t.csv", lambda text: text.replace(b",", b", ")),
])  # fmt: skip
def test_text(tmp_path, name, pack):
    table = read_table(write(tmp_path, pack(GOOD.encode()), name), "y")
    assert table.feature_names == ("a", "b")
    assert table.X.to_numpy().tolist() == [[1, 2.5], [3, 4.5]]
    assert table.y.tolist() == ["u", "v"]
    assert table.classes.tolist() == ["u", "v"]


def test_lines_that_are_not_regular(tmp_path):
    """Blank lines, too few fields, separators at the end, a space before a quotation mark, and a lone one in a field."""
    text = 'a,b,name,y\n\n1,2,"x, ""y""\nz",u\n   \n3,4,5" pipe,v,,\n5, 6, "p, q" ,u\n7\n'
    table = read_columns(write(tmp_path, text), "y", missing_labels="drop")
    assert table.X["a"].tolist() == [1, 3, 5]
    assert table.X["name"].tolist() == ['x, "y"\nz', '5" pipe', "p, q"]
    assert (table.y.tolist(), table.unlabelled) == (["u", "v", "u"], 1)
    assert table.lines_of(np.array([0, 1, 2])).tolist() == [3, 6, 7]


def test_names_in_another_encoding(tmp_path):
    path = write(tmp_path, "größe,y\n1,u\n2,v\n".encode("cp1252"))
    with pytest.warns(UserWarning, match="was read as Windows-1252"):
        assert read_table(path, "y").feature_names == ("größe",)


def test_a_table_is_opened_twice(tmp_path, monkeypatch):
    """To see how it is written, and to read it: types, codes and columns to keep are found in one pass."""
    path = write(tmp_path, "code,a,y\n007,1.5,u\n010,NA,v\n")
    opened, plain = [], type(path).open
    monkeypatch.setattr(type(path), "open", lambda self, *how, **more: opened.append(self) or plain(self, *how, **more))
    table = read_columns(path, "y", keep=["a"], features=["code", "a"], find_codes=True)
    assert len(opened) == 2
    assert table.X["code"].tolist() == ["007", "010"]
    assert table.kept["a"].tolist() == ["1.5", "NA"]


def test_format_overrides_the_name(tmp_path):
    path = write(tmp_path, GOOD, "table.txt")
    assert read_table(path, "y", format="csv").X.shape == (2, 2)
    with pytest.raises(ValueError, match="does not tell its format"):
        read_table(path, "y")
    with pytest.raises(ValueError, match=r"format must be one of 'csv', 'tsv', .*'excel', 'libsvm', got 'xlsx'"):
        read_table(path, "y", format="xlsx")


def test_features_and_drop(tmp_path):
    path = write(tmp_path, "id,a,b,y\nk,1,2,0\nl,3,4,1\n")
    assert read_table(path, "y", features=["b", "a"]).X.to_numpy().tolist() == [[2, 1], [4, 3]]
    assert read_table(path, "y", drop=["id"]).feature_names == ("a", "b")
    assert read_table(path, features=["a"]).y is None
    with pytest.raises(ValueError, match="without a target"):
        _ = read_table(path, features=["a"]).classes


@pytest.mark.parametrize(("column", "kind", "values"), [
    ("0\n1", "i", [0, 1]), ("1.0\n-1.0", "i", [1, -1]), ("True\nFalse", "b", [True, False]),
    ("1\nx", "O", ["1", "x"]), ("ä\n🌷", "O", ["ä", "🌷"]),
])  # fmt: skip
def test_labels(tmp_path, column, kind, values):
    first, second = column.split("\n")
    y = read_table(write(tmp_path, f"a,y\n1,{first}\n2,{second}\n"), "y").y
    assert y.dtype.kind == kind
    assert y.tolist() == values


def test_labels_with_leading_zeros_stay_as_they_are_written(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n1,01\n2,1\n3,02\n")
    assert read_table(path, "y").y.tolist() == ["01", "1", "02"]
    path.write_text("x,y\n1,1.0\n2,0\n3,-2\n")
    assert read_table(path, "y").y.tolist() == [1, 0, -2]
    path.write_text("x,y\n1,1_1\n2,11\n3,12\n")
    assert read_table(path, "y").y.tolist() == ["1_1", "11", "12"]
    path.write_text("x,y\n1,9007199254740993\n2,9007199254740992\n")
    assert read_table(path, "y").y.tolist() == [9007199254740993, 9007199254740992]
    path.write_text("x,y\n1,12345678901234567890\n2,-1\n")
    assert read_table(path, "y").y.tolist() == ["12345678901234567890", "-1"]
    path.write_text("x,y\n1,.\n2,+\n")
    assert read_table(path, "y").y.tolist() == [".", "+"]
    path.write_text("x,y\n1,1e2\n2,2.5\n")
    with pytest.raises(ValueError, match=r"holds 2\.5, which is not a whole number"):
        read_table(path, "y")
    path.write_text("x,y\n1,yes\n2,NA\n")
    with pytest.raises(
        ValueError, match=r"1 of 2 labels in target column 'y' of .* are missing \(empty, NA, .*name of a class, give"
    ):
        read_table(path, "y")


def test_parquet(tmp_path):
    frame = pd.DataFrame(
        {"a": np.float32([1, 2]), "flag": [True, False], "price": [Decimal("1.50"), Decimal("2.25")], 7: [1, 2]}
    )
    frame["y"] = pd.Categorical(["u", "v"])
    frame.index = [10, 20]
    frame.columns = frame.columns.astype(str)
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet", "y")
    assert table.feature_names == ("a", "flag", "price", "7")
    assert table.X.to_numpy().tolist() == [[1, 1, 1.5, 1], [2, 0, 2.25, 2]]
    assert table.y.tolist() == ["u", "v"]
    only = read_table(tmp_path / "t.parquet", "y", features=["a"])
    assert only.X["a"].dtype == np.float32


def parquet_with_two_of_a_name(tmp_path):
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "twice.parquet"
    column = pyarrow.array([1, 2])
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays([column, column], ["a", "a"]), path)
    return path.read_bytes()


BAD = {
    "empty": ("", "t.csv", "is empty"),
    "blank": ("\n\n", "t.csv", "is empty"),
    "header only": ("a,b,y\n", "t.csv", "has column names but no rows"),
    "long row": ("a,b,y\n1,2,u\n1,2,3,v\n", "t.csv", "not a regular table: line 3 has 4 fields, not 3"),
    "long rows": ("a,b,y\n1,2,u,9\n1,2,v,9\n", "t.csv", "not a regular table: line 2 has 4 fields, not 3"),
    "short row": ("a,b,y\n1,2,u\n1\n", "t.csv", "1 of 2 labels in target column 'y' of .* are missing"),
    "open quote": ('a,b,y\n1,"2,u\n', "t.csv", "not a regular table: a quotation mark is not closed, in line 2"),
    "open quote at the end": ('a,b,y\n1,2,u\n"', "t.csv", "a quotation mark is not closed, in line 3"),
    "garbage": (bytes(range(256)) * 9, "t.csv", "holds binary data"),
    "a pickle": (pickle.dumps({"a": [1]}), "t.csv", "binary data|not UTF-8"),
    "neither UTF-8 nor Windows": (b"a,y\n1,\x81\n", "t.csv", "is not UTF-8 text .byte 0x81., nor Windows-1252; convert it"),
    "utf 16 without a mark": (GOOD.encode("utf-16-le"), "t.csv", "UTF-16"),
    "half gzip": (gzip.compress(GOOD.encode())[:-12], "t.csv.gz", "damaged or breaks off"),
    "half bzip2": (bz2.compress(GOOD.encode())[:-12], "t.csv.bz2", "damaged or breaks off"),
    "half xz": (lzma.compress(GOOD.encode())[:-12], "t.csv.xz", "damaged or breaks off"),
    "not parquet": (GOOD, "t.parquet", "damaged or not a Parquet file"),
    "two of a name": ("a,b,a,y\n1,2,3,u\n", "t.csv", "more than one column 'a'"),
    "two of a name in parquet": (parquet_with_two_of_a_name, "t.parquet", "more than one column 'a'"),
    "no name": (",a,y\n0,1,u\n1,2,v\n", "t.csv", "a column without a name .row numbers, often.; leave .*'Unnamed: 0'"),
    "no target": ("a,b,yy\n1,2,u\n", "t.csv", "no target column 'y'; it has 'a', 'b', 'yy'; did you mean 'yy'?"),
    "no header": ("1,2\n3,4\n", "t.csv", "the first line must hold the names"),
    "colons": ("a:b:y\n1:2:u\n", "t.csv", "no target column 'y'; it has 'a:b:y'"),
    "missing target": ("a,y\n1,u\n2,\n3,\n", "t.csv", "2 of 3 labels in .* in line 3, line 4; missing_labels="),
    "missing feature": ("a,b,y\n1,,u\n,,v\n3,3,u\n", "t.csv", "missing values .*: 'a' .1., 'b' .2., the first in line 2;"),
    "words": ("a,city,y\n1,Rom,u\n2,Bern,v\n", "t.csv", "'city' .such as 'Rom'., the first in line 2; leave .* .drop='city'"),
    "one word": ("a,b,y\n1,2,u\n?,4,v\n", "t.csv", "'a' .such as '.'."),
    "infinite": ("a,b,y\n1,inf,u\n2,3,v\n", "t.csv", "infinite values in columns of .*: 'b', the first in line 2"),
    "regression": ("a,y\n1,0.5\n2,1.5\n", "t.csv", "target column 'y' of .* holds 0.5, which is not a whole number"),
    "target only": ("y\nu\nv\n", "t.csv", "no column left for a feature"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_files(tmp_path, name):
    content, file, message = BAD[name]
    path = write(tmp_path, content(tmp_path) if callable(content) else content, file)
    with pytest.raises(ValueError, match=message) as caught:
        read_table(path, "y" if "parquet" not in name else "a")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(("options", "message"), [
    ({"features": ["a", "y"]}, "'y' is the target and cannot be a feature too"),
    ({"drop": ["y"]}, "'y' is the target and cannot be dropped"),
    ({"drop": ["c"]}, "no column 'c'"),
    ({"features": ["A"]}, "no column 'A'; it has 'a', 'b', 'y'"),
])  # fmt: skip
def test_bad_choices(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        read_table(write(tmp_path, GOOD), "y", **options)


def test_no_file_and_a_folder(tmp_path):
    for name in ("t.csv", "t.parquet", "t.libsvm"):
        with pytest.raises(ValueError, match=f"{name}' does not exist"):
            read_table(tmp_path / name)
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        read_table(folder, "y")


def test_long_lists_are_cut(tmp_path):
    names = [f"c{i}" for i in range(40)]
    path = write(tmp_path, ",".join(names) + "\n" + ",".join("w" * 40) + "\n")
    with pytest.raises(ValueError, match=r"'c7' \(such as 'w'\) and 31 more, the first in line 2;"):
        read_table(path, "c39")


def test_numbers_are_read_to_the_last_bit(tmp_path):
    values = np.random.default_rng(0).normal(size=2000) * 10.0 ** np.arange(-100, 100).repeat(10)
    pd.DataFrame({"a": values, "y": 1}).to_csv(tmp_path / "t.csv", index=False)
    assert np.array_equal(read_table(tmp_path / "t.csv", "y").X["a"], values)


def test_libsvm(tmp_path):
    path = write(tmp_path, "+1 1:0.5 3:2\n-1 2:1\n", "t.libsvm")
    table = read_table(path)
    assert table.y.tolist() == [1, -1]
    assert table.y.dtype == np.int64
    assert np.asarray(table.X).tolist() == [[0.5, 0, 2], [0, 1, 0]]
    assert read_table(path, n_features=5).X.shape == (2, 5)
    with pytest.warns(UserWarning, match="target 'y' is ignored"):
        read_table(path, "y")
    with pytest.raises(ValueError, match="no names to choose or drop by"):
        read_table(path, drop=["a"])
