"""Tables unlike the training data give one warning, which names the columns."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator

from legendretron import EvaluationReport, LegendreCalibrator, MultinomialLogisticClassifier, TableClassifier
from legendretron.preprocessing import DriftWarning, TableEncoder
from legendretron.preprocessing.drift import DriftWatch


def make_frame(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "job": rng.choice(["cook", "smith", "clerk"], n),
        "town": [f"town {i}" for i in rng.geometric(0.05, n)],  # more than have a column
        "age": np.where(rng.random(n) < 0.2, np.nan, rng.normal(40, 10, n)),
        "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, n), unit="D"),
        "home": rng.random(n) < 0.5,
        "always": 3.0,
        "bonus": np.where(rng.random(n) < 0.6, np.nan, rng.normal(size=n)),
    })  # fmt: skip


@pytest.fixture(scope="module")
def encoder():
    return TableEncoder().fit(make_frame())


@pytest.mark.parametrize(("change", "words"), [
    ({"job": "baker"}, "job: 100 of 100 values unknown"),
    ({"job": None}, "job: 100 of 100 values missing"),
    ({"job": [None] * 40 + ["baker"] * 60}, "job: 60 of 60 values unknown"),
    ({"job": ["baker"] * 50 + ["cook"] * 50}, "job: 50 of 100 values unknown"),
    ({"bonus": None}, "bonus: 100 of 100 values missing ("),  # as most in the fit, but not all
    ({"town": "nowhere"}, "town: 100 of 100 values unknown, or rare in the fit"),
    ({"age": None}, "age: 100 of 100 values missing ("),
    ({"age": 4000.0}, "age: 100 of 100 values far outside the range of the fit, "),
    ({"since": "2031-05-01"}, "since: 100 of 100 values far outside the range of the fit, 2020-01-0"),
])  # fmt: skip
def test_columns_that_have_changed_are_named(encoder, change, words):
    with pytest.warns(DriftWarning) as caught:
        encoder.transform(make_frame(100, 1).assign(**change))
    (warning,) = caught  # one for all columns
    assert f"the table is unlike the training data. {words}" in str(warning.message)


@pytest.mark.parametrize("change", [
    {}, {"age": 75.0}, {"since": "2024-01-01"}, {"job": ["baker"] * 40 + ["cook"] * 60}, {"always": 4.0}, {"home": True},
])  # fmt: skip
def test_what_is_no_reason_for_a_word(encoder, change):
    encoder.transform(make_frame(100, 1).assign(**change))  # warnings are errors
    encoder.transform(make_frame(1, 2).assign(age=None, town="nowhere"))


def test_other_rows_of_the_same_kind_are_not_suspected():
    """Of 60 tables with rare categories and gaps, split at random, none gives a warning."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        n = int(rng.integers(20, 200))
        frame = pd.DataFrame({
            "rare": [f"c{i}" for i in rng.zipf(1.5, n) % 97],
            "tail": rng.standard_cauchy(n),
            "gaps": np.where(rng.random(n) < rng.random(), np.nan, 1.0 + rng.random(n)),
        })  # fmt: skip
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "column '.*' is left out")
            encoder = TableEncoder(max_categories=8).fit(frame[: n // 2])
        encoder.transform(frame[n // 2 :])


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
    X, y = rng.normal(3.0, 1.0, (200, 2)), np.arange(200) % 2
    model = MultinomialLogisticClassifier(alpha=0.1).fit(X, y)
    summary = EvaluationReport(model, X * [1.0, 100.0], y).summary
    assert "column 1: 200 of 200 values more than 5 standard deviations from the mean of the fit, 3.0" in summary
    assert "column 0" not in summary
