"""Strengths of the penalties, chosen on the training data by cross-validation."""

from legendretron.tuning.folds import make_folds
from legendretron.tuning.problem import Candidate
from legendretron.tuning.rules import batch_size_for, hidden_for, steps_for
from legendretron.tuning.table import Tuning
from legendretron.tuning.tune import tune
from legendretron.tuning.wrong_labels import FoundNoise

__all__ = ["Candidate", "FoundNoise", "Tuning", "batch_size_for", "hidden_for", "make_folds", "steps_for", "tune"]
