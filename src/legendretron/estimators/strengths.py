"""Strengths of the penalties: given, or to be chosen."""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["Strengths"]


class Strengths(NamedTuple):
    """What the parameters ask for; ``None`` for a strength that is to be chosen.

    Attributes
    ----------
    alpha, link_alpha : float or None
        On ``W``, and on the link; an infinite one leaves nothing of the link: logistic regression.
    tied : bool
        Whether that on the link is that on ``W``.
    has_link : bool
        Whether there is a link other than softmax.
    """

    alpha: float | None
    link_alpha: float | None = 0.0
    tied: bool = False
    has_link: bool = False

    @property
    def fixed(self) -> bool:
        """Whether nothing is to be chosen.

        Examples
        --------
        >>> Strengths(0.1, None, has_link=True).fixed, Strengths(0.1, None, tied=True, has_link=True).fixed
        (False, True)
        """
        return self.alpha is not None and (self.tied or not self.has_link or self.link_alpha is not None)

    def pair(self, alpha: float = 0.0, link_alpha: float = 0.0) -> tuple[float, float]:
        """Both strengths, with these in place of those that are not given.

        Examples
        --------
        >>> Strengths(None, 0.5, has_link=True).pair(0.1, 0.2), Strengths(0.3, tied=True, has_link=True).pair()
        ((0.1, 0.5), (0.3, 0.3))
        """
        own = alpha if self.alpha is None else self.alpha
        if not self.has_link:
            return own, math.inf
        if self.tied:
            return own, own
        return own, link_alpha if self.link_alpha is None else self.link_alpha
