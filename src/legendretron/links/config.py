"""Links from and to plain settings that fit into JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from legendretron.links.base import Link
from legendretron.links.canonical import CanonicalLink
from legendretron.links.composite import CompositeLink
from legendretron.links.softmax import SoftmaxLink
from legendretron.validation import check_choice

__all__ = ["link_config", "make_link", "settings_of"]

_KINDS: dict[str, Callable[..., Link]] = {
    "softmax": SoftmaxLink,
    "composite": CompositeLink,
    "canonical": CanonicalLink,
}


#: What can be set for each kind; a link's other arguments are where and how it is made.
_SETTINGS: dict[str, tuple[str, ...]] = {
    "softmax": (),
    "composite": ("n_blocks", "hidden", "depth", "network", "init", "generator", "device"),
    "canonical": ("n_nests", "generator", "device"),
}


def settings_of(kind: str, **settings: Any) -> dict[str, Any]:
    """Return those of the settings that a link of this kind has.

    Examples
    --------
    >>> settings_of("canonical", n_blocks=2, n_nests=3)
    {'n_nests': 3}
    """
    check_choice("link", kind, tuple(_KINDS))
    return {name: settings[name] for name in _SETTINGS[kind] if name in settings}


def make_link(kind: str, n_classes: int, *, dtype: torch.dtype | None = None, **settings: Any) -> Link:
    """Return a link by the name of its kind.

    Examples
    --------
    >>> make_link("canonical", 3, n_nests=2).is_canonical
    True
    """
    check_choice("link", kind, tuple(_KINDS))
    if kind == "softmax":
        return SoftmaxLink(n_classes)
    return _KINDS[kind](n_classes, dtype=dtype, **settings)


def link_config(link: Link) -> dict[str, Any]:
    """Return what :func:`make_link` needs to build a link of the same shape; parameters are in its state dict."""
    if type(link) is SoftmaxLink:
        return {"kind": "softmax", "n_classes": link.n_classes}
    if type(link) is CanonicalLink:
        return {"kind": "canonical", "n_classes": link.n_classes, "n_nests": link.nests.n_nests}
    if type(link) is CompositeLink:
        first = link._chain()[0]
        return {
            "kind": "composite",
            "n_classes": link.n_classes,
            "n_blocks": len(link.blocks),
            "hidden": first.hidden,
            "depth": first.depth,
            "network": link.network,
        }
    raise ValueError(f"link must be of one of the library's kinds to be saved, got {type(link).__name__}.")
