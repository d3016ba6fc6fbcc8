"""Classifiers with scikit-learn's interface."""

from legendretron.estimators.any_model import load
from legendretron.estimators.calibrator import LegendreCalibrator
from legendretron.estimators.legendretron import LegendreTronClassifier
from legendretron.estimators.multinomial import MultinomialLogisticClassifier
from legendretron.estimators.splits import fit_splits
from legendretron.estimators.table_classifier import TableClassifier

__all__ = [
    "LegendreCalibrator",
    "LegendreTronClassifier",
    "MultinomialLogisticClassifier",
    "TableClassifier",
    "fit_splits",
    "load",
]
