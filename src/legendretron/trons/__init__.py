"""The tron family: other learners of a link and a linear predictor, for two classes."""

from legendretron.links.piecewise import PiecewiseLinearLink
from legendretron.links.trigonometric import TrigonometricLink
from legendretron.trons.bregman_projection import BregmanGenerator, bregman_projection, clip_slopes
from legendretron.trons.bregmantron import BregmanTronClassifier
from legendretron.trons.glmtron import GLMTronClassifier
from legendretron.trons.gp import GPLinkgisticClassifier
from legendretron.trons.isgp import ISGPLinkgisticClassifier
from legendretron.trons.lipschitz_isotonic import lipschitz_isotonic
from legendretron.trons.slisotron import SlIsotronClassifier

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
