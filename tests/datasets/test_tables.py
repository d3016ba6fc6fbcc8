"""Tables of one's own: what comes in as numbers, and one clear line for everything else."""

import bz2
import csv
import gzip
import lzma
import pickle
import weakref
from contextlib import contextmanager
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from legendretron._internal.columns import choose_names
from legendretron.datasets import text_file
from legendretron.datasets.streams import source_of
from legendretron.datasets.table_files import Wanted, read_frames
from legendretron.datasets.tables import has_only_numbers, read_columns, read_table
from legendretron.datasets.text_file import TextFile
from legendretron.datasets.text_form import TextOptions
from legendretron.preprocessing.encoder import TableEncoder, as_frame

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


@pytest.mark.parametrize(("written", "labels"), [
    ("0 1", [0, 1]), ("1.0 -1.0", [1, -1]), ("True False", [True, False]), ("1 x", ["1", "x"]), ("ä 🌷", ["ä", "🌷"]),
    ("01 1 02", ["01", "1", "02"]), ("1_1 11 12", ["1_1", "11", "12"]), (". +", [".", "+"]),
    ("9007199254740993 9007199254740992", [9007199254740993, 9007199254740992]),
    ("12345678901234567890 -1", ["12345678901234567890", "-1"]),
])  # fmt: skip
def test_labels(tmp_path, written, labels):
    y = read_table(write(tmp_path, "a,y\n" + "".join(f"1,{label}\n" for label in written.split())), "y").y
    assert y.tolist() == labels
    assert y.dtype.kind == {int: "i", bool: "b", str: "O"}[type(labels[0])]


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
    "short row": ("a,b,y\n1,2,u\n1\n", "t.csv", "1 of 2 labels in target column 'y' of .* are missing"),
    "open quote": ('a,b,y\n1,"2,u\n', "t.csv", "not a regular table: a quotation mark is not closed, in line 2"),
    "garbage": (bytes(range(256)) * 9, "t.csv", "holds binary data"),
    "a pickle": (pickle.dumps({"a": [1]}), "t.csv", "binary data|not UTF-8"),
    "neither UTF-8 nor Windows": (b"a,y\n1,\x81\n", "t.csv", "is not UTF-8 text .byte 0x81., nor Windows-1252; convert it"),
    "utf 16 without a mark": (GOOD.encode("utf-16-le"), "t.csv", "UTF-16"),
    "JSON in Latin-1": ('{"y": "é"}\n'.encode("latin1"), "t.jsonl", "not JSON with an .* can't decode byte 0xe9"),
    "half gzip": (gzip.compress(GOOD.encode())[:-12], "t.csv.gz", "damaged or breaks off"),
    "not parquet": (GOOD, "t.parquet", "damaged or not a Parquet file"),
    "two of a name": ("a,b,a,y\n1,2,3,u\n", "t.csv", "more than one column 'a'"),
    "two of a name in parquet": (parquet_with_two_of_a_name, "t.parquet", "more than one column 'a'"),
    "no name": (",a,y\n0,1,u\n1,2,v\n", "t.csv", "a column without a name .row numbers, often.; leave .*'Unnamed: 0'"),
    "no target": ("a,b,yy\n1,2,u\n", "t.csv", "no target column 'y'; it has 'a', 'b', 'yy'; did you mean 'yy'?"),
    "no header": ("1,2\n3,4\n", "t.csv", "the first line must contain the names"),
    "colons": ("a:b:y\n1:2:u\n", "t.csv", "no target column 'y'; it has 'a:b:y'"),
    "missing target": ("a,y\n1,u\n2,\n3,\n", "t.csv", "2 of 3 labels in .* in line 3, line 4; missing_labels="),
    "missing feature": ("a,b,y\n1,,u\n,,v\n3,3,u\n", "t.csv", "missing values .*: 'a' .1., 'b' .2., the first in line 2;"),
    "words": ("a,city,y\n1,Rom,u\n2,Bern,v\n", "t.csv", "'city' .such as 'Rom'., the .* line 2; correct .* .drop='city'"),
    "infinite": ("a,b,y\n1,inf,u\n2,3,v\n", "t.csv", "infinite values, .* in columns of .*: 'b', the first in line 2"),
    "regression": ("a,y\n1,0.5\n2,1.5\n", "t.csv", "target column 'y' of .* holds 0.5, which is not a whole number"),
    "true and numbers": ("a,y\n1,1\n2,true\n3,False\n", "t.csv", "true and false in some .* such as 'true' and '1'; "),
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
    ({"features": ["a"], "drop": ["a"]}, "feature: drop names all of features, 'a'; name each in one of them only"),
    ({"drop": ["a", "b"]}, "feature: drop names all there are, 'a', 'b'; leave one of them out"),
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


@pytest.mark.parametrize("end", ["parquet", "feather", "jsonl"])
def test_lists_are_neither_numbers_nor_labels(tmp_path, end):
    frame, path = pd.DataFrame({"a": [1, 2], "b": [[1, 2], None], "y": ["u", "v"]}), tmp_path / f"t.{end}"
    frame.to_json(path, orient="records", lines=True) if end == "jsonl" else getattr(frame, f"to_{end}")(path)
    holds = r"column 'b' of .*t\.\w+' holds values of type (list|ndarray), which are .* text; convert them"
    with pytest.raises(ValueError, match=rf"{holds}, or leave the column out \(drop='b'\)\."):
        read_table(path, "y")
    with pytest.raises(ValueError, match=rf"{holds}\."):
        read_table(path, "b", drop=["y"])
    table = read_columns(path, "y", drop=["b"], keep=["b"])
    assert list(table.kept["b"][0]) == [1, 2]


@pytest.mark.parametrize("end", ["csv", "libsvm", "jsonl"])
def test_a_line_that_is_too_long_is_no_line_of_a_table(tmp_path, monkeypatch, end):
    """A compressed file of megabytes may hold a line of gigabytes, which is not read."""
    for module in ("compressed", "text_file"):
        monkeypatch.setattr(f"legendretron.datasets.{module}.LONGEST_LINE", 2**20)
    path, long = tmp_path / f"t.{end}.gz", gzip.compress(b"a" * (2**23), 1)
    path.write_bytes(long)
    with pytest.raises(
        ValueError, match=r"t\.\w+\.gz' is no table of text: line 1 is longer than 1 MiB; is it another"
    ):
        read_table(path, None if end == "libsvm" else "y")
    if end == "csv":  # after lines that are some
        path.write_bytes(gzip.compress(b"a,y\n1,u\n\n2") + long)
        with pytest.raises(ValueError, match="no table of text: line 4 is longer than 1 MiB"):
            read_table(path, "y")


class CountedName(str):
    """A name that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __str__(self):
        return self

    def __eq__(self, other):
        CountedName.compared += 1
        return str.__eq__(self, other)


def test_names_of_very_many_columns_are_not_compared_with_each_other(monkeypatch):
    names = [CountedName(f"k{place}") for place in range(300)]
    frame = pd.DataFrame(np.zeros((2, 300)), columns=pd.Index(names, dtype=object))
    encoder = TableEncoder().fit(frame)
    encoder.feature_names_in_ = np.array(names, dtype=object)
    for call in (
        lambda: choose_names("t.csv", names, features=names[::-1], drop=names[:100]),
        lambda: as_frame(frame),
        lambda: as_frame(frame, encoder),
    ):
        monkeypatch.setattr(CountedName, "compared", 0)
        call()
        assert CountedName.compared < 10 * len(names)


@pytest.mark.parametrize(("lines", "fault"), [
    ('{"a": 1, "y": "u"}\n{"a": 2, "y": \n', "line 2: Expecting value"),
    ('{"a": 1, "y": "u"}\n\n[1, 2]\n', "line 3 holds an array"),
    ('{"a": 1, "y": "u"}, {"a": 2, "y": "v"}\n', "line 1: Extra data"),
    ("5\n", "line 1 holds a number"),
    ("[" * 100_000, "line 1: maximum recursion"),
])  # fmt: skip
def test_json_without_an_object_in_each_line(tmp_path, lines, fault):
    with pytest.raises(ValueError, match=rf"t\.jsonl' is not JSON with an object in each line: {fault}"):
        read_table(write(tmp_path, lines, "t.jsonl"), "y")


@pytest.mark.parametrize("at_once", [1, 2**14])
def test_json_lines_as_others_write_them(tmp_path, monkeypatch, at_once):
    """With a byte order mark, blank lines and keys in any order; large integers are exact."""
    path = write(
        tmp_path,
        '\ufeff{"a": 1, "y": "u"}\r\n\n{"y": "v", "b": 10000000000000000000001}\n{"a": null, "b": NaN, "y": "v"}',
    )
    path = path.rename(path.with_suffix(".jsonl"))
    monkeypatch.setattr("legendretron.datasets.json_lines._ROWS", at_once)
    for rows in (None, 2):
        frames = [read.frame for read in read_frames(path, "jsonl", Wanted("y"), rows)]
        assert [list(frame) for frame in frames] == [["a", "y", "b"]] * len(frames)
        a, b = ([value for frame in frames for value in frame[name]] for name in "ab")
        assert (a[0], b[1]) == (1, 10**22 + 1)
        assert pd.isna([*a[1:], b[0], b[2]]).all()


def test_long_fields_leave_the_limit_of_the_process_alone(tmp_path):
    """Wherever they stand; a line with too few fields makes it the standard library's turn."""
    before, long = csv.field_size_limit(), "long " * 2**16
    path = write(tmp_path, f"a;{long}\n1;u\n2;{long}\n\n3\n")
    table = read_columns(path)
    assert table.X.iloc[1, 1] == long.strip()
    assert table.X.iloc[2].isna().tolist() == [False, True]
    assert csv.field_size_limit() == before


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
    with pytest.raises(ValueError, match="no names to choose, drop or keep by"):
        read_table(path, drop=["a"])


# --- text files as others write them: separators, decimal marks, encodings, marks of gaps ---


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
    with pytest.warns(UserWarning, match=r"not UTF-8 text .byte 0xe9 in line 2. and was read as Windows-1252; give"):
        assert read_table(path, "y").y.tolist() == ["é", "€"]
    assert read_table(path, "y", text=TextOptions(encoding="cp1252")).y.tolist() == ["é", "€"]
    with pytest.raises(ValueError, match=r"is not text in utf-8 .byte 0xe9.; give its encoding, such as encoding="):
        read_table(path, "y", text=TextOptions(encoding="utf-8"))


@pytest.mark.parametrize("rows", [None, 1000])
def test_windows_after_many_letters_of_ascii(tmp_path, rows):
    """What has been read by then is the same in both encodings."""
    names = ["plain"] * 40_000 + ["caf\xe9", "\u20ac"]
    path = tmp_path / "t.csv"
    path.write_bytes("".join(["a,y\n", *(f"{row},{name}\n" for row, name in enumerate(names))]).encode("cp1252"))
    with pytest.warns(UserWarning, match=r"not UTF-8 text .byte 0xe9 in line 40002. and was read") as caught:
        read = list(read_frames(path, "csv", Wanted("y"), rows))
    assert len(caught) == 1
    frame = pd.concat([part.frame for part in read], ignore_index=True)
    assert frame["y"].tolist() == names
    assert frame["a"].tolist() == list(range(len(names)))
    assert read[-1].form.encoding == "cp1252"
    with pytest.raises(ValueError, match="is not text in utf-8"):
        list(read_frames(path, "csv", Wanted("y", text=TextOptions(encoding="utf-8")), rows))


@pytest.mark.parametrize("rows", [None, 1000])
@pytest.mark.parametrize("before", [3, 40_000])
def test_one_bad_byte_does_not_give_a_file_two_encodings(tmp_path, before, rows):
    """A file with letters of UTF-8 before it is damaged; in another encoding these letters would be wrong."""
    path, line = tmp_path / "t.csv", "Zürich,u\n".encode()
    path.write_bytes(b"a,y\n" + before * line + b"Z\xfcrich,v\n" + 1000 * line)
    with pytest.raises(
        ValueError, match=rf"UTF-8 text up to line {before + 2}, which holds the byte 0xfc; .* encoding='cp"
    ):
        list(read_frames(path, "csv", Wanted("y"), rows))
    given = TextOptions(encoding="cp1252")
    frame = pd.concat([part.frame for part in read_frames(path, "csv", Wanted("y", text=given), rows)])
    assert frame["a"].value_counts().to_dict() == {"ZÃ¼rich": before + 1000, "Zürich": 1}


def test_a_bad_byte_is_found_in_a_column_that_is_not_read(tmp_path):
    """A table in batches is in the same encoding, whichever of its columns are read."""
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,note,y\n" + 9000 * b"1,plain,u\n" + b"2,caf\xe9,u\n")
    file = TextFile.open(path, "csv")
    with pytest.warns(UserWarning, match="byte 0xe9 in line 9002. and was read as Windows-1252"):
        assert sum(batch.num_rows for batch in file.batches(["a"], numbers=["a"])) == 9001


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


def test_marks_that_are_numbers_are_gaps_however_they_are_written(tmp_path):
    """Also in a column that is one of numbers only without the rows that are left out; codes are no numbers."""
    path = write(tmp_path, "a,b,code,y\nword,,0999,u\n-999.0,1,01,v\n-9.99e2,2,02,u\n3,3,0999,v\n")
    options = TextOptions(na=("-999", "999"))
    table = read_columns(path, "y", text=options, numeric=())
    assert table.X["a"].isna().tolist() == [False, True, True, False]
    assert table.X["code"].tolist() == ["0999", "01", "02", "0999"]
    table = read_columns(path, "y", text=options, numeric=(), missing="drop-rows")
    assert (table.X["a"].tolist(), table.left_out) == ([3.0], 3)


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


@pytest.mark.parametrize(("end", "pack", "between"), [("bz2", bz2.compress, b""), ("xz", lzma.compress, bytes(4))])
def test_compressed_streams_one_after_the_other(tmp_path, end, pack, between):
    path, first, second = tmp_path / f"t.csv.{end}", pack(b"x,y\n1,a\n"), pack(b"2,b\n")
    path.write_bytes(first + between + second)  # xz may pad its streams with zeros
    assert read_table(path, "y").y.tolist() == ["a", "b"]
    path.write_bytes(first + b"\x12" + second[1:])
    with pytest.raises(ValueError, match=r"damaged or breaks off"):
        read_table(path, "y")


@pytest.mark.parametrize("odd", [[], ["   "]])
def test_quotation_marks_after_spaces(tmp_path, odd):
    """They open a field in all rows, whether or not a line is one that only the csv module reads."""
    rows = [f'{i}.5, "{"ab"[i % 2]}"' for i in range(4)]
    (tmp_path / "t.csv").write_text("\n".join(["x, y", *rows, *odd, *rows, ""]))
    assert read_table(tmp_path / "t.csv", "y").y.tolist() == ["a", "b"] * 4
    (tmp_path / "t.csv").write_text('x,y\n1,"a, ""b"""\n')  # within a field they are text
    assert read_table(tmp_path / "t.csv", "y").y.tolist() == ['a, "b"']
    (tmp_path / "t.csv").write_text('x,y\n1,5" pipe\n2, "a\n1,b"\n')  # a mark within text opens none
    assert read_table(tmp_path / "t.csv", "y").y.tolist() == ['5" pipe', "a\n1,b"]


def test_first_lines(tmp_path):
    """Marks of byte order, line breaks and other ends of lines than those of CSV, in names and after them."""
    path = tmp_path / "t.csv"
    for odd in ("", "  \n"):  # a line that only the csv module reads
        path.write_text(f'"a\nb","c\u2028d",y\n1,2,u\n3,4,v\n{odd}', encoding="utf-8-sig")
        table = read_table(path, "y")
        assert (table.X.to_numpy().tolist(), table.y.tolist()) == ([[1.0, 2.0], [3.0, 4.0]], ["u", "v"])
        assert list(table.X) == ["a\nb", "c\u2028d"]
        assert table.place_of(1) == "line 4"
    path.write_text('a,y\r1,"u"\r2,"v"\r', newline="")
    (batch,) = source_of(path, target="y").batches()
    assert batch.y.tolist() == ["u", "v"]


def test_with_decimal_commas_the_word_is_the_one_with_a_point(tmp_path):
    (tmp_path / "t.csv").write_text("a;y\n0,5;u\n1,5;v\n1.5;u\n")
    with pytest.raises(ValueError, match=r"'a' \(such as '1.5'\), the first in line 4; correct them"):
        read_table(tmp_path / "t.csv", "y", text=TextOptions(decimal=","))


def test_lines_of_a_single_column(tmp_path):
    rows = [str(i) for i in range(300_000)]
    rows[3], rows[5], rows[-5] = "  ", '""', "7,"
    (tmp_path / "t.csv").write_text("\n".join(["x", *rows, ""]))
    x = read_columns(tmp_path / "t.csv").X["x"]
    assert len(x) == len(rows) - 1  # without the blank line
    assert np.flatnonzero(x.isna()).tolist() == [4]


def test_no_thread_holds_a_file_that_was_read(tmp_path, monkeypatch):
    # Python aborts if it ends while a thread of pyarrow closes a file
    (path := tmp_path / "table.csv").write_text("a,b\n" + "1,2\n" * 60)
    held = weakref.WeakSet()

    @contextmanager
    def opened(path):
        with path.open("rb") as file:
            held.add(file)
            yield file

    monkeypatch.setattr(text_file, "open_compressed", opened)
    file = TextFile.open(path, "csv")
    for _ in range(100):
        assert sum(batch.num_rows for batch in file.batches(numbers=["a", "b"])) == 60
        assert not held
