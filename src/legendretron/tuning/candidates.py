"""Pairs of strengths to choose from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["ALPHAS", "LINK_ALPHA", "Candidate", "link_candidates"]

#: Strengths on ``W`` beside a learned link, whose scale can make up for that of ``W``: so they are far stronger than those of
#: logistic regression, and the same for small and large data.
ALPHAS = (0.03, 0.1, 0.3, 1.0)
#: Strength on the link: nearly free. Stronger ones come close to softmax, which logistic regression fits in less time.
LINK_ALPHA = 1e-4


class Candidate(NamedTuple):
    """Strengths on ``W`` and on the link; an infinite one leaves nothing of the link: logistic regression.

    Examples
    --------
    >>> import math
    >>> Candidate(alpha=0.01, link_alpha=math.inf).link_alpha  # logistic regression
    inf
    """

    alpha: float
    link_alpha: float

    @property
    def is_logistic(self) -> bool:
        """Whether it is logistic regression."""
        return math.isinf(self.link_alpha)


def link_candidates(alpha: float | None, link_alpha: float | None, tied: bool = False) -> list[Candidate]:
    """Pairs with the strengths that are given; ``tied`` if that on the link is to be that on ``W``.

    Examples
    --------
    >>> len(link_candidates(None, None)), link_candidates(0.1, None)
    (4, [Candidate(alpha=0.1, link_alpha=0.0001)])
    """
    alphas: Sequence[float] = ALPHAS if alpha is None else (alpha,)
    if tied:
        return [Candidate(a, a) for a in (LINK_ALPHA, 1e-2, *alphas)]
    return [Candidate(a, LINK_ALPHA if link_alpha is None else link_alpha) for a in alphas]
