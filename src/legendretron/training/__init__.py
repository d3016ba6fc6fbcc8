"""The engine: many models trained side by side, on the CPU or a GPU."""

from legendretron.training.engine import train
from legendretron.training.features import as_features
from legendretron.training.history import History
from legendretron.training.model import LinearModel
from legendretron.training.problem import DivergedError, Sample, TrainingResult, TrainingSettings

__all__ = [
    "DivergedError",
    "History",
    "LinearModel",
    "Sample",
    "TrainingResult",
    "TrainingSettings",
    "as_features",
    "train",
]
