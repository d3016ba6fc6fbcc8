"""The tron family: other learners of a link and a linear predictor, for two classes."""

from legendretron.trons.bregman_projection import BregmanGenerator, bregman_projection, clip_slopes
from legendretron.trons.descent import BregmanTronClassifier, GLMTronClassifier, SlIsotronClassifier
from legendretron.trons.linkgistic import GPLinkgisticClassifier, ISGPLinkgisticClassifier
from legendretron.trons.lipschitz_isotonic import lipschitz_isotonic
from legendretron.trons.piecewise_link import PiecewiseLinearLink
from legendretron.trons.trigonometric_link import TrigonometricLink

__all__ = [
    "BregmanGenerator",
    "BregmanTronClassifier",
    "GLMTronClassifier",
    "GPLinkgisticClassifier",
    "ISGPLinkgisticClassifier",
    "PiecewiseLinearLink",
    "SlIsotronClassifier",
    "TrigonometricLink",
    "bregman_projection",
    "clip_slopes",
    "lipschitz_isotonic",
]
