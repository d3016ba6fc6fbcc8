"""Learn the loss together with the classifier.

Rooms (subpackages) of the library, each importing only from those before it:

- :mod:`legendretron.simplex`, :mod:`legendretron.projected_categorical`: probabilities and softmax+
- :mod:`legendretron.potentials`: strictly convex functions
- :mod:`legendretron.links`: maps between predictors and probabilities
- :mod:`legendretron.losses`: proper losses, the learned one among them
- :mod:`legendretron.diagnostics`: measurements of links and losses
- :mod:`legendretron.nn`: heads and links for your own networks
- :mod:`legendretron.streaming`: tables larger than memory, read in batches
- :mod:`legendretron.training`: the training engine, for many models side by side
- :mod:`legendretron.calibration`: a map of a classifier's scores to calibrated probabilities
- :mod:`legendretron.preprocessing`: tables with text, dates and gaps as numbers
- :mod:`legendretron.estimators`: classifiers with scikit-learn's interface
- :mod:`legendretron.trons`: other methods that learn a link and a linear predictor, for two classes
- :mod:`legendretron.distributed`: one model trained by many processes, on one machine or a cluster
- :mod:`legendretron.report`: a page on how good a model is
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legendretron._internal.extras import lazy_names
from legendretron._internal.version import __version__

if TYPE_CHECKING:
    from legendretron.diagnostics import canonicality, properness
    from legendretron.estimators import (
        LabelNoiseWarning,
        LegendreCalibrator,
        LegendreNetClassifier,
        LegendreTronClassifier,
        MultinomialLogisticClassifier,
        TableClassifier,
        load,
    )
    from legendretron.links import CanonicalLink, CompositeLink, Link, NotCanonicalError, SoftmaxLink, distill
    from legendretron.losses import CanonicalLoss, LogLoss, ProperLoss
    from legendretron.preprocessing import TableEncoder
    from legendretron.projected_categorical import ProjectedCategorical
    from legendretron.report import EvaluationReport
else:
    # rooms, each with the names that are handed on here
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "simplex": (),
            "projected_categorical": ("ProjectedCategorical",),
            "potentials": (),
            "links": ("CanonicalLink", "CompositeLink", "Link", "NotCanonicalError", "SoftmaxLink", "distill"),
            "losses": ("CanonicalLoss", "LogLoss", "ProperLoss"),
            "diagnostics": ("canonicality", "properness"),
            "nn": (),
            "streaming": (),
            "training": (),
            "calibration": (),
            "preprocessing": ("TableEncoder",),
            "estimators": (
                "LabelNoiseWarning",
                "LegendreCalibrator",
                "LegendreNetClassifier",
                "LegendreTronClassifier",
                "MultinomialLogisticClassifier",
                "TableClassifier",
                "load",
            ),
            "trons": (),
            "distributed": (),
            "report": ("EvaluationReport",),
        },
    )

__all__ = [
    "CanonicalLink",
    "CanonicalLoss",
    "CompositeLink",
    "EvaluationReport",
    "LabelNoiseWarning",
    "LegendreCalibrator",
    "LegendreNetClassifier",
    "LegendreTronClassifier",
    "Link",
    "LogLoss",
    "MultinomialLogisticClassifier",
    "NotCanonicalError",
    "ProjectedCategorical",
    "ProperLoss",
    "SoftmaxLink",
    "TableClassifier",
    "TableEncoder",
    "__version__",
    "canonicality",
    "distill",
    "load",
    "properness",
]
