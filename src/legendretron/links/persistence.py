"""Saving and loading of links: their settings, and their tensors."""

from __future__ import annotations

import math
import os
import reprlib
from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from legendretron._internal.artifacts import load_state, save_state
from legendretron._internal.fields import OBJECT, TEXT, Field, check_fields, integer
from legendretron._internal.start import keep_values
from legendretron.links.base import Link
from legendretron.links.registry import link_class, link_config, make_link
from legendretron.links.runs import check_single_link

_TENSORS = Field(
    "an object of tensors",
    lambda value: isinstance(value, dict) and all(isinstance(tensor, Tensor) for tensor in value.values()),
)
_FIELDS = {"kind": TEXT, "n_classes": integer(2), "settings": OBJECT, "tensors": _TENSORS}
_PRECISIONS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
#: Drawn values have nowhere to go on the device "meta", where torch would import its compiler to draw them, for seconds.
_DRAWS = ("normal_", "uniform_", "exponential_", "random_", "bernoulli_")
AnyLink = TypeVar("AnyLink", bound=Link)


def save_link(link: Link, path: str | os.PathLike[str]) -> None:
    """Save a link to a file, which is written atomically.

    Parameters
    ----------
    link : Link
        A registered link, see :func:`register_link`, without run axes.
    path : path-like
        File to write; its folder is created if needed.

    Raises
    ------
    ValueError
        If the link is not registered, has run axes, or contains non-finite values.

    Examples
    --------
    >>> import tempfile
    >>> from legendretron.links import CanonicalLink
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_link(CanonicalLink(3), f"{folder}/link.safetensors")
    ...     load_link(f"{folder}/link.safetensors").n_classes
    3
    """
    save_state(path, "link", link_to_state(check_single_link(link)), link_from_state)


def load_link(path: str | os.PathLike[str]) -> Link:
    """Load a link that was saved by :func:`save_link`, in evaluation mode; other files raise a ``ValueError``.

    The loaded values are the initial values of the link: ``reset_parameters`` restores them. They are loaded even under
    ``torch.device("meta")``.

    A link of your own must be registered: import its module first.

    Examples
    --------
    >>> import tempfile
    >>> from legendretron.links import CompositeLink
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_link(CompositeLink(4), f"{folder}/link.safetensors")
    ...     type(load_link(f"{folder}/link.safetensors")).__name__
    'CompositeLink'
    """
    link = load_state(path, {"link": link_from_state}).eval()
    keep_values(link)
    return link


# --- links as parts of what is saved ---


def link_to_state(link: Link) -> dict[str, Any]:
    """The state of a link: the name of its class, its settings and its tensors."""
    settings = link_config(check_single_link(link))
    kind, n_classes = settings.pop("kind"), settings.pop("n_classes")
    return {"kind": kind, "n_classes": n_classes, "settings": settings, "tensors": dict(link.state_dict())}


def link_from_state(state: dict[str, Any]) -> Link:
    """Build a link from what :func:`link_to_state` returned; anything else raises a ``ValueError``.

    Settings that need other tensors than there are, such as a billion of blocks, cost neither time nor memory.
    """
    check_fields("a link", state, _FIELDS)
    kind, n_classes, settings, tensors = (state[name] for name in _FIELDS)
    cls = link_class(kind)
    if set(settings) != set(cls.setting_names()):
        raise ValueError(f"a link of kind {kind!r} must have the settings {cls.setting_names()}, got {[*settings]}.")
    dtype = next((tensor.dtype for tensor in tensors.values() if tensor.dtype in _PRECISIONS), torch.float32)
    try:
        blank = blank_link(cls, n_classes, settings, dtype, size=sum(map(Tensor.numel, tensors.values())))
    except ValueError:
        raise
    except Exception as error:  # the constructor of a user's link may raise anything
        raise ValueError(
            f"a link of kind {kind!r} cannot be built with {reprlib.repr(settings)} on the device 'meta', without memory: "
            f"{error}. Make tensors whose values the constructor reads under torch.device('cpu')."
        ) from error
    _check_tensors(tensors, blank.state_dict(), dtype)
    check_finite(tensors)
    with torch.device("cpu"):  # the values are there, also where networks are built without memory
        # a separate generator: the initial values are overwritten, and loading must not advance the global generator
        link = make_link(kind, n_classes, generator=torch.Generator(), dtype=dtype, **settings)
    link.load_state_dict(tensors)
    return link


def blank_link(
    cls: type[AnyLink], n_classes: int, settings: Mapping[str, Any], dtype: torch.dtype, size: int | None = None
) -> AnyLink:
    """Return a link on the device ``"meta"``, where tensors have shapes and no values.

    With ``size``, the number of entries that its tensors should have, settings that need far more raise a ``ValueError``.
    """
    with torch.random.fork_rng(devices=[]), torch.device("meta"), _Blank(size):
        return cls.from_settings(n_classes, settings, dtype=dtype)


class _Blank(TorchFunctionMode):
    """Operations of a constructor on the device ``"meta"``, as many as tensors of some size need, and no more."""

    def __init__(self, size: int | None) -> None:
        super().__init__()
        self.calls: float = math.inf if size is None else 1000 + 8 * size
        self.entries: float = math.inf if size is None else 10**6 + 8 * size

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in _DRAWS and args[0].is_meta:
            result = args[0]
        else:
            result = func(*args, **(kwargs or {}))
        if not isinstance(result, Tensor):  # such as torch.set_grad_enabled, whose callers expect no error
            return result
        self.calls -= 1
        if result.is_meta and not any(isinstance(arg, Tensor) for arg in args):
            self.entries -= result.numel()
        if self.calls < 0 or self.entries < 0:
            raise ValueError("the settings of the link need more or larger tensors than there are.")
        return result


def _check_tensors(tensors: Mapping[str, Tensor], blank: Mapping[str, Tensor], dtype: torch.dtype) -> None:
    """Raise a ``ValueError`` unless the tensors are those of a link without values."""
    if set(tensors) != set(blank):
        raise ValueError(f"by its settings, the link has the tensors {[*blank]}, got {reprlib.repr([*tensors])}.")
    for name, like in blank.items():
        wanted = dtype if like.is_floating_point() else like.dtype
        if tensors[name].shape != like.shape or tensors[name].dtype != wanted:
            raise ValueError(
                f"{name} must be of shape {tuple(like.shape)} and {wanted} by the settings of the link, got "
                f"{tuple(tensors[name].shape)} and {tensors[name].dtype}."
            )


def check_finite(tensors: Mapping[str, Tensor]) -> None:
    """Raise a ``ValueError`` that names the first tensor with NaN or infinity; minus infinity is the logarithm of 0."""
    for name, tensor in tensors.items():
        if bool((tensor.isnan() | tensor.isposinf()).any()):
            raise ValueError(f"{name} holds values that are not finite, so its training has diverged.")
