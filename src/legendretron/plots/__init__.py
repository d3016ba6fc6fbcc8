"""Display classes over what diagnostics and training compute; they need matplotlib."""

from legendretron.plots.link import LinkDisplay
from legendretron.plots.reliability import ReliabilityDisplay
from legendretron.plots.training import TrainingDisplay

__all__ = ["LinkDisplay", "ReliabilityDisplay", "TrainingDisplay"]
