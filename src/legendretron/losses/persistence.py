"""Saving and loading of losses: one safetensors file with a JSON header. Nothing is unpickled."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from legendretron._internal.artifacts import read_artifact, write_artifact
from legendretron._internal.fields import Field, check_fields
from legendretron._internal.plain import plain
from legendretron.links.base import TensorSpec
from legendretron.links.persistence import check_finite, check_tensors, rebuild_link, saved_layout, saved_link
from legendretron.losses.canonical import CanonicalLoss
from legendretron.losses.composite import CompositeLoss
from legendretron.losses.criterion import Criterion
from legendretron.losses.named import LogLoss, MatsushitaLoss, SphericalLoss, SquareLoss
from legendretron.losses.of_link import LossOfLink

__all__ = ["load_loss", "save_loss"]

#: Name and number of the format: raise the number when the content or its meaning changes.
_KIND = "legendretron-loss-1"
_LOSSES: dict[str, type[Criterion]] = {
    cls.__name__: cls for cls in (CanonicalLoss, CompositeLoss, LogLoss, MatsushitaLoss, SphericalLoss, SquareLoss)
}
_LINK = "link."
_HEADER = {
    "loss": Field(f"one of {', '.join(_LOSSES)}", lambda value: value in [*_LOSSES]),
    "settings": Field("an object of the loss's settings", lambda value: isinstance(value, dict)),
    "link": Field("an object of a link's settings, or null", lambda value: value is None or isinstance(value, dict)),
}


def save_loss(loss: Criterion, path: str | os.PathLike[str]) -> None:
    """Write a loss to a file, with its link if it has one: settings as JSON, tensors by safetensors, whole or not at all.

    Parameters
    ----------
    loss : CanonicalLoss, CompositeLoss, LogLoss, SquareLoss, SphericalLoss or MatsushitaLoss
        With its reduction, class weights and other settings.
    path : path-like
        File to write; its folder is made if needed.

    Raises
    ------
    ValueError
        If the loss is of another class, its link is not registered, or it holds values that are not finite.

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
    link, tensors = saved_link(loss._link, _LINK) if isinstance(loss, LossOfLink) else (None, {})
    tensors = dict(tensors)
    if loss.weight is not None:
        tensors["weight"] = loss.weight
    try:
        check_finite(tensors)
    except ValueError as error:
        raise ValueError(f"the loss cannot be saved: {error}") from error
    write_artifact(path, _KIND, tensors, {"loss": name, "settings": plain(loss._settings(), "settings"), "link": link})


def load_loss(path: str | os.PathLike[str]) -> Criterion:
    """Read a loss that :func:`save_loss` wrote; raise a ``ValueError`` for anything else.

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
    tensors, header = read_artifact(path, _KIND)
    try:
        check_fields("the header", header, _HEADER)
        cls = _LOSSES[header["loss"]]
        of_link = issubclass(cls, LossOfLink)
        if of_link == (header["link"] is None):
            raise ValueError(f"link must be {'present' if of_link else 'null'} for a {cls.__name__}.")
        check_tensors(tensors, _layout(header, tensors))
        check_finite(tensors)
        given = (
            [rebuild_link(header["link"], {k: t for k, t in tensors.items() if k != "weight"}, _LINK)]
            if of_link
            else []
        )
        return _made(cls, given, header["settings"], tensors.get("weight"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{os.fspath(path)!r} is not a loss that can be loaded: {error}") from error


def _layout(header: dict[str, Any], tensors: dict[str, Tensor]) -> Iterator[TensorSpec]:
    if (weight := tensors.get("weight")) is not None:
        if not weight.is_floating_point():
            raise ValueError(f"weight must have a floating-point dtype, got {weight.dtype}.")
        yield TensorSpec("weight", (math.prod(weight.shape),), weight.dtype, trained=False)
    if header["link"] is not None:
        yield from saved_layout(header["link"], _LINK)


def _made(cls: type[Criterion], given: list[Any], settings: dict[str, Any], weight: Tensor | None) -> Criterion:
    make: Callable[..., Criterion] = cls  # each class has its own arguments
    try:
        loss = make(*given, weight=weight, **settings)
    except TypeError as error:  # a setting that the loss does not have
        raise ValueError(f"settings must be those of a {cls.__name__}: {error}.") from error
    if set(settings) != set(loss._settings()):
        raise ValueError(f"settings must be {', '.join(loss._settings())}, got {', '.join(settings)}.")
    return loss
