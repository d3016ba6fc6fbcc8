"""Tables with text, dates and gaps, as arrays of numbers."""

from legendretron.preprocessing.drift import DriftWarning
from legendretron.preprocessing.encoder import TableEncoder

__all__ = ["DriftWarning", "TableEncoder"]
