"""Tables unlike the training data give one warning, which names the columns."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator

from legendretron import (
    EvaluationReport,
    LegendreCalibrator,
    LegendreNetClassifier,
    MultinomialLogisticClassifier,
    TableClassifier,
)
from legendretron.preprocessing import DriftWarning, TableEncoder
from legendretron.preprocessing.drift import DriftWatch, UsualRanges, feature_tallies


def make_frame(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "job": rng.choice(["cook", "smith", "clerk"], n),
        "town": [f"town {i}" for i in rng.geometric(0.05, n)],  # more than have a column
        "age": np.where(rng.random(n) < 0.2, np.nan, rng.normal(40, 10, n)),
        "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, n), unit="D"),
        "home": rng.random(n) < 0.5,
        "fare": rng.lognormal(3.0, 1.0, n),  # of which no value is far from the mean in standard deviations
        "always": 3.0,
        "bonus": np.where(rng.random(n) < 0.6, np.nan, rng.normal(size=n)),
    })  # fmt: skip


@pytest.fixture(scope="module")
def encoder():
    return TableEncoder().fit(make_frame())


@pytest.mark.parametrize(("change", "words"), [
    ({"job": "baker"}, "job: 100 of 100 values unknown"),
    ({"job": None}, "job: 100 of 100 values missing"),
    ({"job": [None] * 40 + ["baker"] * 60}, "job: 40 of 100 values missing; job: 60 of 60 values unknown"),
    ({"job": ["baker"] * 12 + ["cook"] * 88}, "job: 12 of 100 values unknown"),
    ({"bonus": None}, "bonus: 100 of 100 values missing ("),  # as most in the fit, but not all
    ({"town": "nowhere"}, "town: 100 of 100 values unknown, or rare in the fit"),
    ({"age": None}, "age: 100 of 100 values missing ("),
    ({"age": 4000.0}, "age: 100 of 100 values above the usual range of the fit, 2"),
    ({"age": 75.0}, "age: 100 of 100 values above the usual range of the fit, "),
    ({"age": 0.04}, "age: 100 of 100 values below the usual range of the fit, "),  # in thousands
    ({"fare": 0.0}, "fare: 100 of 100 values below the usual range of the fit, "),
    ({"fare": make_frame(100, 1)["fare"] / 1000}, "fare: 100 of 100 values below the usual range of the fit, "),
    ({"fare": [0.01] * 55 + [10.0] * 45}, "fare: 55 of 100 values below the usual range of the fit, "),
    ({"since": "2031-05-01"}, "since: 100 of 100 values far outside the range of the fit, 2020-01-0"),
])  # fmt: skip
def test_columns_that_have_changed_are_named(encoder, change, words):
    with pytest.warns(DriftWarning) as caught:
        encoder.transform(make_frame(100, 1).assign(**change))
    (warning,) = caught  # one for all columns
    assert f"the table is unlike the training data. {words}" in str(warning.message)


@pytest.mark.parametrize("change", [
    {}, {"age": 45.0}, {"since": "2024-01-01"}, {"job": ["baker"] * 9 + ["cook"] * 91}, {"always": 4.0}, {"home": True},
    {"fare": [0.01] * 45 + [10.0] * 55},
])  # fmt: skip
def test_what_is_no_reason_for_a_word(encoder, change):
    encoder.transform(make_frame(100, 1).assign(**change))  # warnings are errors
    encoder.transform(make_frame(1, 2).assign(age=None, town="nowhere", fare=1e6))


def test_other_rows_of_the_same_kind_are_not_suspected():
    """Of 60 tables, large and small, with heavy tails, few different values and gaps, split at random, none is."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        n, m = (int(np.exp(rng.uniform(np.log(low), np.log(2000)))) for low in (20, 1))
        frame = pd.DataFrame({
            "rare": [f"c{i}" for i in rng.zipf(1.5, n + m) % 97],
            "many": [f"c{i}" for i in rng.integers(0, n // 3, n + m)],
            "tail": rng.standard_cauchy(n + m),
            "skewed": rng.lognormal(0.0, 3.0, n + m),
            "count": rng.poisson(0.3, n + m),
            "hardly": (rng.random(n + m) < 0.02).astype(float),
            "gaps": np.where(rng.random(n + m) < rng.random(), np.nan, 1.0 + rng.random(n + m)),
        })  # fmt: skip
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "column '.*' is left out")
            encoder = TableEncoder(max_categories=int(rng.choice([4, 8, 32]))).fit(frame[:n])
        encoder.transform(frame[n:])
        numbers = frame[["tail", "skewed", "count", "hardly"]].to_numpy(float)
        with DriftWatch() as watch:
            watch.add(feature_tallies(SimpleNamespace(_usual=UsualRanges.of(numbers[:n])), numbers[n:]))
        assert watch.found == []


def test_the_usual_range_does_not_depend_on_parts():
    numbers = np.random.default_rng(0).lognormal(0.0, 1.0, 40_000) + 1000.0
    whole, parts = TableEncoder().fit(numbers[:, None]), TableEncoder()
    for part in np.split(numbers, [7, 900, 5000, 30_000]):
        parts.partial_fit(part[:, None])
    (one,), (other,) = whole.columns_, parts.columns_
    assert (one.usual_low, one.usual_high) == (other.usual_low, other.usual_high)
    below, above = (numbers < one.usual_low).mean(), (numbers > one.usual_high).mean()
    np.testing.assert_allclose([below, above], 0.05, atol=0.01)
    hours = np.arange(50_000.0) % 24  # places that are evenly spread do not miss any hour
    (column,) = TableEncoder().fit(hours[:, None]).columns_
    assert (column.usual_low, column.usual_high) == (1.0, 22.0)


def test_parts_are_counted_together(encoder):
    frame = make_frame(100, 1).assign(job=["baker"] * 70 + ["cook"] * 30)
    with DriftWatch() as watch:
        for start in range(0, 100, 10):
            encoder.transform(frame[start : start + 10])
    assert [str(tally) for tally in watch.found] == ["job: 70 of 100 values unknown"]


def test_a_warning_at_most_once_for_each_call():
    frame, y = make_frame(), np.arange(300) % 2
    model = TableClassifier(MultinomialLogisticClassifier(alpha=0.1)).fit(frame, y)
    calibrator = LegendreCalibrator(FrozenEstimator(model), strength=1.0).fit(frame, y)
    other = frame.assign(job="baker")
    for predict in (model.predict, model.predict_proba, model.decision_function, calibrator.predict_proba):
        with pytest.warns(DriftWarning) as caught:
            predict(other)
        assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DriftWarning)
        model.predict(other)


@pytest.fixture
def few_draws(monkeypatch):
    monkeypatch.setattr("legendretron.diagnostics.intervals.DRAWS", 50)
    monkeypatch.setattr("legendretron.report.measured._CHANCES", 10)


def test_the_report_says_so_and_gives_no_warning(few_draws):
    frame, y = make_frame(), np.arange(300) % 2
    model = TableClassifier(MultinomialLogisticClassifier(alpha=0.1)).fit(frame, y)
    report = EvaluationReport(model, frame.assign(job="baker"), y, against=model, against_name="same")
    said = "These rows are unlike the training data. job: 300 of 300 values unknown."
    assert said in report.summary
    assert said in report.to_html().replace("\N{NO-BREAK SPACE}", " ")
    assert "unlike the training data" not in EvaluationReport(model, frame, y).summary


def test_the_report_of_a_table_of_numbers(few_draws):
    rng = np.random.default_rng(0)
    X, y = rng.lognormal(3.0, 1.0, (200, 3)), np.arange(200) % 2
    X[:, 2] = 7.0
    for model in (MultinomialLogisticClassifier(alpha=0.1), LegendreNetClassifier(max_steps=5, random_state=0)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        assert "unlike" not in EvaluationReport(model, X, y).summary
        summary = EvaluationReport(model, X * [1.0, 0.001, 2.0], y).summary
        assert "column 1: 200 of 200 values below the usual range of the fit, 5." in summary
        assert "column 0" not in summary
        assert "column 2" not in summary
