"""What the results page says of the table of LIBSVM data sets holds for the record."""

from pathlib import Path

import numpy as np
import pytest

from legendretron.experiments import read_records
from legendretron.experiments.results import paired_test
from legendretron.paper.libsvm import LEVEL, PAPERS, comparison
from legendretron.paper.published import published_better

RECORDS = list(read_records(Path(__file__).parents[2] / "docs/results/table_libsvm"))
ROWS = comparison(RECORDS)
#: printed in the notebook beside the paper's code: LegendreTron on vehicle without noise, seeds 0 to 19
NOTEBOOK = [
    77.65, 78.24, 81.76, 80.59, 77.65, 73.53, 78.82, 80.59, 75.29, 71.18,
    78.82, 76.47, 76.47, 77.06, 75.88, 75.88, 75.29, 71.18, 80.59, 75.29,
]  # fmt: skip


def cells(what):
    return {
        (row["dataset"], row["noise"], model): row[f"{model}: {what}"]
        for row in ROWS
        for model in PAPERS
        if f"{model}: {what}" in row
    }


#: rebuilt with rows in another order, so that seeds draw other splits
REORDERED = ("segment", "satimage")


def test_twenty_seeds_three_noise_levels_thirteen_data_sets():
    assert len(ROWS) == 39
    assert all(row[f"{model}: seeds"] == 20 for row in ROWS for model in PAPERS)


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


def test_vehicle_seed_by_seed():
    ours = {
        r["seed"]: r["accuracy"]
        for r in RECORDS
        if (r["dataset"], r["model"], r["noise"]) == ("vehicle", PAPERS[0], 0.0)
    }
    assert [ours[seed] for seed in range(20)] == pytest.approx(NOTEBOOK, abs=0.0051)


def test_the_papers_verdicts():
    """Welch's test on our runs gives the bold print of the paper, but for vowel at 50 %, where its own figures do not."""
    bold = published_better()
    differing = []
    for row in ROWS:
        if row["source"] != "complete":
            continue
        better = PAPERS[0] if row["welch: advantage"] > 0 else PAPERS[1]
        if (better if row["welch"] < LEVEL else "") != bold[row["dataset"], row["noise"]]:
            differing.append((row["dataset"], row["noise"]))
    assert differing == [("vowel", 0.5)]


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
