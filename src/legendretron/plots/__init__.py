"""Display classes for the results of diagnostics and training; they need matplotlib."""

from legendretron.plots.canonicality import CanonicalityDisplay, MeasuredLink
from legendretron.plots.label_quality import LabelQualityDisplay, PredictionSetDisplay
from legendretron.plots.link import LinkDisplay
from legendretron.plots.loss import LossDisplay
from legendretron.plots.probability_map import ProbabilityMapDisplay
from legendretron.plots.reliability import ClasswiseReliabilityDisplay, ReliabilityDisplay
from legendretron.plots.training import TrainingDisplay, TuningDisplay
from legendretron.plots.triangle import TriangleDisplay

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
