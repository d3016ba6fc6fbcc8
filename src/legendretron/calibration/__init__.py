"""Calibration of a classifier's probabilities: the map, the convex problem that fits it, and the choice of its strength."""

from legendretron.calibration.map import CalibrationMap

__all__ = ["CalibrationMap"]
