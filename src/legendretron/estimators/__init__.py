"""Classifiers with scikit-learn's interface."""

from legendretron.estimators.calibrator import LegendreCalibrator
from legendretron.estimators.legendretron import LegendreTronClassifier
from legendretron.estimators.multinomial import MultinomialLogisticClassifier
from legendretron.estimators.splits import fit_splits

__all__ = ["LegendreCalibrator", "LegendreTronClassifier", "MultinomialLogisticClassifier", "fit_splits"]
