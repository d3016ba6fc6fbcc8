"""Display classes for the results of diagnostics and training; they need matplotlib."""

from legendretron.plots.canonicality import CanonicalityDisplay, MeasuredLink
from legendretron.plots.label_quality import LabelQualityDisplay
from legendretron.plots.link import LinkDisplay
from legendretron.plots.loss import LossDisplay
from legendretron.plots.prediction_sets import PredictionSetDisplay
from legendretron.plots.probability_map import ProbabilityMapDisplay
from legendretron.plots.reliability import ClasswiseReliabilityDisplay, ReliabilityDisplay
from legendretron.plots.training import TrainingDisplay
from legendretron.plots.triangle_loss import TriangleDisplay
from legendretron.plots.tuning import TuningDisplay

__all__ = [
    "CanonicalityDisplay",
    "ClasswiseReliabilityDisplay",
    "LabelQualityDisplay",
    "LinkDisplay",
    "LossDisplay",
    "MeasuredLink",
    "PredictionSetDisplay",
    "ProbabilityMapDisplay",
    "ReliabilityDisplay",
    "TrainingDisplay",
    "TriangleDisplay",
    "TuningDisplay",
]
