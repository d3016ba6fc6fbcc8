"""Links from and to plain settings that fit into JSON, and the tensors that settings ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from legendretron._internal.validation import check_choice, check_integer
from legendretron.links.base import Link
from legendretron.links.canonical import CanonicalLink
from legendretron.links.composite import CompositeLink
from legendretron.links.softmax import SoftmaxLink

__all__ = ["link_config", "make_link", "settings_of", "state_layout"]

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


#: What :func:`link_config` gives beside the kind; all but the network are integers.
_CONFIG: dict[str, tuple[str, ...]] = {
    "softmax": ("n_classes",),
    "composite": ("n_classes", "n_blocks", "hidden", "depth", "network"),
    "canonical": ("n_classes", "n_nests"),
}

Entry = tuple[str, tuple[int, ...], torch.dtype]


def state_layout(config: Any, dtype: torch.dtype) -> Iterator[Entry]:
    """Yield name, shape and dtype of what is in the state dict of a link with these settings, without building it.

    So that settings from a file can be compared with its tensors before they take any memory: entries come one by one, and
    whoever compares may stop at the first that is missing.

    Parameters
    ----------
    config : dict
        What :func:`link_config` gives; anything else is refused.
    dtype : torch.dtype
        Of the parameters.

    Examples
    --------
    >>> for name, shape, _ in state_layout({"kind": "canonical", "n_classes": 10**9, "n_nests": 2}, torch.float32):
    ...     print(name, shape)
    nests.log_mu (2,)
    nests.log_beta (1,)
    nests.offsets (2, 999999999)
    nests.reference_offset (2,)
    nests.gate_bias (2,)
    """
    if not isinstance(config, dict):
        raise ValueError(f"link must be a dict of settings, got {type(config).__name__}.")
    kind = check_choice("kind", config.get("kind"), tuple(_CONFIG))
    if set(config) != {"kind", *_CONFIG[kind]}:
        raise ValueError(
            f"link of kind {kind!r} must have the settings {', '.join(_CONFIG[kind])}, got {list(config)}."
        )
    for name in _CONFIG[kind]:
        if name == "network":
            check_choice(name, config[name], ("ficnn", "cpflow"))
        else:
            check_integer(name, config[name], 2 if name == "n_classes" else 1)
    dim = config["n_classes"] - 1
    if kind == "canonical":
        yield from _canonical_layout(dim, config["n_nests"], dtype)
    elif kind == "composite":
        for i in range(config["n_blocks"]):
            for name, shape, own in _block_layout(dim, config["hidden"], config["depth"], config["network"], dtype):
                yield f"blocks.{i}.{name}", shape, own


def _canonical_layout(dim: int, n_nests: int, dtype: torch.dtype) -> Iterator[Entry]:
    yield "nests.log_mu", (n_nests,), dtype
    yield "nests.log_beta", (1,), dtype
    yield "nests.offsets", (n_nests, dim), dtype
    yield "nests.reference_offset", (n_nests,), dtype
    yield "nests.gate_bias", (n_nests,), dtype


def _block_layout(dim: int, hidden: int, depth: int, network: str, dtype: torch.dtype) -> Iterator[Entry]:
    chain = hidden if network == "ficnn" else hidden - hidden // 2
    rank, rows = depth * hidden + 1, (depth - 1) * chain + 1
    yield "weight", (rank, dim), dtype
    yield "bias", (rank,), dtype
    yield "raw_mixing", (rows, hidden), dtype
    yield "raw_alpha", (1,), dtype
    yield "raw_gamma", (1,), dtype
    if network == "cpflow":
        yield "shift", (rows - 1,), dtype
        yield "log_scale", (rows,), dtype
        yield "mixing_bias", (rows - 1,), dtype
        yield "initialized", (), torch.bool
