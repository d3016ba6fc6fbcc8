"""Learn the loss together with the classifier.

Rooms of the library, each importing only from those before it:

- :mod:`legendretron.simplex`, :mod:`legendretron.projected_categorical`: probabilities and softmax+
- :mod:`legendretron.potentials`: strictly convex functions
- :mod:`legendretron.links`: maps between predictors and probabilities
- :mod:`legendretron.losses`: proper losses, the learned one among them
- :mod:`legendretron.diagnostics`: measurements of links and losses
- :mod:`legendretron.nn`: heads and links for networks of one's own
- :mod:`legendretron.training`: the engine, many models side by side
- :mod:`legendretron.estimators`: classifiers with scikit-learn's interface
- :mod:`legendretron.trons`: other learners of a link and a linear predictor, for two classes
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from legendretron._internal.version import __version__

if TYPE_CHECKING:  # what type checkers and editors see; at run time names are imported when they are first used
    from legendretron.diagnostics import canonicality, properness
    from legendretron.estimators import LegendreTronClassifier, MultinomialLogisticClassifier
    from legendretron.links import CanonicalLink, CompositeLink, Link, NotCanonicalError, SoftmaxLink
    from legendretron.losses import CanonicalLoss, LogLoss, ProperLoss
    from legendretron.projected_categorical import ProjectedCategorical

__all__ = [
    "CanonicalLink",
    "CanonicalLoss",
    "CompositeLink",
    "LegendreTronClassifier",
    "Link",
    "LogLoss",
    "MultinomialLogisticClassifier",
    "NotCanonicalError",
    "ProjectedCategorical",
    "ProperLoss",
    "SoftmaxLink",
    "__version__",
    "canonicality",
    "properness",
]

#: Rooms, each with the names that are public here as well. Importing torch and scikit-learn takes seconds, which somebody
#: who asks the command line for help should not wait for.
_ROOMS: dict[str, tuple[str, ...]] = {
    "simplex": (),
    "projected_categorical": ("ProjectedCategorical",),
    "potentials": (),
    "links": ("CanonicalLink", "CompositeLink", "Link", "NotCanonicalError", "SoftmaxLink"),
    "losses": ("CanonicalLoss", "LogLoss", "ProperLoss"),
    "diagnostics": ("canonicality", "properness"),
    "nn": (),
    "training": (),
    "estimators": ("LegendreTronClassifier", "MultinomialLogisticClassifier"),
    "trons": (),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


if not TYPE_CHECKING:  # a type checker would take it that every name exists

    def __getattr__(name: str) -> object:
        if name in _ROOMS:
            return importlib.import_module(f"legendretron.{name}")
        if name not in _ROOM_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"legendretron.{_ROOM_OF[name]}"), name)
        globals()[name] = value  # found at once the next time
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS})
