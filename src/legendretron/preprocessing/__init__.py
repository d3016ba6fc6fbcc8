"""Tables with text, dates and gaps, as arrays of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from legendretron._internal.extras import lazy_names

if TYPE_CHECKING:
    from legendretron.preprocessing.drift import DriftWarning
    from legendretron.preprocessing.encoder import TableEncoder
else:
    __getattr__, __dir__ = lazy_names(__name__, {"drift": ("DriftWarning",), "encoder": ("TableEncoder",)})

__all__ = ["DriftWarning", "TableEncoder"]
