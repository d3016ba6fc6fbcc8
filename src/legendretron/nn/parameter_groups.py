"""Parameter groups, so that link and network can have their own learning rate and weight decay."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from torch import nn, optim

from legendretron.links import LabelNoise, Link


@cache
def _known_options() -> frozenset[str]:
    """Options of all optimizers of torch, which ignore unknown ones silently."""
    kinds = [kind for kind in vars(optim).values() if isinstance(kind, type) and issubclass(kind, optim.Optimizer)]
    return frozenset(name for kind in kinds for name in inspect.signature(kind).parameters) - {"params", "defaults"}


def parameter_groups(
    model: nn.Module,
    link: dict[str, Any] | None = None,
    network: dict[str, Any] | None = None,
    noise: dict[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Return parameter groups for a torch optimizer: links, label noise, and all other parameters.

    Weight decay is off for links and noise by default, since zero is not the neutral value of their parameters. The noise
    rate may have to change a lot: its learning rate should be ten times that of the network, or more.

    Parameters
    ----------
    model : Module
        A network with any number of links, on their own or inside heads.
    link, network, noise : dict, optional
        Options of the groups, such as ``{"lr": 1e-2, "weight_decay": 1e-4}``, for any optimizer in ``torch.optim``. All
        others default to those of the optimizer. For optimizers of your own, set options in the returned groups.

    Returns
    -------
    list of dict
        Groups with the keys ``"params"`` and ``"name"`` and the options. Empty groups are left out, and so are parameters
        that do not require a gradient.

    Examples
    --------
    >>> import torch
    >>> from legendretron.nn import LegendreHead
    >>> net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), LegendreHead(16, 3))
    >>> groups = parameter_groups(net, link={"lr": 1e-2})
    >>> optimizer = torch.optim.AdamW(groups, lr=1e-3)
    >>> [(group["name"], group["lr"], group["weight_decay"]) for group in optimizer.param_groups]
    [('network', 0.001, 0.01), ('link', 0.01, 0.0)]

    With a learned noise rate:

    >>> groups = parameter_groups(LegendreHead(16, 3, label_noise="learn"), noise={"lr": 3e-2})
    >>> [group["name"] for group in groups]
    ['network', 'link', 'noise']
    """
    for name, options in (("link", link), ("network", network), ("noise", noise)):
        if options is not None and (not isinstance(options, dict) or {"params", "name"} & set(options)):
            raise ValueError(f"{name} must be a dict of optimizer options such as {{'lr': 0.01}}, got {options!r}.")
        if unknown := [option for option in options or {} if option not in _known_options()]:
            raise ValueError(
                f"{name} holds {unknown[0]!r}, which is an option of no optimizer in torch.optim, so that it would be "
                "ignored; the learning rate is 'lr'. If your own optimizer has it, set it in the groups that are returned."
            )

    group_of = dict.fromkeys(map(id, model.parameters()), "network")
    for name, kind in (("link", Link), ("noise", LabelNoise)):  # noise may be inside a link
        parts = [module for module in model.modules() if isinstance(module, kind)]
        group_of.update({id(parameter): name for part in parts for parameter in part.parameters()})
    groups: list[dict[str, Any]] = [
        {"name": "network", **(network or {})},
        {"name": "link", "weight_decay": 0.0, **(link or {})},
        {"name": "noise", "weight_decay": 0.0, **(noise or {})},
    ]
    for group in groups:
        group["params"] = [p for p in model.parameters() if p.requires_grad and group_of[id(p)] == group["name"]]
    return [group for group in groups if group["params"]]
