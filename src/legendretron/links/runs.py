"""Many links as one, and one out of many: links with run axes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TypeVar

import torch

from legendretron.links.base import Link

__all__ = ["stack_runs", "take_run"]

AnyLink = TypeVar("AnyLink", bound=Link)


def stack_runs(links: Sequence[AnyLink]) -> AnyLink:
    """Return one link with ``run_shape = (R,)`` from ``R`` links of the same kind and settings.

    Examples
    --------
    >>> from legendretron.links import CanonicalLink
    >>> stack_runs([CanonicalLink(3), CanonicalLink(3)]).run_shape
    (2,)
    """
    if not links:
        raise ValueError("links must hold at least one link, got none.")
    first = links[0]
    for link in links:
        if type(link) is not type(first) or link.n_classes != first.n_classes or link.run_shape:
            raise ValueError(f"links must be alike and without run axes, got {first!r} and {link!r}.")
    stacked = _with_run_shape(first, (len(links),))
    for name, parameter in stacked.named_parameters():
        parameter.data = torch.stack([link.get_parameter(name).detach() for link in links])
    return stacked


def take_run(link: AnyLink, run: int) -> AnyLink:
    """Return run ``run`` of a link with ``run_shape = (R,)`` as a link of its own.

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
