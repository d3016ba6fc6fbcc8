"""Display classes for the results of diagnostics and training; they need matplotlib."""

from legendretron.plots.label_quality import LabelQualityDisplay
from legendretron.plots.link import LinkDisplay
from legendretron.plots.reliability import ReliabilityDisplay
from legendretron.plots.training import TrainingDisplay
from legendretron.plots.tuning import TuningDisplay

__all__ = ["LabelQualityDisplay", "LinkDisplay", "ReliabilityDisplay", "TrainingDisplay", "TuningDisplay"]
