"""Strengths of the penalties, chosen on the training data by cross-validation; used by estimators only."""

__all__: list[str] = []
