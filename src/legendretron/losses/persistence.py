"""Saving and loading of losses: their settings, their class weights, and the link of those that have one."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from legendretron._internal.artifacts import load_state, save_state
from legendretron._internal.fields import OBJECT, array, check_fields, one_of, optional
from legendretron._internal.printable import one_line
from legendretron.links.persistence import link_from_state, link_to_state
from legendretron.losses.canonical import CanonicalLoss
from legendretron.losses.composite import CompositeLoss, LinkLoss
from legendretron.losses.criterion import Criterion
from legendretron.losses.named import LogLoss, MatsushitaLoss, SphericalLoss, SquareLoss

_LOSSES: dict[str, type[Criterion]] = {
    cls.__name__: cls for cls in (CanonicalLoss, CompositeLoss, LogLoss, MatsushitaLoss, SphericalLoss, SquareLoss)
}
_FIELDS = {
    "loss": one_of(*_LOSSES),
    "settings": OBJECT,
    "weight": optional(array(None, dtype=("float16", "bfloat16", "float32", "float64"))),
    "link": optional(OBJECT),
}


def save_loss(loss: Criterion, path: str | os.PathLike[str]) -> None:
    """Save a loss to a file, with its link if it has one; the file is written atomically.

    Parameters
    ----------
    loss : CanonicalLoss, CompositeLoss, LogLoss, SquareLoss, SphericalLoss or MatsushitaLoss
        The loss, which is saved with its reduction, class weights and other settings.
    path : path-like
        File to write; its folder is created if needed.

    Raises
    ------
    ValueError
        If the loss is of another class, its link is not registered, or it contains non-finite values.

    Examples
    --------
    >>> import tempfile
    >>> from legendretron.links import CanonicalLink
    >>> loss = CanonicalLoss(CanonicalLink(3), label_smoothing=0.1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_loss(loss, f"{folder}/loss.safetensors")
    ...     again = load_loss(f"{folder}/loss.safetensors")
    >>> again.label_smoothing
    0.1
    """
    name = type(loss).__name__
    if _LOSSES.get(name) is not type(loss):
        raise ValueError(f"loss must be a {', '.join([*_LOSSES][:-1])} or {[*_LOSSES][-1]} to be saved, got {name}.")
    link = link_to_state(loss._link) if isinstance(loss, LinkLoss) else None
    state = {"loss": name, "settings": loss._settings(), "weight": loss.weight, "link": link}
    save_state(path, "loss", state, _from_state)


def load_loss(path: str | os.PathLike[str]) -> Criterion:
    """Load a loss that was saved by :func:`save_loss`; other files raise a ``ValueError``.

    The link of the loss must be registered: import the module of a link of your own first.

    Examples
    --------
    >>> import tempfile
    >>> from legendretron.links import SoftmaxLink
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_loss(CanonicalLoss(SoftmaxLink(3)), f"{folder}/loss.safetensors")
    ...     type(load_loss(f"{folder}/loss.safetensors")).__name__
    'CanonicalLoss'
    """
    return load_state(path, {"loss": _from_state})


def _from_state(state: dict[str, Any]) -> Criterion:
    check_fields("a loss", state, _FIELDS)
    cls = _LOSSES[state["loss"]]
    has_link = issubclass(cls, LinkLoss)
    if has_link == (state["link"] is None):
        raise ValueError(f"link must be {'present' if has_link else 'null'} for a {cls.__name__}.")
    given = [link_from_state(state["link"])] if has_link else []
    make: Callable[..., Criterion] = cls  # each class has its own arguments
    try:
        loss = make(*given, weight=state["weight"], **state["settings"])
    except TypeError as error:  # a setting that the loss does not have
        raise ValueError(f"settings must be those of a {cls.__name__}: {error}.") from error
    if set(state["settings"]) != set(loss._settings()):
        raise ValueError(
            f"settings must be {', '.join(loss._settings())}, got {one_line(', '.join(state['settings']))}."
        )
    return loss
