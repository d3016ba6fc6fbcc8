"""Operations entry by entry, as vector instructions.

Arrays are one-dimensional; ``p...`` is the place of a first entry. Where there are several *units*, each has ``width``
entries, one for each row of a batch, and ``width`` is a multiple of 16. Where nothing else is said, ``n`` may be any number.
"""

from __future__ import annotations

from legendretron.accelerate.cpu.vector_code import vector_function

__all__ = [
    "activate",
    "add_scaled",
    "bend",
    "drop",
    "exp_differences",
    "extremes",
    "fill",
    "highest",
    "log_plus",
    "lower",
    "moments_step",
    "multiply",
    "scale",
    "transpose",
]


@vector_function
def fill(code, out, p, n, value):
    """``out = value``."""
    code.entries(n, lambda lanes, j: out.store(p + j, code.spread(value, lanes)))


@vector_function
def scale(code, x, px, factor, out, po, n):
    """``out = factor x``."""
    code.entries(n, lambda lanes, j: out.store(po + j, x.load(px + j, lanes) * factor))


@vector_function
def multiply(code, x, px, y, py, out, po, n):
    """``out = x y``."""
    code.entries(n, lambda lanes, j: out.store(po + j, x.load(px + j, lanes) * y.load(py + j, lanes)))


@vector_function
def add_scaled(code, factor, x, px, out, po, n):
    """``out += factor x``."""
    code.entries(n, lambda lanes, j: out.store(po + j, out.load(po + j, lanes) + x.load(px + j, lanes) * factor))


@vector_function
def activate(code, z, pz, positive, slope, p, n):
    """Softplus of ``z``, and its slope."""

    def body(lanes, j):
        values = code.softplus_and_sigmoid(z.load(pz + j, lanes))
        positive.store(p + j, values[0])
        slope.store(p + j, values[1])

    code.entries(n, body)


@vector_function
def bend(code, z, pz, share, out, po, away, slope, p, n):
    """``out = z + share * away`` with ``away = selu(z) - z``, and the slope of ``out`` in ``z``."""
    high, low = 1.0507009873554805, 1.7580993408473766  # slopes of SELU on both sides of 0

    def body(lanes, j):
        own = z.load(pz + j, lanes)
        falling = code.exp(own.where("<", 0.0, own, 0.0)) * low
        further = own.where(">", 0.0, own * (high - 1.0), falling - low - own)
        out.store(po + j, own + further * share)
        away.store(p + j, further)
        slope.store(p + j, (own.where(">", 0.0, high, falling) - 1.0) * share + 1.0)

    code.entries(n, body)


@vector_function
def drop(code, out, po, mask, pm, strength, n):
    """``out *= 1 + strength (mask - 1)``."""

    def body(lanes, j):
        factor = (mask.load(pm + j, lanes) - 1.0) * strength + 1.0
        out.store(po + j, out.load(po + j, lanes) * factor)

    code.entries(n, body)


@vector_function
def highest(code, y, py, number, top, best, n):
    """Where ``y`` is higher than ``top``, put it there, and its number into ``best``."""

    def body(lanes, j):
        own, before = y.load(py + j, lanes), top.load(j, lanes)
        best.store(j, own.where(">", before, number, best.load(j, lanes)))
        top.store(j, own.where(">", before, own, before))

    code.entries(n, body)


@vector_function
def extremes(code, y, py, top, least, n):
    """Put ``y`` into ``top`` where it is higher, and into ``least`` where it is lower."""

    def body(lanes, j):
        own, high, low = y.load(py + j, lanes), top.load(j, lanes), least.load(j, lanes)
        top.store(j, own.where(">", high, own, high))
        least.store(j, own.where("<", low, own, low))

    code.entries(n, body)


@vector_function
def exp_differences(code, y, py, top, e, pe, total, n):
    """``e = exp(y - top)`` for ``y <= top``, added to ``total``."""

    def body(lanes, j):
        value = code.exp(y.load(py + j, lanes) - top.load(j, lanes))
        e.store(pe + j, value)
        total.store(j, total.load(j, lanes) + value)

    code.entries(n, body)


@vector_function
def lower(code, y, py, top, more, n):
    """``y = (y - top) - more``, in this order: beside a large ``top``, ``more`` would be rounded off."""

    def body(lanes, j):
        y.store(py + j, (y.load(py + j, lanes) - top.load(j, lanes)) - more.load(j, lanes))

    code.entries(n, body)


@vector_function
def log_plus(code, x, px, y, py, out, po, n):
    """``out = log(x) + y``."""
    code.entries(n, lambda lanes, j: out.store(po + j, code.log(x.load(px + j, lanes)) + y.load(py + j, lanes)))


@vector_function
def transpose(code, x, px, step_x, out, po, step_out, n_rows, n_columns):
    """``out[k, j] = x[j, k]`` for rows ``j`` and columns ``k``, whole vectors of both; rows are ``step`` entries apart."""
    lanes = code.lanes

    def exchange(low, high, distance):
        """Swap the blocks of ``distance`` entries off the diagonal of two vectors."""
        places = [j if not j & distance else lanes + j - distance for j in range(lanes)]
        return code.shuffle(low, high, places), code.shuffle(low, high, [j + distance for j in places])

    with code.pieces(n_rows) as j, code.pieces(n_columns) as k:
        vectors = [x.load(px + (j + i) * step_x + k) for i in range(lanes)]
        distance = lanes // 2
        while distance:
            for i in range(lanes):
                if not i & distance:
                    vectors[i], vectors[i + distance] = exchange(vectors[i], vectors[i + distance], distance)
            distance //= 2
        for i, vector in enumerate(vectors):
            out.store(po + (k + i) * step_out + j, vector)


@vector_function
def moments_step(code, theta, first, second, gradient, p, n, strength, new1, keep2, new2, floor, factor):
    """Adam's two moments, and ``theta += factor * first / (sqrt(second) + floor)``, for ``n`` parameters from ``p`` on.

    The gradient of a penalty, ``strength * theta``, is added to the gradient, which is 0 afterwards.
    """

    def body(lanes, i):
        j = p + i
        own, before = theta.load(j, lanes), first.load(j, lanes)
        g = gradient.load(j, lanes) + own * strength
        m = before + (g - before) * new1
        v = second.load(j, lanes) * keep2 + (g * g) * new2
        first.store(j, m)
        second.store(j, v)
        gradient.store(j, code.spread(0.0, lanes))
        theta.store(j, own + m * factor / (v.sqrt() + floor))

    code.entries(n, body)
