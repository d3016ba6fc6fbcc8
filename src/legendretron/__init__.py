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
- :mod:`legendretron.preprocessing`: tables with text, dates and gaps as numbers
- :mod:`legendretron.estimators`: classifiers with scikit-learn's interface
- :mod:`legendretron.trons`: other methods that learn a link and a linear predictor, for two classes
- :mod:`legendretron.distributed`: one model trained by many processes, on one machine or a cluster
- :mod:`legendretron.report`: a page on how good a model is
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from legendretron._internal.version import __version__

if TYPE_CHECKING:  # for type checkers and editors; at run time names are imported on first use
    from legendretron.diagnostics import canonicality, properness
    from legendretron.estimators import (
        LegendreCalibrator,
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

__all__ = [
    "CanonicalLink",
    "CanonicalLoss",
    "CompositeLink",
    "EvaluationReport",
    "LegendreCalibrator",
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

#: Rooms, each with the names that are re-exported here. They are imported on first use: torch and scikit-learn take
#: seconds, which ``legendretron --help`` should not wait for.
_ROOMS: dict[str, tuple[str, ...]] = {
    "simplex": (),
    "projected_categorical": ("ProjectedCategorical",),
    "potentials": (),
    "links": ("CanonicalLink", "CompositeLink", "Link", "NotCanonicalError", "SoftmaxLink", "distill"),
    "losses": ("CanonicalLoss", "LogLoss", "ProperLoss"),
    "diagnostics": ("canonicality", "properness"),
    "nn": (),
    "streaming": (),
    "training": (),
    "preprocessing": ("TableEncoder",),
    "estimators": (
        "LegendreCalibrator",
        "LegendreTronClassifier",
        "MultinomialLogisticClassifier",
        "TableClassifier",
        "load",
    ),
    "trons": (),
    "distributed": (),
    "report": ("EvaluationReport",),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


if not TYPE_CHECKING:  # otherwise a type checker would assume that every name exists

    def __getattr__(name: str) -> object:
        if name in _ROOMS:
            return importlib.import_module(f"legendretron.{name}")
        if name not in _ROOM_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"legendretron.{_ROOM_OF[name]}"), name)
        globals()[name] = value  # cached for the next time
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS})
