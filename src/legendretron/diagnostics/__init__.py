"""Measurements of links, losses and predictions: numbers only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from legendretron._internal.extras import lazy_names

if TYPE_CHECKING:
    from legendretron.diagnostics.binned_calibration import (
        CalibrationCurve,
        calibration_curve,
        expected_calibration_error,
    )
    from legendretron.diagnostics.decomposition import Decomposition, decompose
    from legendretron.diagnostics.properness_check import MonotonicityCheck, PropernessCheck, monotonicity, properness
    from legendretron.diagnostics.smooth_calibration import (
        SmoothCalibrationCurve,
        smooth_calibration_curve,
        smooth_calibration_error,
    )
    from legendretron.diagnostics.softmax_test import LinkTest, link_test
    from legendretron.links.canonicality import CanonicalityCheck, canonicality
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "binned_calibration": ("CalibrationCurve", "calibration_curve", "expected_calibration_error"),
            "decomposition": ("Decomposition", "decompose"),
            "softmax_test": ("LinkTest", "link_test"),
            "properness_check": ("MonotonicityCheck", "PropernessCheck", "monotonicity", "properness"),
            "smooth_calibration": ("SmoothCalibrationCurve", "smooth_calibration_curve", "smooth_calibration_error"),
            "legendretron.links.canonicality": ("CanonicalityCheck", "canonicality"),
        },
    )

__all__ = [
    "CalibrationCurve",
    "CanonicalityCheck",
    "Decomposition",
    "LinkTest",
    "MonotonicityCheck",
    "PropernessCheck",
    "SmoothCalibrationCurve",
    "calibration_curve",
    "canonicality",
    "decompose",
    "expected_calibration_error",
    "link_test",
    "monotonicity",
    "properness",
    "smooth_calibration_curve",
    "smooth_calibration_error",
]
