"""Measurements of links, losses and predictions: numbers only."""

from legendretron.diagnostics.calibration import CalibrationCurve, calibration_curve, expected_calibration_error
from legendretron.diagnostics.monotonicity import MonotonicityReport, monotonicity
from legendretron.diagnostics.properness import PropernessReport, properness
from legendretron.links.canonicality import CanonicalityReport, canonicality

__all__ = [
    "CalibrationCurve",
    "CanonicalityReport",
    "MonotonicityReport",
    "PropernessReport",
    "calibration_curve",
    "canonicality",
    "expected_calibration_error",
    "monotonicity",
    "properness",
]
