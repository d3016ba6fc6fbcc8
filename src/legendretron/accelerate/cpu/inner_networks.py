"""The networks inside the blocks of a chain, layer by layer for as many rows as a vector has entries.

Arrays are as in :mod:`legendretron.accelerate.cpu.vectors`.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

from legendretron.accelerate.cpu.vector_code import INDEX, Value, vector_function

__all__ = [
    "inner_backward",
    "inner_forward",
]


class _Network:
    """Places of units and of mixing weights. Layers have ``hidden`` units; the first ``mixed`` see the layer before."""

    def __init__(self, code, raw, p_raw, hidden, mixed, depth, width):
        self.code, self.raw, self.p_raw = code, raw, p_raw
        self.hidden, self.mixed, self.width = hidden, mixed, width
        self.one, self.builder = ir.Constant(INDEX, 1), code.builder
        self.last = self.builder.sub(depth, self.one)
        self.depth = depth

    def feeds(self, k):
        """How many units of the next layer see layer ``k``: one, if that is the last unit."""
        return self.builder.select(self.builder.icmp_unsigned("<", k, self.last), self.mixed, self.one)

    def unit(self, k, i, j):
        """Place of unit ``i`` of layer ``k``."""
        unit = self.builder.add(self.builder.mul(k, self.hidden), i)
        return self.builder.add(j, self.builder.mul(unit, self.width))

    def weight(self, k, o, i):
        """Weight of unit ``i`` of layer ``k`` in unit ``o`` of the next layer."""
        row = self.builder.add(self.builder.mul(k, self.mixed), o)
        place = self.code.index(self.builder.add(self.p_raw, i), row, self.hidden)
        return self.code.spread(self.raw.load(place, 1), self.code.lanes)

    def next(self, k):
        return self.builder.add(k, self.one)

    def layers(self, body, down=False):
        with cgutils.for_range(self.builder, self.depth) as loop:
            body(self.builder.sub(self.last, loop.index) if down else loop.index)

    def each(self, n, body):
        with cgutils.for_range(self.builder, n) as loop:
            body(loop.index)

    def sum(self, start, n, term):
        """``start`` plus the sum of ``term(i)``."""
        (total,) = self.code.sums(1, self.code.lanes)
        self.builder.store(start.value, total)
        self.each(n, lambda i: self.code.add_to(total, term(i)))
        return Value(self.code, self.builder.load(total))


@vector_function
def inner_forward(code, raw, p_raw, z, positive, slope, d, up, p, hidden, mixed, depth, final, width):
    """From the ridge units ``z`` of a block to ``d = grad h``, and what the pullback needs; ``final`` for a last softplus.

    ``z`` is changed; the other arrays hold the block's units from ``p`` on.
    """
    net = _Network(code, raw, p_raw, hidden, mixed, depth, width)
    zero, one = (code.number(value, code.kind(code.lanes)) for value in (0.0, 1.0))

    def rows(j):
        own = code.builder.add(p, j)

        def upwards(k):
            def activate_unit(i):
                values = code.softplus_and_sigmoid(z.load(net.unit(k, i, j), code.lanes))
                for memory, value in zip((positive, slope), values, strict=True):
                    memory.store(net.unit(k, i, own), value)

            def feed(o):
                place = net.unit(net.next(k), o, j)
                seen = lambda i: net.weight(k, o, i) * positive.load(net.unit(k, i, own), code.lanes)  # noqa: E731
                z.store(place, net.sum(z.load(place, code.lanes), hidden, seen))

            net.each(hidden, activate_unit)
            net.each(net.feeds(k), feed)

        def downwards(k):
            def gather(i):
                seen = lambda o: net.weight(k, o, i) * d.load(net.unit(net.next(k), o, own), code.lanes)  # noqa: E731
                value, place = net.sum(zero, net.feeds(k), seen), net.unit(k, i, own)
                up.store(place, value)
                d.store(place, value * slope.load(place, code.lanes))

            net.each(hidden, gather)

        net.layers(upwards)
        nothing = ir.Constant(INDEX, 0)
        last = net.unit(depth, nothing, own)
        sigmoid = code.softplus_and_sigmoid(z.load(net.unit(depth, nothing, j), code.lanes))[1]
        ends = code.builder.icmp_unsigned("!=", final, nothing)
        value = Value(code, code.builder.select(ends, sigmoid.value, one.value))
        up.store(last, one)
        for memory in (slope, d):
            memory.store(last, value)
        net.layers(downwards, down=True)

    code.pieces(width, code.lanes, rows)


@vector_function
def inner_backward(
    code,
    raw,
    p_raw,
    positive,
    slope,
    d,
    up,
    p,
    cot_d,
    cot_w,
    cot_z,
    pz,
    sums,
    grad,
    p_bias,
    hidden,
    mixed,
    depth,
    width,
):
    """From cotangents of ``d`` to those of ``z``, upwards through the recursion of ``d`` and down through that of ``z``.

    ``d = s(z) w`` with ``w`` in ``up``; the slope ``s`` of a softplus has the derivative ``s (1 - s)``. ``cot_d`` and
    ``cot_w`` are changed; ``cot_z`` holds the cotangents of ``z`` from ``pz`` on. Their sums over rows, and those of the
    mixing weights' cotangents, are added to ``grad`` from ``p_bias`` on; ``sums`` has a vector for each of them.
    """
    net = _Network(code, raw, p_raw, hidden, mixed, depth, width)
    kind = code.kind(code.lanes)
    zero, nothing, lanes = code.number(0.0, kind), ir.Constant(INDEX, 0), ir.Constant(INDEX, code.lanes)
    rank = code.builder.add(code.builder.mul(hidden, depth), net.one)
    n_mixing = code.builder.add(code.builder.mul(net.last, mixed), net.one)
    n_sums = code.builder.add(rank, code.builder.mul(n_mixing, hidden))

    def add(number, value):
        place = code.builder.mul(number, lanes)
        sums.store(place, sums.load(place, code.lanes) + value)

    def rows(j):
        own, of_z = code.builder.add(p, j), code.builder.add(pz, j)

        def differentiate(k, i):
            place = net.unit(k, i, j)
            c = cot_d.load(place, code.lanes)
            s, w = (memory.load(net.unit(k, i, own), code.lanes) for memory in (slope, up))
            cot_w.store(place, c * s)
            cot_z.store(net.unit(k, i, of_z), c * w * (s - s * s))

        def upwards(k):
            def feed(o):
                place = net.unit(net.next(k), o, j)
                seen = lambda i: net.weight(k, o, i) * cot_w.load(net.unit(k, i, j), code.lanes)  # noqa: E731
                cot_d.store(place, net.sum(cot_d.load(place, code.lanes), hidden, seen))

            net.each(hidden, lambda i: differentiate(k, i))
            net.each(net.feeds(k), feed)

        def downwards(k):
            def gather(i):
                seen = lambda o: net.weight(k, o, i) * cot_z.load(net.unit(net.next(k), o, of_z), code.lanes)  # noqa: E731
                place = net.unit(k, i, of_z)
                value = net.sum(zero, net.feeds(k), seen) * slope.load(net.unit(k, i, own), code.lanes)
                value = cot_z.load(place, code.lanes) + value
                cot_z.store(place, value)
                add(code.index(i, k, hidden), value)

            def mix(o):
                above = net.next(k)
                left = d.load(net.unit(above, o, own), code.lanes), cot_z.load(net.unit(above, o, of_z), code.lanes)
                row = code.index(rank, code.builder.add(code.builder.mul(k, mixed), o), hidden)

                def weigh(i):
                    right = cot_w.load(net.unit(k, i, j), code.lanes), positive.load(net.unit(k, i, own), code.lanes)
                    add(code.builder.add(row, i), left[0] * right[0] + left[1] * right[1])

                net.each(hidden, weigh)

            net.each(hidden, gather)
            net.each(net.feeds(k), mix)

        net.layers(upwards)
        differentiate(depth, nothing)
        add(code.builder.sub(rank, net.one), cot_z.load(net.unit(depth, nothing, of_z), code.lanes))
        net.layers(downwards, down=True)

    net.each(n_sums, lambda i: sums.store(code.builder.mul(i, lanes), zero))
    code.pieces(width, code.lanes, rows)
    with cgutils.for_range(code.builder, n_sums) as loop:
        place = code.builder.add(p_bias, loop.index)
        total = sums.load(code.builder.mul(loop.index, lanes), code.lanes).value
        grad.store(place, code.sum_of(total, grad.load(place, 1)))
