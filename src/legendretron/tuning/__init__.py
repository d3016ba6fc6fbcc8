"""Strengths of the penalties, chosen on the training data by cross-validation."""

from legendretron.tuning.folds import make_folds
from legendretron.tuning.problem import Candidate
from legendretron.tuning.table import Tuning
from legendretron.tuning.tune import tune

__all__ = ["Candidate", "Tuning", "make_folds", "tune"]
