"""What the results page says of the table of LIBSVM data sets holds for the record."""

from pathlib import Path

import numpy as np
import pytest

from legendretron.experiments import read_records
from legendretron.experiments.results import paired_test
from legendretron.paper.libsvm import LEVEL, PAPERS, comparison

RECORDS = list(read_records(Path(__file__).parents[2] / "docs/results/table_libsvm"))
ROWS = comparison(RECORDS)


def cells(what):
    return {
        (row["dataset"], row["noise"], model): row[f"{model}: {what}"]
        for row in ROWS
        for model in PAPERS
        if f"{model}: {what}" in row
    }


#: rebuilt with rows in another order, so that seeds draw other splits
REORDERED = ("segment", "satimage")


def test_every_cell_of_a_complete_data_set_is_reproduced():
    found = cells("reproduced")
    assert len(found) == 72
    missed = {key for key, same in found.items() if not same}
    assert missed == {("segment", noise, "logistic regression") for noise in (0.2, 0.5)}


def test_most_of_them_to_the_last_digit():
    exact = cells("to the digit")
    missed = {key for key, same in exact.items() if not same and key[0] not in REORDERED}
    assert {dataset for dataset, _, _ in missed} == {"news20", "usps", "dna", "vowel", "letter"}
    # all of logistic regression, but for news20
    assert {dataset for dataset, _, model in missed if model == "logistic regression"} == {"news20"}
    gaps = cells("difference in standard errors")
    assert max(abs(gaps[key]) for key in missed) < 0.5


def test_the_recipe_holds_logistic_regression_down():
    found = {(row["dataset"], row["noise"]): row for row in ROWS}
    for dataset, gain in {"letter": 23, "vowel": 24, "news20": 20, "svmguide2": 25, "vehicle": 13, "iris": 13}.items():
        row = found[dataset, 0.0]
        assert row["logistic regression, tuned: accuracy"].value - row["logistic regression: accuracy"].value > gain


def test_the_learned_link_against_logistic_regression_tuned_alike():
    gain = {(row["dataset"], row["noise"]): row["tuned, paired: advantage"] for row in ROWS}
    sure = {key for row in ROWS if row["tuned, paired, Holm"] < LEVEL for key in [(row["dataset"], row["noise"])]}
    always = {(name, noise) for name in ("letter", "Sensorless", "news20", "segment") for noise in (0.0, 0.2, 0.5)}
    assert sure == always | {("vowel", 0.0), ("vehicle", 0.0), ("satimage", 0.2), ("satimage", 0.5)}
    assert {name for name, noise in sure if gain[name, noise] < 0} == {"news20"}
    for name, expected in {
        "letter": [9.3, 8.7, 8.4], "Sensorless": [1.5, 13.0, 24.3], "news20": [-0.6, -2.3, -23.2],
        "segment": [1.3, 3.6, 3.9],
    }.items():  # fmt: skip
        np.testing.assert_allclose([gain[name, noise] for noise in (0.0, 0.2, 0.5)], expected, atol=0.1)
    assert all(-7 < gain[name, 0.5] < -3 for name in ("glass", "svmguide2", "wine", "iris"))


@pytest.mark.parametrize("model", PAPERS)
def test_tuning_on_few_noisy_rows_does_not_help(model):
    for dataset in ("iris", "wine", "svmguide2", "glass", "vehicle", "vowel"):
        by_model = {
            name: [r["accuracy"] for r in RECORDS if (r["dataset"], r["model"], r["noise"]) == (dataset, name, 0.5)]
            for name in (model, f"{model}, tuned")
        }
        recipe, tuned = by_model.values()
        assert np.mean(tuned) < np.mean(recipe) or paired_test(tuned, recipe) > LEVEL
