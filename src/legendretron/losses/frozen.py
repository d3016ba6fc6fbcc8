"""Links that nothing can train."""

from __future__ import annotations

import copy
from itertools import chain
from typing import TypeVar

import torch

from legendretron._internal.kept_values import keep_loaded, keep_values
from legendretron.links import Link

__all__ = ["device_of", "frozen_copy"]

AnyLink = TypeVar("AnyLink", bound=Link)


def device_of(link: Link) -> torch.device:
    """Return the device of a link's tensors, as a context in which more are made there, whatever the default device is."""
    return next((tensor.device for tensor in chain(link.parameters(), link.buffers())), torch.device("cpu"))


def frozen_copy(link: AnyLink) -> AnyLink:
    """Return a copy in evaluation mode whose parameters are buffers: no optimiser finds them, whatever requires gradients.

    ``reset_parameters`` of the copy, and of each of its parts, restores these values, or those that a state dict brought
    later, also in memory that holds no values yet.

    Examples
    --------
    >>> from legendretron.links import CanonicalLink
    >>> link = frozen_copy(CanonicalLink(3))
    >>> len(list(link.parameters())), "nests.offsets" in link.state_dict()
    (0, True)
    """
    with torch.inference_mode(False):  # tensors made in inference mode could not be used outside it
        frozen = copy.deepcopy(link).eval()
        for module in frozen.modules():
            for name, parameter in list(module.named_parameters(recurse=False)):
                delattr(module, name)
                module.register_buffer(name, parameter.detach().clone())
        keep_values(frozen)
    frozen.register_load_state_dict_post_hook(keep_loaded)  # type: ignore[no-untyped-call]
    return frozen
