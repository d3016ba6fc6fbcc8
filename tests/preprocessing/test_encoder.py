"""The encoder: what becomes of each kind of column, in one part and in many."""

import datetime
import json
from decimal import Decimal

import numpy as np
import onnxruntime
import pandas as pd
import pyarrow
import pytest
from onnx import TensorProto, helper
from sklearn.utils.estimator_checks import parametrize_with_checks

from legendretron import TableEncoder
from legendretron.preprocessing import statistics
from legendretron.preprocessing.onnx_nodes import prepend_columns


def frame():
    return pd.DataFrame(
        {
            "age": [30.0, None, 50.0, 40.0],
            "rooms": [1, 2, 3, 2],
            "city": ["Rome", "Bern", None, "Rome"],
            "owner": [True, False, True, True],
            "since": ["2020-01-01", "2020-01-11", None, "2020-01-21T12:00:00"],
        }
    )


NAMES = ["age", "age is missing", "rooms", "city=Bern", "city=Rome", "city is missing", "owner"]
NAMES += ["since (days since 1970-01-01)", "since is missing"]


@parametrize_with_checks([TableEncoder()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_kinds_of_columns():
    encoder = TableEncoder().fit(frame())
    assert [column.kind for column in encoder.columns_] == ["number", "number", "categories", "boolean", "date"]
    assert encoder.get_feature_names_out().tolist() == NAMES
    assert encoder.feature_names_in_.tolist() == list(frame())
    first = (datetime.date(2020, 1, 1) - datetime.date(1970, 1, 1)).days
    mean = first + (0 + 10 + 20.5) / 3
    assert encoder.transform(frame()).tolist() == [
        [30, 0, 1, 0, 1, 0, 1, first, 0],
        [40, 1, 2, 1, 0, 0, 0, first + 10, 0],
        [50, 0, 3, 0, 0, 1, 1, pytest.approx(mean), 1],
        [40, 0, 2, 0, 1, 0, 1, first + 20.5, 0],
    ]


def test_gaps_and_values_that_the_fit_did_not_have():
    encoder = TableEncoder().fit(frame())
    new = pd.DataFrame(
        {"rooms": [None], "age": [None], "city": ["Oslo"], "owner": [None], "since": [None], "more": [1]}
    )
    row = dict(zip(NAMES, encoder.transform(new)[0], strict=True))
    assert row["rooms"] == 2  # the mean; without a gap in the fit there is no mark for one
    assert row["owner"] == 0.75
    assert row["city=Bern"] == row["city=Rome"] == row["city is missing"] == 0


def test_the_rest_is_pooled_and_unknown_values_with_it():
    column = pd.DataFrame({"a": list("xxxxyyyzzw") * 3 + ["v"]})
    encoder = TableEncoder(max_categories=3).fit(column)
    assert encoder.get_feature_names_out().tolist() == ["a=x", "a=y", "a=(other)"]
    assert encoder.columns_[0].pooled == 3
    assert TableEncoder(max_categories=5).fit(column).columns_[0].pooled == 0  # as many as there are
    new = pd.DataFrame({"a": ["y", "z", "new", None, ""]})
    assert encoder.transform(new).tolist() == [[0, 1, 0], *[[0, 0, 1]] * 4]


@pytest.mark.parametrize(("values", "kind", "first"), [
    (pd.array([1, None, 2], dtype="Int64"), "number", 1.0),
    (pd.array([True, None, False], dtype="boolean"), "boolean", 1.0),
    (pd.Categorical([3, None, 4]), "categories", 1.0),
    (pd.to_datetime(["2020-01-02", None, "2020-01-01"]), "date", 18263.0),
    (pd.to_datetime(["2020-01-02T01:00+01:00", None, "2020-01-01T00:00Z"], utc=True), "date", 18263.0),
    (np.array([datetime.date(2020, 1, 2), None, datetime.date(2020, 1, 1)], dtype=object), "date", 18263.0),
    (np.array([Decimal("1.5"), None, Decimal(2)], dtype=object), "number", 1.5),
    (np.array([True, None, False], dtype=object), "boolean", 1.0),
    (pd.array(["a", None, "b"], dtype="string"), "categories", 1.0),
    (np.array(["a", "", "b"], dtype=object), "categories", 1.0),
    (pd.array(["a", None, "b"], dtype=pd.ArrowDtype(pyarrow.string())), "categories", 1.0),
])  # fmt: skip
def test_types_of_columns(values, kind, first):
    table = pd.DataFrame({"a": values})
    encoder = TableEncoder().fit(table)
    (column,) = encoder.columns_
    assert (column.kind, column.gaps) == (kind, 1)
    assert encoder.transform(table)[0, 0] == first
    assert encoder.get_feature_names_out()[-1] == "a is missing"
    assert encoder.transform(table)[1, -1] == 1.0


def test_single_precision_stays():
    numbers = pd.DataFrame({"a": np.float32([1, 2]), "city": ["x", "y"]})
    assert TableEncoder().fit(numbers).transform(numbers).dtype == np.float32
    mixed = numbers.assign(b=[1.0, 2.0])
    assert TableEncoder().fit(mixed).transform(mixed).dtype == np.float64


def large(n=3000):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "number": rng.normal(size=n) * 1e3,
            "whole": rng.integers(9, size=n),
            "town": rng.choice([f"t{i}" for i in range(80)], n),
            "day": (pd.Timestamp("2021-03-04") + pd.to_timedelta(rng.integers(999, size=n), "D")).strftime("%Y-%m-%d"),
            "name": [f"n{i}" for i in range(n)],
        }
    )
    for name in ("number", "town", "day"):
        table[name] = table[name].where(rng.uniform(size=n) > 0.1)
    return table


@pytest.mark.parametrize(("part", "form"), [
    (1, pd.DataFrame), (1000, pd.DataFrame), (2999, pyarrow.RecordBatch.from_pandas)
])  # fmt: skip
def test_parts_give_what_the_whole_gives(part, form):
    table = large(100 if part == 1 else 3000)
    whole = TableEncoder().partial_fit(table)
    encoder = TableEncoder()
    for start in range(0, len(table), part):
        encoder.partial_fit(form(table.iloc[start : start + part].reset_index(drop=True)))
    assert [column.kind for column in encoder.columns_] == ["number", "number", "categories", "date", "identifier"]
    for one, other in zip(encoder.columns_, whole.columns_, strict=True):
        assert one.mean == pytest.approx(other.mean, rel=1e-13)
        assert {**vars(one), "mean": 0} == {**vars(other), "mean": 0}
    np.testing.assert_allclose(encoder.transform(table), whole.transform(table), rtol=1e-13)


def test_a_part_that_is_refused_changes_nothing():
    encoder = TableEncoder().partial_fit(frame())
    with pytest.raises(ValueError, match="'rooms' holds values of kind number in the first rows, and text in later"):
        encoder.partial_fit(frame().assign(rooms=["a", "b", "c", "d"]))
    assert encoder.columns_ == TableEncoder().fit(frame()).columns_
    fitted = TableEncoder().fit(frame())
    with pytest.raises(ValueError, match="infinite value"):
        fitted.fit(frame().assign(rooms=[1.0, 2.0, np.inf, 4.0]))
    assert fitted.columns_ == encoder.columns_


def test_counts_are_bounded(monkeypatch):
    monkeypatch.setattr(statistics, "MOST_COUNTED", 50)
    table = pd.DataFrame({"a": [f"v{i % 40}" for i in range(400)] + [f"w{i % 200}" for i in range(400)]})
    results = []
    for part in (800, 33):
        encoder = TableEncoder(max_categories=60)
        for start in range(0, 800, part):
            encoder.partial_fit(table.iloc[start : start + part])
        assert len(encoder._statistics[0].counts) == 50
        results.append(encoder.columns_)
    assert results[0] == results[1]
    assert len(results[0][0].categories) == 50
    assert results[0][0].pooled == 1
    assert encoder.transform(pd.DataFrame({"a": ["w199"]}))[0, -1] == 1.0


def test_identifiers_are_left_out_unless_asked_for():
    table = pd.DataFrame({"name": [f"n{i}" for i in range(30)], "a": np.arange(30) % 7})
    with pytest.warns(UserWarning, match="'name' is left out: nearly all of its values are different") as caught:
        encoder = TableEncoder().fit(table)
    assert len(caught) == 1
    assert encoder.get_feature_names_out().tolist() == ["a"]
    assert encoder.transform(table[["a"]]).shape == (30, 1)  # it need not be there
    kept = TableEncoder(categorical=["name"], max_categories=5).fit(table)
    assert len(kept.get_feature_names_out()) == 6


@pytest.mark.parametrize(("numbers", "said"), [
    (np.arange(1, 41), "from 1 to 40"),
    (np.random.default_rng(0).choice(60, 40, replace=False) + 500, "from 50"),  # some rows of a larger table
    (np.arange(1, 41) * 100, None),
    (np.arange(40) % 20, None),
    (np.arange(40).astype(str), None),
    (np.where(np.arange(40) == 3, np.nan, np.arange(40)), None),
    (np.arange(40) - np.arange(40) // 39, None),  # one of them twice
])  # fmt: skip
@pytest.mark.parametrize("part", [40, 10])
def test_numbers_of_rows_are_named(numbers, said, part):
    table = pd.DataFrame({"id": numbers, "a": np.arange(40) % 3})
    encoder = TableEncoder(categorical=["id"] if table["id"].dtype.kind not in "if" else [])
    for start in range(0, 40, part):
        encoder.partial_fit(table[start : start + part])
    notes = encoder.notes_
    assert len(notes) == (said is not None)
    if said is not None:
        assert "column 'id' seems to number the rows" in notes[0]
        assert said in notes[0]
        with pytest.warns(UserWarning, match="column 'id' seems to number the rows"):
            TableEncoder().fit(table)


def test_numbers_as_categories():
    table = pd.DataFrame({"zip": [1000.0, 2000.0, None, 1000.0], "a": [1, 2, 3, 4]})
    encoder = TableEncoder(categorical=["zip"]).fit(table)
    assert encoder.get_feature_names_out().tolist() == ["zip=1000", "zip=2000", "zip is missing", "a"]
    as_text = encoder.transform(pd.DataFrame({"zip": ["2000"], "a": [1]}))
    assert as_text.tolist() == encoder.transform(pd.DataFrame({"zip": [2000], "a": [1]})).tolist() == [[0, 1, 0, 1]]


def test_numbers_with_leading_zeros():
    table = pd.DataFrame({"zip": ["00136", "80331"] * 15})
    with pytest.warns(UserWarning, match=r"'zip' holds numbers with leading zeros.*astype\(\{'zip': float\}\)"):
        encoder = TableEncoder().fit(table)
    assert encoder.get_feature_names_out().tolist() == ["zip=00136", "zip=80331"]
    assert TableEncoder(categorical=["zip"]).fit(table).notes_ == []


@pytest.mark.parametrize("part", [40, 13])
@pytest.mark.parametrize("first", [2**60, 10**22])
@pytest.mark.parametrize("kind", [int, str])
def test_whole_numbers_that_double_precision_cannot_tell_apart(kind, first, part):
    """As numbers, codes would all be the same, and so would identifiers; those of a part need not tell."""
    ids, codes = [kind(first + row) for row in range(40)], [kind(first + row % 3) for row in range(40)]
    table = pd.DataFrame({"id": ids, "code": codes, "a": np.arange(40) % 7})
    encoder = TableEncoder()
    for start in range(0, 40, part):
        encoder.partial_fit(table[start : start + part].infer_objects())
    assert [column.kind for column in encoder.columns_] == ["identifier", "categories", "number"]
    assert encoder.columns_[1].categories == tuple(str(first + code) for code in range(3))
    assert encoder.transform(table)[:4, :3].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]
    said = rf"'code' holds numbers too long to be told apart in .*, such as '{first}', .*astype\(\{{'code': float\}}\)"
    with pytest.warns(UserWarning, match="'id' is left out"), pytest.warns(UserWarning, match=said):
        TableEncoder().fit(table)


@pytest.mark.parametrize("numbers", [2**60 + 10**9 * np.arange(40), np.repeat(2**60, 40), 2.0**60 + np.arange(40)])
def test_long_numbers_that_stay_different_are_numbers(numbers):
    """Such as nanoseconds since 1970; fractions have no more digits than double precision."""
    assert TableEncoder().fit(pd.DataFrame({"a": numbers})).columns_[0].kind == "number"


def test_names_are_distinct():
    table = pd.DataFrame({"a": list("xxyyzw") + ["(other)"] * 3, "a=x": range(9)})
    names = TableEncoder(max_categories=4).fit(table).get_feature_names_out().tolist()
    assert names == ["a=(other)", "a=x", "a=y", "a=(other) (2)", "a=x (2)"]


def test_huge_numbers_have_a_mean():
    encoder = TableEncoder().fit(pd.DataFrame({"a": [1.5e308, 1.7e308, None, -1.7e308, -1.7e308]}))
    assert encoder.columns_[0].mean == pytest.approx(-0.05e308)
    constant = TableEncoder().fit(pd.DataFrame({"a": [0.1, 0.1, None, 0.1]})).columns_[0]
    assert (constant.mean, constant.constant) == (0.1, True)


def test_json_holds_all():
    encoder = TableEncoder(max_categories=3, categorical=["rooms"]).fit(frame())
    again = TableEncoder.from_state(json.loads(json.dumps(encoder.to_state())))
    assert again.columns_ == encoder.columns_
    assert again.get_params() == encoder.get_params()
    assert np.array_equal(again.transform(frame()), encoder.transform(frame()))
    with pytest.raises(ValueError, match="loaded from a file cannot be fitted further"):
        again.partial_fit(frame())
    assert again.fit(frame()).columns_ == encoder.columns_


@pytest.mark.parametrize(("change", "message"), [
    (lambda saved: saved.pop("single"), "encoder must have the fields"),
    (lambda saved: saved.update(max_categories=1), "max_categories must be an integer of at least 2"),
    (lambda saved: saved["columns"].append(saved["columns"][0]), "different names"),
    (lambda saved: saved["columns"][0].update(mean=float("nan")), "mean must be a finite number"),
    (lambda saved: saved["columns"][0].update(kind="number "), "kind must be one of"),
    (lambda saved: saved["columns"][0].update(low=3.0, high=2.0), "low of .* must not be above high, got 3.0 and 2.0"),
    (lambda saved: saved["columns"][0].update(usual_low=3.0, usual_high=2.0), "usual_low of .* must not be above usual_hi"),
    (lambda saved: saved["columns"][0].update(rows=1, gaps=2), "must be some of its rows, 1, got 2 and 0"),
    (lambda saved: saved["columns"][0].update(categories=["a"]), "must have categories if, and only if"),
    (lambda saved: saved["columns"][2].update(categories=["a", "a"]), "different texts"),
    (lambda saved: saved["columns"][2].update(categories=[str(i) for i in range(33)]), "must be 1 to 32"),
    (lambda saved: saved.update(columns=[{**saved["columns"][0], "kind": "empty"}]), "must not all be left out"),
])  # fmt: skip
def test_forged_encoders(change, message):
    saved = json.loads(json.dumps(TableEncoder().fit(frame()).to_state()))
    change(saved)
    with pytest.raises(ValueError, match=message):
        TableEncoder.from_state(saved)


@pytest.mark.parametrize(("days", "named"), [
    (["5/31/24", "2024-06-01"], "5/31/24"),
    (["31-May-2024", "2 June 2024"], "31-May-2024"),
    (["31.05.2024", "31.06.2024"], "31.06.2024"),
    (["31.05.2024", "05/31/2024"], "05/31/2024"),
    ([*(f"2024-06-{day}" for day in range(10, 26)), *(f"2024-06-{day}" for day in range(31, 35))], "2024-06-31"),
])  # fmt: skip
def test_dates_of_another_form_are_named(days, named):
    table = pd.DataFrame({"day": days * 3})
    with pytest.warns(UserWarning, match=f"column 'day' seems to hold dates, but '{named}' is not read as one"):
        encoder = TableEncoder().fit(table)
    assert encoder.columns_[0].kind == "categories"
    assert TableEncoder(categorical=["day"]).fit(table).notes_ == []


@pytest.mark.parametrize("part", [24, 7])
@pytest.mark.parametrize(("days", "word"), [
    ([f"{day}/02/2023" for day in range(10, 32)], "29/02/2023"),
    ([f"2023-03-{day}" for day in range(10, 32)] + ["unknown"], "unknown"),
    ([f"2023-03-{day}" for day in range(10, 32)] + ["0000-00-00"], "0000-00-00"),
    ([f"{day}.03.2023 12:00" for day in range(10, 32)] + ["03/13/2023"], "03/13/2023"),
])  # fmt: skip
def test_a_stray_text_among_dates(days, word, part):
    """It would make categories of all of them; as among numbers, it is an error, in whichever rows it stands."""
    for order in (days, days[::-1]):
        encoder = TableEncoder()
        for start in range(0, len(order), part):
            encoder.partial_fit(pd.DataFrame({"day": order[start : start + part], "a": 1.0}))
        with pytest.raises(
            ValueError, match=rf"'day' holds dates, and the text .*'{word}' \(1\).*; if that stands for"
        ) as e:
            encoder.columns_  # noqa: B018
        assert "na_values=" in str(e.value)
    kept = TableEncoder(categorical=["day"]).fit(pd.DataFrame({"day": days}))
    assert kept.columns_[0].kind == "categories"
    some = pd.DataFrame({"day": days}).assign(a=1.0).replace(["29/02/2023", "30/02/2023", "31/02/2023", word], None)
    column = TableEncoder().fit(some).columns_[0]
    assert column.is_date
    assert column.gaps in (1, 3)


@pytest.mark.parametrize("part", [30, 7])
@pytest.mark.parametrize(("change", "said"), [
    ({}, True), ({0: np.nan}, True), ({5: 20230230}, False), ({5: 20231301}, False), ({5: 20230101.5}, False),
    ({5: 18990101}, False), (dict.fromkeys(range(25), 20230101), False),
])  # fmt: skip
def test_dates_written_as_numbers_are_named(change, said, part):
    days = pd.Series(20240201.0 + np.arange(30) % 29)  # a leap year
    days[list(change)] = list(change.values())
    encoder = TableEncoder()
    for start in range(0, 30, part):
        encoder.partial_fit(pd.DataFrame({"day": days[start : start + part]}))
    assert encoder.columns_[0].kind == "number"
    notes = [note for note in encoder.notes_ if "'day' seems to hold dates written as numbers, such as 202" in note]
    assert len(notes) == said
    assert not said or "Write them as 2024-02-01 to use them as dates." in notes[0]


@pytest.mark.parametrize(("days", "kind", "iso"), [
    (["31.05.2024", "01.06.2024"], "day-first date", ["2024-05-31", "2024-06-01"]),
    (["1/6/2024", "31/5/2024"], "day-first date", ["2024-06-01", "2024-05-31"]),
    (["6/1/2024", "5/31/2024"], "month-first date", ["2024-06-01", "2024-05-31"]),
    (["1.6.2024", "2.6.2024"], "day-first date", ["2024-06-01", "2024-06-02"]),
    (["2024-05-31", "01.06.2024 12:30"], "day-first date", ["2024-05-31", "2024-06-01 12:30"]),
    (["2024/05/31 12:30", "2024/6/1"], "date", ["2024-05-31 12:30", "2024-06-01"]),
])  # fmt: skip
def test_dates_by_the_order_that_their_column_shows(days, kind, iso):
    encoder = TableEncoder()
    for day in days:  # in parts, of which none tells alone
        encoder.partial_fit(pd.DataFrame({"day": [day, None]}))
    (column,) = encoder.columns_
    assert (column.kind, column.gaps, encoder.notes_) == (kind, 2, [])
    table = pd.DataFrame({"day": [*days, None]})
    expected = TableEncoder().fit(pd.DataFrame({"day": pd.to_datetime([*iso, None], format="ISO8601")}))
    other = TableEncoder.from_state(json.loads(json.dumps(encoder.to_state())))
    np.testing.assert_allclose(
        other.transform(table), expected.transform(pd.DataFrame({"day": [*iso, None]})), rtol=1e-14
    )


def test_dates_that_can_be_meant_in_two_ways():
    with pytest.warns(
        UserWarning, match="'day' holds dates, such as '03/04/2024', that can be meant in two ways; the day is"
    ):
        encoder = TableEncoder().fit(pd.DataFrame({"day": ["03/04/2024", "05/06/2024"]}))
    assert encoder.transform(pd.DataFrame({"day": ["03/04/2024"]})).tolist() == [[19816.0]]  # 2024-04-03
    with pytest.raises(
        ValueError, match=r"held dates in the fit, but now holds the text '05/31/2024'; .* day\.month\.year"
    ):
        encoder.transform(pd.DataFrame({"day": ["05/31/2024"]}))


def test_categories_that_differ_only_by_case_or_white_space():
    table = pd.DataFrame({"city": ["Rome", "rome", "Rome ", "Bern"]})
    with pytest.warns(
        UserWarning, match="column 'city' has categories that differ only by case .*: 'Rome' and 'rome' and 'Rome '"
    ):
        encoder = TableEncoder().fit(table)
    assert len(encoder.columns_[0].categories) == 4


def test_a_row_and_a_column_as_a_series():
    table = pd.DataFrame({"age": [30.0, None, 50.0], "city": ["Rome", "Bern", None]})
    encoder = TableEncoder().fit(table)
    with pytest.raises(
        ValueError, match=r"give a data frame: series\.to_frame\(\)\.T if it is a row, series\.to_frame\(\) if"
    ):
        encoder.transform(table.iloc[0])
    assert encoder.transform(table.iloc[0].to_frame().T).tolist() == encoder.transform(table[:1]).tolist()


@pytest.mark.parametrize(
    "words", [["1.2.3", "4.5.6"], ["10-12", "12-14"], ["May flower 12", "x"], ["192.168.1.1", "10.0.0.1"]]
)
def test_what_is_no_date(words):
    assert TableEncoder().fit(pd.DataFrame({"a": words * 3})).notes_ == []


# --- an encoder in an ONNX graph gives what it gives in Python, by ONNX Runtime, before a model that does nothing ---


def session(encoder, dtype):
    """The encoder before a model whose values have names that columns may have, too."""
    kind = TensorProto.FLOAT if dtype == np.float32 else TensorProto.DOUBLE
    width = len(encoder.get_feature_names_out())
    graph = helper.make_graph(
        [helper.make_node("Identity", ["X"], ["index"]), helper.make_node("Identity", ["index"], ["encoded"])],
        "nothing",
        [helper.make_tensor_value_info("X", kind, ["n", width])],
        [helper.make_tensor_value_info("encoded", kind, ["n", width])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    prepend_columns(model, encoder.columns_, np.dtype(dtype), "X")
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


TABLES = {
    "numbers with gaps": ({"a": [1.5, None, 3.0], "b": [1, 2, 3]}, {}, {"a": [None, 2.0], "b": [None, 5.0]}),
    "categories": ({"t": ["x", "y", None, "x"]}, {}, {"t": ["y", "", "new", "x"]}),
    "pooled": ({"t": ["x"] * 9 + ["y"] * 5 + ["z", "w", None]}, {"max_categories": 3}, {"t": ["x", "y", "z", "", "new"]}),
    "all but the gap pooled": ({"t": ["x", "y", "z", None, None]}, {"max_categories": 2}, {"t": ["x", "", "new"]}),
    "names of the graph": ({"X": [1.0, None], "index": ["a", "b"], "encoder/0": [3, 4]}, {}, {
        "X": [None, 5.0], "index": ["b", ""], "encoder/0": [7.0, 8.0]
    }),
    "letters": ({"größe 🌷": ["klein", "groß", "ß"] * 2}, {}, {"größe 🌷": ["groß", "", "ß"]}),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_numbers(name, dtype):
    table, options, new = TABLES[name]
    encoder = TableEncoder(**options).fit(pd.DataFrame(table))
    new = pd.DataFrame(new)
    inputs = {
        column.name: new[column.name].to_numpy(dtype=object if column.kind == "categories" else dtype)[:, None]
        for column in encoder.columns_
    }
    (encoded,) = session(encoder, dtype).run(None, inputs)
    assert encoded.dtype == dtype
    np.testing.assert_array_equal(encoded, encoder.transform(new).astype(dtype))


def test_names_of_outputs_are_refused():
    encoder = TableEncoder().fit(pd.DataFrame({"encoded": [1.0, 2.0]}))
    with pytest.raises(ValueError, match="column 'encoded' has the name of an output of the ONNX model"):
        session(encoder, np.float64)


# --- one clear line for every table that cannot be encoded ---


NUMBERS = [str(i) for i in range(12)]

#: By name: the column, and what is said about it.
UNFIT = {
    "all missing": ({"a": [None, None]}, "no column to learn from: 'a' .no values."),
    "all different": ({"a": [f"n{i}" for i in range(30)]}, "'a' .nearly all values are different."),
    "infinite": ({"a": [1.0, np.inf]}, "column 'a' holds an infinite value in row 1 .from 0.; replace it"),
    "mixed types": ({"a": pd.Series([1, "x", 2.5], dtype=object)}, "int and str and float .'x'., .*na_values='x'; or conv"),
    "lists": ({"a": pd.Series([[1], [2]], dtype=object)}, "'a' holds values of type list"),
    "bytes": ({"a": pd.Series([b"x", b"y"], dtype=object)}, "'a' holds values of type bytes"),
    "durations": ({"a": pd.to_timedelta([1, 2], "D")}, "'a' is of type timedelta.*; convert it"),
    "a mark for gaps": ({"a": [*NUMBERS, "?", "?"]}, r"'a' holds numbers, and the text '\?' \(2\); .*na_values='\?'; if"),
    "decimal comma": ({"a": ["1,5", "2", "3,25"]}, "'a' holds numbers written as '3,25'; .*decimal=','"),
    "a mark among decimal commas": ({"a": [f"{i},5" for i in range(12)] + ["?"]}, r"na_values='\?' and decimal=','; if the"),
    "thousands": ({"a": ["1,000", "20", "1,300,000"]}, "written as '1,300,000'; read the file with thousands=',', or give"),
    "decimals or thousands": ({"a": ["1,000", "2,500"]}, "decimal=',', or with thousands=',' if commas separate"),
    "thousands and decimals": ({"a": ["1.234,56", "2,5", "7"]}, "'1.234,56'; read .* decimal=',' and thousands='.'"),
    "spaces": ({"a": ["1 234,56", "12 000,00"]}, "'12 000,00'; read the file with decimal=',' and thousands=' '"),
    "prices": ({"a": ["$1.50", "$2", "-$3,000.00"]}, r"'a' holds numbers with a sign, such as '\$1.50'; remove the sign"),
    "percentages": ({"a": ["1.5 %", "2%", "0"]}, "'a' holds numbers with a sign, such as '1.5 %'; remove the sign"),
    "numbers as text": ({"a": ["1", "2"]}, "'a' holds numbers as text, such as '1'; convert"),
    "numbers with points as text": ({"a": ["1", "2.25"]}, "'a' holds numbers as text, such as '1'; convert"),
    "perhaps thousands": ({"a": ["1", "2.250"]}, "such as '2.250'; .* decimal=',' and thousands='.' if points separate thou"),
    "two of a name": (pd.DataFrame([[1, 2]], columns=["a", "a"]), "more than one column 'a'"),
    "no rows": ({"a": []}, "at least 1 row"),
    "no columns": (pd.DataFrame(index=[0, 1]), "at least one column"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNFIT)
def test_tables_that_cannot_be_fitted(name):
    table, message = UNFIT[name]
    encoder = TableEncoder()
    with pytest.raises(ValueError, match=message) as caught:
        encoder.fit(pd.DataFrame(table))
    assert "\n" not in str(caught.value)
    assert not hasattr(encoder, "n_features_in_")


def test_words_that_are_no_marks():
    """Three words beside ten numbers are taken for marks of gaps; more words are categories, as are those of few numbers."""
    assert TableEncoder().fit(pd.DataFrame({"a": [*NUMBERS, *"wxyz"] * 2})).columns_[0].kind == "categories"
    assert TableEncoder().fit(pd.DataFrame({"a": ["1", "2", "x"] * 2})).columns_[0].kind == "categories"
    assert TableEncoder(categorical=["a"]).fit(pd.DataFrame({"a": NUMBERS * 2})).columns_[0].kind == "categories"


FITTED = {"age": [1.5, 2.0], "city": ["a", "b"], "on": [True, False], "since": ["2020-01-01", "2020-01-02"]}


@pytest.mark.parametrize(("change", "message"), [
    ({"age": ["old", "new"]}, "'age' held numbers in the fit, but now holds the text 'old'; write numbers there"),
    ({"age": ["1,5", "2"]}, "'1,5'; write numbers there, or nothing where the value is missing, or read .*decimal=','"),
    ({"age": ["1.234,5", "2"]}, "or read the file with decimal=',' and thousands='.'"),
    ({"age": ["inf", "2"]}, "the text 'inf'"),
    ({"age": [np.inf, 1.0]}, "column 'age' holds an infinite value"),
    ({"age": pd.to_datetime(["2020-01-01", "2020-01-02"])}, "'age' held numbers in the fit, but now holds dates"),
    ({"on": ["yes", "no"]}, "'on' held true and false in the fit, but now holds the text 'yes'"),
    ({"on": [2, 1]}, "'on' held true and false in the fit, but now holds numbers other than 0 and 1"),
    ({"since": ["01.02.2020", "x"]}, "'since' held dates in the fit, but now holds the text '01.02.2020'; .*as year-month"),
    ({"since": [1, 2]}, "'since' held dates in the fit, but now holds numbers;"),
])  # fmt: skip
def test_columns_that_have_changed(change, message):
    encoder = TableEncoder().fit(pd.DataFrame(FITTED))
    with pytest.raises(ValueError, match=message):
        encoder.transform(pd.DataFrame({**FITTED, **change}))


@pytest.mark.parametrize("change", [
    {"age": ["1.5", "2"]}, {"on": ["true", "False"]}, {"on": [1, 0]}, {"on": [1.0, 0.0]},
    {"since": pd.to_datetime(["2020-01-01", "2020-01-02"])},
])  # fmt: skip
def test_the_same_values_in_another_form(change):
    encoder = TableEncoder().fit(pd.DataFrame(FITTED))
    same = encoder.transform(pd.DataFrame({**FITTED, **change}))
    assert same.tolist() == encoder.transform(pd.DataFrame(FITTED)).tolist()


def test_a_column_that_is_missing():
    encoder = TableEncoder().fit(pd.DataFrame(FITTED))
    with pytest.raises(ValueError, match="no column 'city', 'since', which the training data had; it has 'age', 'on'"):
        encoder.transform(pd.DataFrame(FITTED)[["age", "on"]])
    with pytest.raises(ValueError, match="X has 2 features, but TableEncoder is expecting 4"):
        encoder.transform(np.ones((2, 2)))


@pytest.mark.parametrize(("options", "message"), [
    ({"categorical": ["town"]}, "categorical names 'town', but there is no such column; there are"),
    ({"max_categories": 1}, "'max_categories' parameter of TableEncoder must be an int"),
    ({"categorical": ["city"]}, "column 'city' holds values of type list, which are not text; convert"),
])  # fmt: skip
def test_parameters(options, message):
    table = pd.DataFrame(FITTED)
    with pytest.raises(ValueError, match=message):
        TableEncoder(**options).fit(table.assign(city=[[1, 2], [3, 4]]) if "city" in message else table)
