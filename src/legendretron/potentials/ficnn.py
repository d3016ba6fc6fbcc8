r"""The fully input-convex network as the paper's text writes it."""

from __future__ import annotations

from legendretron.potentials.ridge import RidgePotential

__all__ = ["FICNN"]


class FICNN(RidgePotential):
    r"""Fully input-convex network plus a quadratic.

    .. math::

        z_1 = A_1 x + b_1, \qquad z_k = A_k x + b_k + P_k\,s(z_{k-1}), \qquad
        g(x) = \gamma\, s(z_{M+1}) + \tfrac{\alpha}{2}|x|^2,

    with :math:`s` the softplus, :math:`P_k = s(\cdot)/H \ge 0`, :math:`\alpha = s(\cdot)`, :math:`\gamma = s(\cdot)`.
    The paper writes positive weights in the first layer too; convexity does not need them, and a network that can
    only rise along each axis would be a poor link, so :math:`A_1` is left free here, as in the code behind the paper.

    Parameters are those of :class:`~legendretron.potentials.RidgePotential`.

    References
    ----------
    Amos, Xu, Kolter (2017), Input Convex Neural Networks, ICML.

    Examples
    --------
    >>> import torch
    >>> g = FICNN(dim=3, hidden=2, depth=4, dtype=torch.float64)
    >>> x = torch.randn(5, 3, dtype=torch.float64)
    >>> torch.allclose(g.inverse_gradient(g.gradient(x)), x)
    True
    """

    final_softplus = True

    @property
    def mixed_units(self) -> int:
        """All units see the layer before."""
        return self.hidden
