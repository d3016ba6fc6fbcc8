"""The inner network of a ridge block in compiled code: its gradient, and the pullback of that.

The formulas are those of :mod:`legendretron.potentials.ridge_form`. Arrays are *units times rows*, see
:mod:`legendretron._numba.vectors`: a layer has ``hidden * width`` entries. Layers are ``depth`` with ``hidden`` units and a
last one with a single unit; each mixing matrix feeds the first ``mixed`` units of the next layer, the last one that unit.
"""

from __future__ import annotations

from legendretron._numba.compiling import compiled
from legendretron._numba.vectors import activate, add_multiple, add_outer, add_product, cotangents, fill, multiply

__all__ = ["inner_gradient", "inner_pullback"]


@compiled
def inner_gradient(sizes, mixing, p_mixing, z, positive, slope, d, up, p, width):
    """``d = grad h`` at ``p``, of ``t`` in ``z``, which becomes the preactivations.

    Softplus, slopes and what comes down to each unit are kept beside ``d``. Of the last unit, ``up`` must be 1 already.
    """
    hidden, depth, mixed, soft = sizes
    kind = z.dtype.type
    layer = hidden * width
    last = p + depth * layer
    for k in range(depth):
        at, feeds = k * layer, mixed if k < depth - 1 else 1
        activate(z, at, positive, slope, p + at, layer)
        weights = p_mixing + k * mixed * hidden
        add_product(mixing, weights, hidden, 1, feeds, hidden, positive, p + at, z, at + layer, width)
    if soft:
        activate(z, depth * layer, positive, slope, last, width)
    else:
        fill(slope, last, width, kind(1))
    multiply(slope, last, up, last, d, last, width)
    for k in range(depth - 1, -1, -1):
        at, feeds = p + k * layer, mixed if k < depth - 1 else 1
        fill(up, at, layer, kind(0))
        weights = p_mixing + k * mixed * hidden
        add_product(mixing, weights, 1, hidden, hidden, feeds, d, at + layer, up, at, width)
        multiply(slope, at, up, at, d, at, layer)


@compiled
def inner_pullback(sizes, mixing, p_mixing, positive, slope, d, up, p, cot_d, cot_w, cot_z, grad, p_grad, width):
    """Pull the cotangent ``cot_d`` of ``d`` back to ``cot_z``, that of ``t``, and add up the gradient in the mixing weights.

    ``cot_d`` is changed. Gradients are added at ``p_grad``, in the order of the weights.
    """
    hidden, depth, mixed, _ = sizes
    zero = cot_d.dtype.type(0)
    layer = hidden * width
    # up through d_k = s'(z_k) w_k and w_k = P_k^T d_{k+1}
    for k in range(depth):
        offset, at, feeds = k * mixed * hidden, k * layer, mixed if k < depth - 1 else 1
        cotangents(cot_d, at, slope, up, p + at, cot_w, cot_z, layer)
        add_outer(d, p + at + layer, feeds, cot_w, 0, hidden, grad, p_grad + offset, width)
        add_product(mixing, p_mixing + offset, hidden, 1, feeds, hidden, cot_w, 0, cot_d, at + layer, width)
    cotangents(cot_d, depth * layer, slope, up, p + depth * layer, cot_w, cot_z, width)
    # down through z_{k+1} = t_{k+1} + P_k softplus(z_k)
    for k in range(depth - 1, -1, -1):
        offset, at, feeds = k * mixed * hidden, k * layer, mixed if k < depth - 1 else 1
        add_outer(cot_z, at + layer, feeds, positive, p + at, hidden, grad, p_grad + offset, width)
        fill(cot_w, 0, layer, zero)
        add_product(mixing, p_mixing + offset, 1, hidden, hidden, feeds, cot_z, at + layer, cot_w, 0, width)
        add_multiple(cot_w, 0, slope, p + at, cot_z, at, layer)
