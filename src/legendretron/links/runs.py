"""Links with run axes: stacking links, and taking one out again."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, TypeVar

import torch

from legendretron._internal.validation import at_least_single
from legendretron.links.base import Link

AnyLink = TypeVar("AnyLink", bound=Link)


def check_single_link(link: object, name: str = "link", n_classes: int | None = None) -> Link:
    """Return a link without run axes, for this number of classes if it is given, or raise a ``ValueError``."""
    if not isinstance(link, Link):
        raise ValueError(f"{name} must be a legendretron Link, got {type(link).__name__}.")
    if link.run_shape:
        raise ValueError(
            f"{name} must have no run axes, got run_shape={link.run_shape}; take_run(link, r) gives one run."
        )
    if n_classes not in (None, link.n_classes):
        raise ValueError(f"{name} must be for n_classes={n_classes}, got {link!r}.")
    return link


def stack_runs(links: Sequence[AnyLink]) -> AnyLink:
    """Return one link with ``run_shape = (R,)`` from ``R`` links of the same kind and settings.

    Only parameters have run axes. Buffers are shared by all runs, so the links must have equal buffers: links given by
    different tables, such as two :class:`~legendretron.trons.PiecewiseLinearLink`, cannot be stacked.

    Raises
    ------
    ValueError
        If the links differ in anything but the values of their parameters, or are of a class of your own that does not
        support several runs.

    Examples
    --------
    >>> from legendretron.links import CanonicalLink
    >>> stack_runs([CanonicalLink(3), CanonicalLink(3)]).run_shape
    (2,)
    """
    links = list(links)
    if not links or not all(isinstance(link, Link) for link in links):
        kinds = ", ".join(type(link).__name__ for link in links)
        raise ValueError(f"links must be at least one link, and nothing else, got [{kinds}].")
    first, settings = links[0], _settings(links[0])
    if first.run_shape:
        raise ValueError(f"links must be without run axes, got run_shape={first.run_shape}.")
    for i, link in enumerate(links):
        for one, other in zip_longest(settings, _settings(link)):
            if one != other:
                raise ValueError(f"links must be alike, but links[{i}] has {other} where links[0] has {one}.")
    for name, buffer in first.named_buffers():
        values = torch.stack([link.get_buffer(name) for link in links])
        if not bool((values == buffer).all()):
            raise ValueError(
                f"links must have equal buffers, but differ in {name!r}, which has no run axis. Links that wait for a first "
                "batch cannot be stacked with others that have had one: call link.initialize(z) on them first. Links given "
                "by different tables cannot be stacked at all: keep them in a list."
            )
    _check_user_link(first)
    return _stack(links)


def _stack(links: Sequence[AnyLink]) -> AnyLink:
    stacked = _with_run_shape(links[0], (len(links),))
    for name, parameter in stacked.named_parameters():
        parameter.data = torch.stack([link.get_parameter(name).detach() for link in links])
    return stacked


@torch.no_grad()
def _check_user_link(link: Link) -> None:
    """Raise a ``ValueError`` if a user's link does not compute two runs side by side as it computes each of them.

    With one run, or as many rows as runs, a mistake may not show, or only in the values.
    """
    ours = __name__.partition(".")[0]
    if all(type(part).__module__.partition(".")[0] == ours for part in link.modules() if isinstance(part, Link)):
        return
    runs = [copy.deepcopy(link).eval() for _ in range(2)]
    for parameter in runs[1].parameters():
        parameter.add_(0.125)
    like = link._first_tensor()
    like = torch.empty(0) if like is None else at_least_single(like)
    shape = (2, 3, link.n_classes - 1)  # as many rows as neither runs nor one
    z = torch.linspace(-1.5, 2.0, math.prod(shape), dtype=like.dtype, device=like.device).reshape(shape)
    single = torch.stack([run.inverse(rows) for run, rows in zip(runs, z, strict=True)])
    name, together = type(link).__name__, None
    try:
        together = _stack(runs).inverse(z)
    except (RuntimeError, IndexError, ValueError) as error:
        reason = f": {error}"
    else:
        reason = ", and gives other probabilities"
    if together is None or not torch.allclose(together, single, rtol=1e-3, atol=1e-5, equal_nan=True):
        raise ValueError(
            f"{name} does not compute several runs at once{reason}. With run_shape=(R,) its parameters have an axis of R "
            "entries in front, and predictors the shape (R, n, C - 1): give a parameter an axis for the rows by "
            "parameter.unsqueeze(-2), and transpose by .mT. See 'Writing a link' in the documentation."
        )


def _settings(link: Link) -> list[tuple[object, ...]]:
    """What links must share to be stacked: modules with plain settings, and shape, dtype and device of tensors."""
    modules = [(name, type(module), _plain(vars(module))) for name, module in link.named_modules()]
    tensors = [(name, t.shape, t.dtype, t.device) for name, t in (*link.named_parameters(), *link.named_buffers())]
    return [*modules, *tensors]


def _plain(attributes: dict[str, Any]) -> dict[str, Any]:
    # initialization and training mode are not properties of the map
    settings = {k: v for k, v in attributes.items() if k not in ("init", "training") and not k.startswith("_")}
    return {k: v for k, v in settings.items() if isinstance(v, bool | int | float | str | tuple)}


def take_run(link: AnyLink, run: int) -> AnyLink:
    """Return run ``run`` of a link with ``run_shape = (R,)`` as a separate link, with the same buffers.

    Examples
    --------
    >>> from legendretron.links import CanonicalLink
    >>> take_run(CanonicalLink(3, run_shape=(2,)), 1).run_shape
    ()
    """
    if len(link.run_shape) != 1 or not 0 <= run < link.run_shape[0]:
        raise ValueError(f"run must be one of the runs of the link, whose run_shape is {link.run_shape}, got {run!r}.")
    single = _with_run_shape(link, ())
    for name, parameter in single.named_parameters():
        parameter.data = link.get_parameter(name).detach()[run].clone()
    return single


def _with_run_shape(link: AnyLink, run_shape: tuple[int, ...]) -> AnyLink:
    new = copy.deepcopy(link)
    for module in new.modules():
        if hasattr(module, "run_shape"):
            setattr(module, "run_shape", run_shape)  # noqa: B010 - typed as Tensor or Module otherwise
    return new
