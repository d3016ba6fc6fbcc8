"""The networks inside the blocks of a chain, layer by layer for as many rows as a vector has entries.

Layers have ``hidden`` units, of which the first ``mixed`` see the layer before; the last layer is one unit. Arrays are as in
:mod:`legendretron.accelerate.cpu.vectors`.
"""

from __future__ import annotations

from legendretron.accelerate.cpu.vector_code import vector_function

__all__ = ["inner_backward", "inner_forward"]


class _Network:
    """Places of units and of mixing weights."""

    def __init__(self, code, raw, p_raw, hidden, mixed, depth, width):
        self.code, self.raw, self.p_raw = code, raw, p_raw
        self.hidden, self.mixed, self.depth, self.width = hidden, mixed, depth, width

    def feeds(self, k):
        """How many units of the next layer see layer ``k``: one, if that is the last unit."""
        return (k + 1).where("<", self.depth, self.mixed, 1)

    def unit(self, k, i):
        """Place of unit ``i`` of layer ``k``."""
        return (k * self.hidden + i) * self.width

    def weight(self, k, o, i):
        """Weight of unit ``i`` of layer ``k`` in unit ``o`` of the next layer."""
        return self.raw.load(self.p_raw + (k * self.mixed + o) * self.hidden + i, 1)

    def sum(self, start, n, term):
        """``start`` plus the sum of ``term(i)``."""
        total = self.code.total(start)
        with self.code.loop(n) as i:
            total.add(term(i))
        return total.get()


@vector_function
def inner_forward(code, raw, p_raw, z, positive, slope, d, up, p, hidden, mixed, depth, final, width):
    """From the ridge units ``z`` of a block to ``d = grad h``, and what the pullback needs; ``final`` for a last softplus.

    ``z`` is changed; the other arrays hold the block's units from ``p`` on.
    """
    net = _Network(code, raw, p_raw, hidden, mixed, depth, width)
    with code.pieces(width) as j:
        own = p + j
        with code.loop(depth) as k:
            with code.loop(hidden) as i:
                values = code.softplus_and_sigmoid(z.load(j + net.unit(k, i)))
                positive.store(own + net.unit(k, i), values[0])
                slope.store(own + net.unit(k, i), values[1])
            with code.loop(net.feeds(k)) as o:
                place = j + net.unit(k + 1, o)
                seen = lambda i: positive.load(own + net.unit(k, i)) * net.weight(k, o, i)  # noqa: E731
                z.store(place, net.sum(z.load(place), hidden, seen))
        last = net.unit(depth, 0)
        one = code.spread(1.0, code.lanes)
        value = final.where("!=", 0, code.softplus_and_sigmoid(z.load(j + last))[1], one)
        up.store(own + last, one)
        slope.store(own + last, value)
        d.store(own + last, value)
        with code.loop(depth) as above:
            k = depth - above - 1
            with code.loop(hidden) as i:
                seen = lambda o: d.load(own + net.unit(k + 1, o)) * net.weight(k, o, i)  # noqa: E731
                value, place = net.sum(0.0, net.feeds(k), seen), own + net.unit(k, i)
                up.store(place, value)
                d.store(place, value * slope.load(place))


@vector_function
def inner_backward(
    code, raw, p_raw, positive, slope, d, up, p, cot_d, cot_w, cot_z, pz, sums, grad, p_bias, hidden, mixed, depth, width
):  # fmt: skip
    """From cotangents of ``d`` to those of ``z``, upwards through the recursion of ``d`` and down through that of ``z``.

    ``d = s(z) w`` with ``w`` in ``up``; the slope ``s`` of a softplus has the derivative ``s (1 - s)``. ``cot_d`` and
    ``cot_w`` are changed; ``cot_z`` holds the cotangents of ``z`` from ``pz`` on. Their sums over rows, and those of the
    mixing weights' cotangents, are added to ``grad`` from ``p_bias`` on; ``sums`` has a vector for each of them.
    """
    net = _Network(code, raw, p_raw, hidden, mixed, depth, width)
    rank = hidden * depth + 1
    n_sums = rank + ((depth - 1) * mixed + 1) * hidden

    def add(number, value):
        place = number * code.lanes
        sums.store(place, sums.load(place) + value)

    with code.loop(n_sums) as i:
        sums.store(i * code.lanes, code.spread(0.0, code.lanes))
    with code.pieces(width) as j:
        own, p_cot = p + j, pz + j

        def differentiate(unit):
            c, s, w = cot_d.load(j + unit), slope.load(own + unit), up.load(own + unit)
            cot_w.store(j + unit, c * s)
            cot_z.store(p_cot + unit, c * w * (s - s * s))

        with code.loop(depth) as k:
            with code.loop(hidden) as i:
                differentiate(net.unit(k, i))
            with code.loop(net.feeds(k)) as o:
                place = j + net.unit(k + 1, o)
                seen = lambda i: cot_w.load(j + net.unit(k, i)) * net.weight(k, o, i)  # noqa: E731
                cot_d.store(place, net.sum(cot_d.load(place), hidden, seen))
        differentiate(net.unit(depth, 0))
        add(rank - 1, cot_z.load(p_cot + net.unit(depth, 0)))
        with code.loop(depth) as above:
            k = depth - above - 1
            with code.loop(hidden) as i:
                seen = lambda o: cot_z.load(p_cot + net.unit(k + 1, o)) * net.weight(k, o, i)  # noqa: E731
                unit = net.unit(k, i)
                value = net.sum(0.0, net.feeds(k), seen) * slope.load(own + unit)
                value = cot_z.load(p_cot + unit) + value
                cot_z.store(p_cot + unit, value)
                add(k * hidden + i, value)
            with code.loop(net.feeds(k)) as o:
                fed = net.unit(k + 1, o)
                left = d.load(own + fed), cot_z.load(p_cot + fed)
                with code.loop(hidden) as i:
                    unit = net.unit(k, i)
                    mixed_here = left[0] * cot_w.load(j + unit) + left[1] * positive.load(own + unit)
                    add(rank + (k * mixed + o) * hidden + i, mixed_here)
    with code.loop(n_sums) as i:
        grad.store(p_bias + i, sums.load(i * code.lanes).sum(grad.load(p_bias + i, 1)))
