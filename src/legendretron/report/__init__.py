"""A report on how good a model is: one HTML file that can be sent to anyone."""

from legendretron.report.evaluation import EvaluationReport

__all__ = ["EvaluationReport"]
