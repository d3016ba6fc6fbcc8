"""What all displays have after drawing."""

from __future__ import annotations

from typing import Any


class Display:
    """Base of the displays; not for direct use.

    Attributes
    ----------
    ax_ : matplotlib axes
        Where the display was drawn.
    figure_ : matplotlib figure
        The figure of these axes.
    lines_ : dict
        What was drawn for each model, by its name.
    """

    ax_: Any
    figure_: Any
    lines_: dict[str, Any]

    @property
    def line_(self) -> Any:
        """What was drawn for the model; a list if there are several."""
        drawn = list(self.lines_.values())
        return drawn[0] if len(drawn) == 1 else drawn
