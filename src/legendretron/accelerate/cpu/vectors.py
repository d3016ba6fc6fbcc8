"""Operations entry by entry, as vector instructions.

Arrays are one-dimensional; ``p...`` is the place of a first entry. Where there are several *units*, each has ``width``
entries, one for each row of a batch, and ``width`` is a multiple of 16. Where nothing else is said, ``n`` may be any number.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

from legendretron.accelerate.cpu.vector_code import Value, vector_function

__all__ = [
    "activate",
    "add_multiple",
    "bend",
    "combine",
    "drop",
    "exp_differences",
    "extremes",
    "fill",
    "highest",
    "log_plus",
    "lower",
    "moments_step",
    "multiply",
    "multiply_by",
    "scale",
    "scale_rows",
    "transpose",
]


@vector_function
def fill(code, out, p, n, value):
    """``out = value``."""
    code.entries(n, lambda lanes, j: out.store(code.builder.add(p, j), code.spread(value, lanes)))


@vector_function
def multiply_by(code, out, p, n, factor):
    """``out *= factor``."""

    def body(lanes, j):
        place = code.builder.add(p, j)
        out.store(place, out.load(place, lanes) * code.spread(factor, lanes))

    code.entries(n, body)


@vector_function
def scale(code, x, px, factor, out, po, n):
    """``out = factor x``."""

    def body(lanes, j):
        out.store(code.builder.add(po, j), x.load(code.builder.add(px, j), lanes) * code.spread(factor, lanes))

    code.entries(n, body)


@vector_function
def scale_rows(code, x, px, step_x, factors, p_factor, out, po, step_out, n_rows, n):
    """``out = factor x`` for rows of ``n`` entries, each with a factor of its own."""
    with cgutils.for_range(code.builder, n_rows) as loop:
        factor = factors.load(code.builder.add(p_factor, loop.index), 1)
        p_x, p_out = code.index(px, loop.index, step_x), code.index(po, loop.index, step_out)

        def body(lanes, j):
            value = x.load(code.builder.add(p_x, j), lanes) * code.spread(factor, lanes)
            out.store(code.builder.add(p_out, j), value)

        code.entries(n, body)


@vector_function
def multiply(code, x, px, y, py, out, po, n):
    """``out = x y``."""

    def body(lanes, j):
        a, b = (memory.load(code.builder.add(p, j), lanes) for memory, p in ((x, px), (y, py)))
        out.store(code.builder.add(po, j), a * b)

    code.entries(n, body)


@vector_function
def add_multiple(code, x, px, y, py, out, po, n):
    """``out += x y``."""

    def body(lanes, j):
        a, b = (memory.load(code.builder.add(p, j), lanes) for memory, p in ((x, px), (y, py)))
        place = code.builder.add(po, j)
        out.store(place, out.load(place, lanes) + a * b)

    code.entries(n, body)


@vector_function
def combine(code, a, x, px, b, y, py, n):
    """``y = a x + b y`` for numbers ``a`` and ``b``."""

    def body(lanes, j):
        place = code.builder.add(py, j)
        own, other = x.load(code.builder.add(px, j), lanes), y.load(place, lanes)
        y.store(place, code.spread(a, lanes) * own + code.spread(b, lanes) * other)

    code.entries(n, body)


@vector_function
def activate(code, z, pz, positive, slope, p, n):
    """Softplus of ``z``, and its slope."""

    def body(lanes, j):
        values = code.softplus_and_sigmoid(z.load(code.builder.add(pz, j), lanes))
        for memory, value in zip((positive, slope), values, strict=True):
            memory.store(code.builder.add(p, j), value)

    code.entries(n, body)


@vector_function
def bend(code, z, pz, share, out, po, away, slope, p, n):
    """``out = z + share * away`` with ``away = selu(z) - z``, and the slope of ``out`` in ``z``."""
    high, low = 1.0507009873554805, 1.7580993408473766  # slopes of SELU on both sides of 0

    def body(lanes, j):
        own, part, place = z.load(code.builder.add(pz, j), lanes), code.spread(share, lanes), code.builder.add(p, j)
        falling = code.exp(own.where("<", 0.0, own, 0.0)) * low
        further = own.where(">", 0.0, own * (high - 1.0), falling - low - own)
        out.store(code.builder.add(po, j), own + part * further)
        away.store(place, further)
        slope.store(place, part * (own.where(">", 0.0, high, falling) - 1.0) + 1.0)

    code.entries(n, body)


@vector_function
def drop(code, out, po, mask, pm, strength, n):
    """``out *= 1 + strength (mask - 1)``."""

    def body(lanes, j):
        place = code.builder.add(po, j)
        factor = code.spread(strength, lanes) * (mask.load(code.builder.add(pm, j), lanes) - 1.0) + 1.0
        out.store(place, out.load(place, lanes) * factor)

    code.entries(n, body)


@vector_function
def highest(code, y, py, number, top, best, n):
    """Where ``y`` is higher than ``top``, put it there, and its number into ``best``."""

    def body(lanes, j):
        own, before, number_before = y.load(code.builder.add(py, j), lanes), top.load(j, lanes), best.load(j, lanes)
        top.store(j, own.where(">", before, own, before))
        best.store(j, own.where(">", before, code.spread(number, lanes), number_before))

    code.entries(n, body)


@vector_function
def extremes(code, y, py, top, least, n):
    """Put ``y`` into ``top`` where it is higher, and into ``least`` where it is lower."""

    def body(lanes, j):
        own, high, low = y.load(code.builder.add(py, j), lanes), top.load(j, lanes), least.load(j, lanes)
        top.store(j, own.where(">", high, own, high))
        least.store(j, own.where("<", low, own, low))

    code.entries(n, body)


@vector_function
def exp_differences(code, y, py, top, e, pe, total, n):
    """``e = exp(y - top)`` for ``y <= top``, added to ``total``."""

    def body(lanes, j):
        value = code.exp(y.load(code.builder.add(py, j), lanes) - top.load(j, lanes))
        e.store(code.builder.add(pe, j), value)
        total.store(j, total.load(j, lanes) + value)

    code.entries(n, body)


@vector_function
def lower(code, y, py, top, more, n):
    """``y = (y - top) - more``, in this order: beside a large ``top``, ``more`` would be rounded off."""

    def body(lanes, j):
        place = code.builder.add(py, j)
        y.store(place, (y.load(place, lanes) - top.load(j, lanes)) - more.load(j, lanes))

    code.entries(n, body)


@vector_function
def log_plus(code, x, px, y, py, out, po, n):
    """``out = log(x) + y``."""

    def body(lanes, j):
        a, b = (memory.load(code.builder.add(p, j), lanes) for memory, p in ((x, px), (y, py)))
        out.store(code.builder.add(po, j), code.log(a) + b)

    code.entries(n, body)


@vector_function
def transpose(code, x, px, step_x, out, po, step_out, n_rows, n_columns):
    """``out[k, j] = x[j, k]`` for rows ``j`` and columns ``k``, whole vectors of both; rows are ``step`` entries apart."""
    lanes, builder = code.lanes, code.builder

    def exchange(low, high, distance):
        """Swap the blocks of ``distance`` entries off the diagonal of two vectors."""
        mask = [j if not j & distance else lanes + j - distance for j in range(lanes)]
        kind = ir.VectorType(ir.IntType(32), lanes)
        return (
            builder.shuffle_vector(low, high, ir.Constant(kind, mask)),
            builder.shuffle_vector(low, high, ir.Constant(kind, [j + distance for j in mask])),
        )

    def tile(j, k):
        p_x, p_out = builder.add(code.index(px, j, step_x), k), builder.add(code.index(po, k, step_out), j)
        vectors = [x.load(code.index(p_x, i, step_x), lanes).value for i in range(lanes)]
        distance = lanes // 2
        while distance:
            for i in range(lanes):
                if not i & distance:
                    vectors[i], vectors[i + distance] = exchange(vectors[i], vectors[i + distance], distance)
            distance //= 2
        for i, vector in enumerate(vectors):
            out.store(code.index(p_out, i, step_out), Value(code, vector))

    code.pieces(n_rows, lanes, lambda j: code.pieces(n_columns, lanes, lambda k: tile(j, k)))


@vector_function
def moments_step(code, theta, first, second, gradient, p, n, strength, new1, keep2, new2, floor, factor):
    """Adam's two moments, and ``theta += factor * first / (sqrt(second) + floor)``, for ``n`` parameters from ``p`` on.

    The gradient of a penalty, ``strength * theta``, is added to the gradient, which is 0 afterwards.
    """

    def body(lanes, i):
        j = code.builder.add(p, i)
        own, before = theta.load(j, lanes), first.load(j, lanes)
        g = gradient.load(j, lanes) + code.spread(strength, lanes) * own
        m = before + code.spread(new1, lanes) * (g - before)
        v = code.spread(keep2, lanes) * second.load(j, lanes) + code.spread(new2, lanes) * (g * g)
        first.store(j, m)
        second.store(j, v)
        gradient.store(j, code.number(0.0, code.kind(lanes)))
        theta.store(j, own + code.spread(factor, lanes) * m / (v.sqrt() + code.spread(floor, lanes)))

    code.entries(n, body)
