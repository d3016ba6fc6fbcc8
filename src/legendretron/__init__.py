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

__version__ = "0.1.0.dev0"
