"""The start of links inside models of Transformers."""

from __future__ import annotations

from torch import nn

from legendretron.links import LabelNoise, Link
from legendretron.losses.criterion import Criterion
from legendretron.potentials import Potential

__all__ = ["init_weights"]


def init_weights(module: nn.Module) -> bool:
    """Reset a module to its start if it is one of this library, for the ``_init_weights`` of a model of Transformers.

    ``from_pretrained`` builds a network without memory, and then calls ``_init_weights`` for every module that directly holds
    parameters which were not in the file. This resets links, potentials, noise and losses; linear layers are left to
    Transformers. A loss gets back the values it was made with, and a link from :func:`~legendretron.links.load_link` those of
    its file; a link that was trained in the same program starts anew, so save it and load it.

    Parameters
    ----------
    module : Module
        Any module of the network.

    Returns
    -------
    bool
        Whether it was reset; if not, it is for others to initialise.

    Examples
    --------
    In a class derived from ``PreTrainedModel``::

        def _init_weights(self, module):
            if not init_weights(module):
                super()._init_weights(module)

    >>> from legendretron.nn import LegendreHead
    >>> head = LegendreHead(16, 3)
    >>> init_weights(head.link), init_weights(head.linear)
    (True, False)
    """
    if not isinstance(module, Link | LabelNoise | Potential | Criterion):
        return False
    module.reset_parameters()
    return True
