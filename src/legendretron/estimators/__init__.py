"""Classifiers with scikit-learn's interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from legendretron._internal.extras import lazy_names

if TYPE_CHECKING:
    from legendretron.estimators.any_model import load
    from legendretron.estimators.calibrator import LegendreCalibrator
    from legendretron.estimators.label_noise import LabelNoiseWarning
    from legendretron.estimators.legendretron import LegendreTronClassifier
    from legendretron.estimators.multinomial import MultinomialLogisticClassifier
    from legendretron.estimators.network import LegendreNetClassifier
    from legendretron.estimators.splits import fit_splits
    from legendretron.estimators.table_classifier import TableClassifier
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "any_model": ("load",),
            "calibrator": ("LegendreCalibrator",),
            "label_noise": ("LabelNoiseWarning",),
            "legendretron": ("LegendreTronClassifier",),
            "multinomial": ("MultinomialLogisticClassifier",),
            "network": ("LegendreNetClassifier",),
            "splits": ("fit_splits",),
            "table_classifier": ("TableClassifier",),
        },
    )

__all__ = [
    "LabelNoiseWarning",
    "LegendreCalibrator",
    "LegendreNetClassifier",
    "LegendreTronClassifier",
    "MultinomialLogisticClassifier",
    "TableClassifier",
    "fit_splits",
    "load",
]
