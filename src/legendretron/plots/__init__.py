"""Display classes over what diagnostics and training compute; they need matplotlib."""

from legendretron.plots.reliability import ReliabilityDisplay
from legendretron.plots.training import TrainingDisplay

__all__ = ["ReliabilityDisplay", "TrainingDisplay"]
