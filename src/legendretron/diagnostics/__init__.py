"""Measurements of links, losses and predictions: numbers only."""

from legendretron.diagnostics.calibration import CalibrationCurve, calibration_curve, expected_calibration_error
from legendretron.diagnostics.monotonicity import MonotonicityReport, monotonicity
from legendretron.diagnostics.properness import PropernessReport, properness
from legendretron.diagnostics.smooth_calibration import (
    SmoothCalibrationCurve,
    smooth_calibration_curve,
    smooth_calibration_error,
)
from legendretron.links.canonicality import CanonicalityReport, canonicality

__all__ = [
    "CalibrationCurve",
    "CanonicalityReport",
    "MonotonicityReport",
    "PropernessReport",
    "SmoothCalibrationCurve",
    "calibration_curve",
    "canonicality",
    "expected_calibration_error",
    "monotonicity",
    "properness",
    "smooth_calibration_curve",
    "smooth_calibration_error",
]
