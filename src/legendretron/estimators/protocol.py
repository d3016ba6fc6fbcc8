"""What of training the paper does in its own way, and users have no parameters for."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Protocol"]


class Protocol(NamedTuple):
    """How an estimator is trained, beyond its parameters.

    Attributes
    ----------
    schedule : {"cosine", "step", "constant"}
        How the learning rate decays; ``"step"`` multiplies it by ``decay`` every ``decay_every`` epochs.
    decay, decay_every : float, int
        Factor and number of epochs of ``schedule="step"``.
    init : {"centred", "identity", "paper"}
        Start as logistic regression at zero, or with the random draws of the paper's code. With ``"centred"``, the penalty
        acts on the distance of the link from softmax, with the others on its parameters.
    penalize_intercept : bool
        Whether ``alpha`` applies to the intercept too.
    symmetric : bool
        Whether the penalty of logistic regression is the same whichever class is the reference, as if every class had a
        weight vector; if not, it is on the ``n_classes - 1`` vectors as they are.
    """

    schedule: str = "cosine"
    decay: float = 0.95
    decay_every: int = 4
    init: str = "centred"
    penalize_intercept: bool = False
    symmetric: bool = True
