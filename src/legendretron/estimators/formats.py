"""Names and numbers of the formats of saved models: raise a number when the content or its meaning changes."""

from __future__ import annotations

__all__ = ["CALIBRATOR_FORMAT", "ESTIMATOR_FORMAT", "ESTIMATOR_KIND", "TABLE_FORMAT", "TABLE_KIND"]

ESTIMATOR_FORMAT = "legendretron-estimator"
TABLE_FORMAT = "legendretron-table"
CALIBRATOR_FORMAT = "legendretron-calibrator"
#: A test checks that the number is raised.
ESTIMATOR_KIND = f"{ESTIMATOR_FORMAT}-5"
TABLE_KIND = f"{TABLE_FORMAT}-2"
