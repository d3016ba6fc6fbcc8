"""One clear line for every table that cannot be encoded."""

import numpy as np
import pandas as pd
import pytest

from legendretron import TableEncoder

NUMBERS = [str(i) for i in range(12)]

#: By name: the column, and what is said about it.
UNFIT = {
    "all missing": ({"a": [None, None]}, "no column to learn from: 'a' .no values."),
    "all different": ({"a": [f"n{i}" for i in range(30)]}, "'a' .nearly all values are different."),
    "infinite": ({"a": [1.0, np.inf]}, "column 'a' holds infinity .row 1.; replace it"),
    "mixed types": ({"a": pd.Series([1, "x", 2.5], dtype=object)}, "'a' holds values of type int and str and float"),
    "lists": ({"a": pd.Series([[1], [2]], dtype=object)}, "'a' holds values of type list"),
    "bytes": ({"a": pd.Series([b"x", b"y"], dtype=object)}, "'a' holds values of type bytes"),
    "durations": ({"a": pd.to_timedelta([1, 2], "D")}, "'a' is of type timedelta.*; convert it"),
    "a mark for gaps": ({"a": [*NUMBERS, "?", "?"]}, r"'a' holds numbers, and the text '\?' \(2\); .*na_values='\?'; if"),
    "decimal comma": ({"a": ["1,5", "2", "3,25"]}, "'a' holds numbers with a decimal comma, such as '1,5'; .*decimal=','"),
    "a mark among decimal commas": ({"a": [f"{i},5" for i in range(12)] + ["?"]}, r"na_values='\?' and decimal=','; if the"),
    "thousands": ({"a": ["1,000", "20", "1,300,000"]}, "written as '1,300,000'; read the file with thousands=',', or give"),
    "decimals or thousands": ({"a": ["1,000", "2,500"]}, "decimal=',', or with thousands=',' if commas separate"),
    "thousands and decimals": ({"a": ["1.234,56", "2,5", "7"]}, "'1.234,56'; read .* decimal=',' and thousands='.'"),
    "spaces": ({"a": ["1 234,56", "12 000,00"]}, "'12 000,00'; read the file with decimal=',' and thousands=' '"),
    "prices": ({"a": ["$1.50", "$2", "-$3,000.00"]}, r"'a' holds numbers with a sign, such as '\$1.50'; take out the sign"),
    "percentages": ({"a": ["1.5 %", "2%", "0"]}, "'a' holds numbers with a sign, such as '1.5 %'; take out the sign"),
    "numbers as text": ({"a": ["1", "2"]}, "'a' holds numbers as text, such as '1'; convert"),
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
    ({"age": [np.inf, 1.0]}, "column 'age' holds infinity"),
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
    with pytest.raises(ValueError, match="no column 'city', 'since', which the fit had; it has 'age', 'on'"):
        encoder.transform(pd.DataFrame(FITTED)[["age", "on"]])
    with pytest.raises(ValueError, match="X has 2 features, but TableEncoder is expecting 4"):
        encoder.transform(np.ones((2, 2)))


@pytest.mark.parametrize(("options", "message"), [
    ({"categorical": ["town"]}, "categorical names 'town', but there is no such column; there are"),
    ({"max_categories": 1}, "'max_categories' parameter of TableEncoder must be an int"),
])  # fmt: skip
def test_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        TableEncoder(**options).fit(pd.DataFrame(FITTED))


@pytest.mark.exhaustive
def test_a_million_different_values():
    table = pd.DataFrame({"id": [f"k{i}" for i in range(10**6)], "a": np.arange(10**6) % 7})
    with pytest.warns(UserWarning, match="'id' is left out"):
        assert TableEncoder().fit(table).transform(table).shape == (10**6, 1)
