"""What the results page says of the table of AUCs holds for the record."""

import json
from pathlib import Path

import pytest

ROWS = json.loads((Path(__file__).parents[2] / "docs/results/paper_auc.json").read_text())["rows"]
FOUND = {(row["method"], row["problem"]): row for row in ROWS}
GAP = {(row["method"], row["problem"]): row["auc"] - row["paper"] for row in ROWS}
MNIST, ODD, CLASS_0 = "MNIST, class 0", "Fashion-MNIST, odd against even", "Fashion-MNIST, class 0"
PUBLISHED = "SlIsotron, published step"


def test_nine_methods_on_three_problems_the_published_step_and_three_penalties():
    assert len(GAP) == 39


def test_close_to_the_paper_on_mnist():
    for method in ("LegendreTron", "Logistic regression", "ISGP-Linkgistic", "GP-Linkgistic"):
        assert abs(GAP[method, MNIST]) < 0.2
    for method in ("GLMTron", "BregmanTron", "BregmanTron_label", "BregmanTron_approx"):
        assert abs(GAP[method, MNIST]) < 1
    assert GAP["SlIsotron", MNIST] > 4


def test_the_column_of_fashion_mnist_is_the_odd_against_the_even_classes():
    for method in ("LegendreTron", "ISGP-Linkgistic", "GP-Linkgistic"):
        assert abs(GAP[method, ODD]) < 0.2
        assert GAP[method, CLASS_0] < -1
    for method in ("GLMTron", "Logistic regression", "BregmanTron"):
        assert abs(GAP[method, ODD]) < 1
    assert GAP["Logistic regression", ODD] > 0.2


def test_bregmantrons():
    for problem in (MNIST, ODD, CLASS_0):
        exact, approx = (FOUND[method, problem] for method in ("BregmanTron", "BregmanTron_approx"))
        assert (exact["auc"], exact["brier"]) == pytest.approx((approx["auc"], approx["brier"]), abs=1e-3)
    assert GAP["BregmanTron_approx", ODD] > 3
    assert GAP["BregmanTron_label", ODD] == pytest.approx(1.05)
    for problem in (MNIST, ODD, CLASS_0):
        assert abs(GAP["BregmanTron", problem]) < 1
    assert abs(GAP["BregmanTron_label", CLASS_0]) < 1


def test_probabilities_are_better_than_the_base_rate():
    base_rate = {MNIST: 0.098 * 0.902, ODD: 0.25, CLASS_0: 0.09}
    scored = {key: row["brier"] for key, row in FOUND.items() if "brier" in row}
    assert len(scored) == 18
    assert all(score < base_rate[problem] for (_, problem), score in scored.items())


def test_no_penalty_brings_logistic_regression_to_the_paper_on_class_0():
    penalties = [method for method, problem in GAP if "C=" in method and problem == CLASS_0]
    assert len(penalties) == 3
    assert all(GAP[method, CLASS_0] < -0.7 for method in penalties)


def test_slisotron_with_the_published_step():
    assert abs(GAP[PUBLISHED, ODD]) < 1
    assert GAP[PUBLISHED, MNIST] > 1
    assert GAP["SlIsotron", ODD] > 7
