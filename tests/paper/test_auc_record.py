"""What the results page says of the table of AUCs holds for the record."""

import csv
from pathlib import Path

import pytest

with (Path(__file__).parents[2] / "docs/results/table_auc/table_auc.csv").open() as file:
    FOUND = {(row["method"], row["problem"]): row for row in csv.DictReader(file)}
GAP = {key: float(row["auc"]) - float(row["paper"]) for key, row in FOUND.items()}
MNIST, ODD, CLASS_0 = "MNIST, class 0", "Fashion-MNIST, odd against even", "Fashion-MNIST, class 0"
PUBLISHED = "SlIsotron, published step"


def test_close_to_the_paper_on_mnist():
    for method in ("LegendreTron", "logistic regression", "ISGP-Linkgistic", "GP-Linkgistic"):
        assert abs(GAP[method, MNIST]) < 0.2
    for method in ("GLMTron", "BregmanTron", "BregmanTron_label", "BregmanTron_approx"):
        assert abs(GAP[method, MNIST]) < 1
    assert GAP["SlIsotron", MNIST] > 4


def test_the_column_of_fashion_mnist_is_the_odd_against_the_even_classes():
    for method in ("LegendreTron", "ISGP-Linkgistic", "GP-Linkgistic"):
        assert abs(GAP[method, ODD]) < 0.2
        assert GAP[method, CLASS_0] < -1
    for method in ("GLMTron", "logistic regression", "BregmanTron"):
        assert abs(GAP[method, ODD]) < 1
    assert GAP["logistic regression", ODD] > 0.2


def test_bregmantrons():
    for problem in (MNIST, ODD, CLASS_0):
        for score in ("auc", "brier"):
            exact, approx = (float(FOUND[f"BregmanTron{kind}", problem][score]) for kind in ("", "_approx"))
            assert exact == pytest.approx(approx, abs=1e-3)
    assert GAP["BregmanTron_approx", ODD] > 3
    assert GAP["BregmanTron_label", ODD] == pytest.approx(1.05, abs=0.005)
    for problem in (MNIST, ODD, CLASS_0):
        assert abs(GAP["BregmanTron", problem]) < 1
    assert abs(GAP["BregmanTron_label", CLASS_0]) < 1


def test_slisotron_with_the_published_step():
    assert abs(GAP[PUBLISHED, ODD]) < 1
    assert GAP[PUBLISHED, MNIST] > 1
    assert GAP["SlIsotron", ODD] > 7
