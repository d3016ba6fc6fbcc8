"""Saving and loading of links: one safetensors file with a JSON header. Nothing is unpickled."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from legendretron._internal.artifacts import read_artifact, write_artifact
from legendretron._internal.fields import Field, check_fields
from legendretron._internal.kept_values import keep_values
from legendretron.links.base import Link, TensorSpec
from legendretron.links.registry import link_config, make_link, state_layout

__all__ = ["check_finite", "check_tensors", "load_link", "rebuild_link", "save_link", "saved_layout", "saved_link"]

#: Name and number of the format: raise the number when the content or its meaning changes.
_KIND = "legendretron-link-1"
_PRECISIONS = {
    str(dtype).removeprefix("torch."): dtype for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16)
}
_HEADER = {"link": Field("an object of a link's settings", lambda value: isinstance(value, dict))}


def save_link(link: Link, path: str | os.PathLike[str]) -> None:
    """Write a link to a file: its settings as JSON, its tensors by safetensors, whole or not at all.

    Parameters
    ----------
    link : Link
        Registered, see :func:`register_link`, and without run axes.
    path : path-like
        File to write; its folder is made if needed.

    Raises
    ------
    ValueError
        If the link has no name, run axes, or values that are not finite.

    Examples
    --------
    >>> import tempfile
    >>> from legendretron.links import CanonicalLink
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_link(CanonicalLink(3), f"{folder}/link.safetensors")
    ...     load_link(f"{folder}/link.safetensors").n_classes
    3
    """
    if not isinstance(link, Link):
        raise ValueError(f"link must be a legendretron Link, got {type(link).__name__}.")
    header, tensors = saved_link(link)
    write_artifact(path, _KIND, tensors, {"link": header})


def load_link(path: str | os.PathLike[str]) -> Link:
    """Read a link that :func:`save_link` wrote, in evaluation mode; raise a ``ValueError`` for anything else.

    The values read are the link's start: ``reset_parameters`` restores them. They are read also where networks are built
    without memory, under ``torch.device("meta")``.

    A link of your own must have been registered: import its module first.

    Examples
    --------
    >>> import tempfile
    >>> from legendretron.links import CompositeLink
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_link(CompositeLink(4), f"{folder}/link.safetensors")
    ...     type(load_link(f"{folder}/link.safetensors")).__name__
    'CompositeLink'
    """
    tensors, header = read_artifact(path, _KIND)
    try:
        check_fields("the header", header, _HEADER)
        check_tensors(tensors, saved_layout(header["link"]))
        check_finite(tensors)
        link = rebuild_link(header["link"], tensors).eval()
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{os.fspath(path)!r} is not a link that can be loaded: {error}") from error
    keep_values(link)
    return link


# --- for files that hold a link and more ---


def saved_link(link: Link, prefix: str = "") -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Settings of a link with its dtype, and its tensors by name, as they are saved; a ``ValueError`` if they cannot be."""
    if link.run_shape:
        raise ValueError(
            f"link must have no run axes to be saved, got run_shape={link.run_shape}; use take_run(link, r)."
        )
    header = {**link_config(link), "dtype": _precision(link)}
    tensors = {f"{prefix}{name}": tensor for name, tensor in link.state_dict().items()}
    try:
        check_tensors(tensors, saved_layout(header, prefix))
        check_finite(tensors)
    except ValueError as error:  # loading would raise the same error
        raise ValueError(f"{type(link).__name__} cannot be saved: {error}") from error
    return header, tensors


def saved_layout(header: Mapping[str, Any], prefix: str = "") -> Iterator[TensorSpec]:
    """Yield name, shape and dtype of the tensors that the settings require."""
    if (precision := header.get("dtype")) not in [*_PRECISIONS]:
        name = prefix.removesuffix(".") or "link"
        raise ValueError(f"dtype of {name} must be one of {', '.join(_PRECISIONS)}, got {reprlib.repr(precision)}.")
    settings = {name: value for name, value in header.items() if name != "dtype"}
    for tensor in state_layout(settings, _PRECISIONS[precision]):
        yield tensor._replace(name=f"{prefix}{tensor.name}")


def check_tensors(tensors: Mapping[str, Tensor], layout: Iterable[TensorSpec]) -> None:
    """Raise a ``ValueError`` unless these are the tensors of the layout; it stops at the first that is missing."""
    left = dict(tensors)
    for name, shape, dtype, _ in layout:
        if (tensor := left.pop(name, None)) is None:
            raise ValueError(f"the header requires a tensor {name!r}, which is missing.")
        if tuple(tensor.shape) != shape or tensor.dtype != dtype:
            raise ValueError(
                f"{name} must be of shape {shape} and {dtype} by the header, got {tuple(tensor.shape)} and {tensor.dtype}."
            )
    if left:
        raise ValueError(f"the header does not include the tensors {reprlib.repr(sorted(left))}.")


def check_finite(tensors: Mapping[str, Tensor]) -> None:
    """Raise a ``ValueError`` that names the first tensor with NaN or infinity; minus infinity is the logarithm of 0."""
    for name, tensor in tensors.items():
        if bool((tensor.isnan() | tensor.isposinf()).any()):
            raise ValueError(f"{name} holds values that are not finite, so its training has diverged.")


def rebuild_link(header: Mapping[str, Any], tensors: Mapping[str, Tensor], prefix: str = "") -> Link:
    """Build a link from checked settings and tensors."""
    settings = {**header, "dtype": _PRECISIONS[header["dtype"]]}
    with torch.device("cpu"):  # the values are there, also where networks are built without memory
        # a separate generator: the initial values are overwritten, and loading must not advance the global generator
        link = make_link(settings.pop("kind"), settings.pop("n_classes"), generator=torch.Generator(), **settings)
    link.load_state_dict({name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)})
    return link


def _precision(link: Link) -> str:
    floats = [tensor.dtype for tensor in link.state_dict().values() if tensor.is_floating_point()]
    return str(floats[0]).removeprefix("torch.") if floats else "float32"
