"""Measurements of links and losses: numbers only."""

from legendretron.diagnostics.canonicality import CanonicalityReport, canonicality
from legendretron.diagnostics.properness import PropernessReport, properness

__all__ = ["CanonicalityReport", "PropernessReport", "canonicality", "properness"]
