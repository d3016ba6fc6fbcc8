"""Parameter groups, so that link and network can have their own learning rate and weight decay."""

from __future__ import annotations

from typing import Any

from torch import nn

from legendretron.links import Link

__all__ = ["parameter_groups"]


def parameter_groups(
    model: nn.Module, link: dict[str, Any] | None = None, network: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return two groups for any optimiser of torch: the parameters of links, and all others.

    A link's parameters have their own meaning: zero is not their neutral value, so weight decay, which pulls towards
    zero, is off for them unless asked for.

    Parameters
    ----------
    model : Module
        Holds any number of links, directly or inside heads.
    link, network : dict, optional
        Options of the two groups, such as ``{"lr": 1e-2, "weight_decay": 1e-4}``; others are the optimiser's.

    Returns
    -------
    list of dict
        With the keys ``"params"`` and ``"name"`` and the options. A group without parameters is left out, and
        so are parameters that do not require a gradient.

    Examples
    --------
    >>> import torch
    >>> from legendretron.nn import LegendreHead
    >>> net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), LegendreHead(16, 3))
    >>> groups = parameter_groups(net, link={"lr": 1e-2})
    >>> optimiser = torch.optim.AdamW(groups, lr=1e-3)
    >>> [(group["name"], group["lr"], group["weight_decay"]) for group in optimiser.param_groups]
    [('network', 0.001, 0.01), ('link', 0.01, 0.0)]
    """
    for name, options in (("link", link), ("network", network)):
        if options is not None and (not isinstance(options, dict) or {"params", "name"} & set(options)):
            raise ValueError(f"{name} must be a dict of optimiser options such as {{'lr': 0.01}}, got {options!r}.")
    of_links = {id(p) for module in model.modules() if isinstance(module, Link) for p in module.parameters()}
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"name": "network", **(network or {}), "params": [p for p in trained if id(p) not in of_links]},
        {"name": "link", "weight_decay": 0.0, **(link or {}), "params": [p for p in trained if id(p) in of_links]},
    ]
    return [group for group in groups if group["params"]]
