"""What the results page says of the table of AUCs holds for the record."""

import json
from pathlib import Path

ROWS = json.loads((Path(__file__).parents[2] / "docs/results/paper_auc.json").read_text())["rows"]
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
    for method in ("GLMTron", "Logistic regression", "BregmanTron", "BregmanTron_label"):
        assert abs(GAP[method, ODD]) < 1
    assert GAP["Logistic regression", ODD] > 0.2


def test_no_penalty_brings_logistic_regression_to_the_paper_on_class_0():
    penalties = [method for method, problem in GAP if "C=" in method and problem == CLASS_0]
    assert len(penalties) == 3
    assert all(GAP[method, CLASS_0] < -0.7 for method in penalties)


def test_slisotron_with_the_published_step():
    assert abs(GAP[PUBLISHED, ODD]) < 1
    assert GAP[PUBLISHED, MNIST] > 1
    assert GAP["SlIsotron", ODD] > 7
