"""Classifiers with scikit-learn's interface."""

from legendretron.estimators.legendretron import LegendreTronClassifier
from legendretron.estimators.multinomial import MultinomialLogisticClassifier

__all__ = ["LegendreTronClassifier", "MultinomialLogisticClassifier"]
