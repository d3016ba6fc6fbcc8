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
    assert GAP["BregmanTron", CLASS_0] == pytest.approx(-1.1, abs=0.05)
    assert abs(GAP["BregmanTron_label", CLASS_0]) < 1


def test_brier_scores_of_the_bregmantrons():
    said = {
        ("BregmanTron", MNIST): 0.079,
        ("BregmanTron", CLASS_0): 0.119,
        ("BregmanTron", ODD): 0.040,
        ("BregmanTron_label", MNIST): 0.009,
        ("BregmanTron_label", CLASS_0): 0.034,
        ("BregmanTron_label", ODD): 0.039,
    }
    assert {key: round(FOUND[key]["brier"], 3) for key in said} == said


def test_no_penalty_brings_logistic_regression_to_the_paper_on_class_0():
    penalties = [method for method, problem in GAP if "C=" in method and problem == CLASS_0]
    assert len(penalties) == 3
    assert all(GAP[method, CLASS_0] < -0.7 for method in penalties)


def test_slisotron_with_the_published_step():
    assert abs(GAP[PUBLISHED, ODD]) < 1
    assert GAP[PUBLISHED, MNIST] > 1
    assert GAP["SlIsotron", ODD] > 7
