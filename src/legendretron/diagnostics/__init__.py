"""Measurements of links, losses and predictions: numbers only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from legendretron._internal.lazy import lazy_names

if TYPE_CHECKING:
    from legendretron.diagnostics.binned_calibration import (
        CalibrationCurve,
        calibration_curve,
        expected_calibration_error,
    )
    from legendretron.diagnostics.monotonicity_check import MonotonicityReport, monotonicity
    from legendretron.diagnostics.properness_check import PropernessReport, properness
    from legendretron.diagnostics.smooth_calibration import (
        SmoothCalibrationCurve,
        smooth_calibration_curve,
        smooth_calibration_error,
    )
    from legendretron.links.canonicality import CanonicalityReport, canonicality
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "binned_calibration": ("CalibrationCurve", "calibration_curve", "expected_calibration_error"),
            "monotonicity_check": ("MonotonicityReport", "monotonicity"),
            "properness_check": ("PropernessReport", "properness"),
            "smooth_calibration": ("SmoothCalibrationCurve", "smooth_calibration_curve", "smooth_calibration_error"),
            "legendretron.links.canonicality": ("CanonicalityReport", "canonicality"),
        },
    )

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
