"""Building blocks of compiled functions along a row of classes, written as vector instructions.

As those of :mod:`legendretron.accelerate.cpu.vectors`, for arrays in which the classes of a row are next to each
other. ``n`` is a multiple of 16, the entries of a vector in single precision: rows are filled up.
"""

from __future__ import annotations

import math

from legendretron.accelerate.cpu.vector_code import Value, written

__all__ = [
    "exp_row",
    "exp_scaled_row",
    "log_row",
    "lower_row",
    "nest_cotangents",
    "residual_row",
    "scale_row",
    "set_multiple",
    "top_row",
]


def _largest(code, start, total):
    """The largest entry of a vector in a register place, or a number if that is larger."""
    kind = code.kind(code.lanes)
    reduce = code.library(f"llvm.vector.reduce.fmax.v{code.lanes}f{8 * code.bytes}", kind.element, [kind])
    found = Value(code, code.builder.call(reduce, [code.builder.load(total)]))
    return found.where(">", start, found, start)


def _highest(code, total, value):
    before = Value(code, code.builder.load(total))
    code.builder.store(value.where(">", before, value, before).value, total)


@written
def set_multiple(code, a, x, px, out, po, n):
    """``out = a x`` for a number ``a``; ``n`` may be any number."""

    def body(lanes, j):
        out.store(code.builder.add(po, j), code.spread(a, lanes) * x.load(code.builder.add(px, j), lanes))

    code.entries(n, body)


@written
def lower_row(code, y, py, top, more, out, po, n):
    """``out = (y - top) - more`` for numbers, in this order: ``top`` may be so large that ``top + more`` has lost ``more``.

    ``n`` may be any number.
    """

    def body(lanes, j):
        below = y.load(code.builder.add(py, j), lanes) - code.spread(top, lanes)
        out.store(code.builder.add(po, j), below - code.spread(more, lanes))

    code.entries(n, body)


@written
def top_row(code, x, px, n, out, po):
    """``out = max(out, max(x))``, a number; NaN does not count."""
    (most,) = code.sums(1, code.lanes)
    start = out.load(po, 1)
    code.builder.store(code.spread(start, code.lanes).value, most)
    code.pieces(n, code.lanes, lambda j: _highest(code, most, x.load(code.builder.add(px, j), code.lanes)))
    out.store(po, _largest(code, start, most))


@written
def scale_row(code, x, px, c, pc, scale, out, po, n, most, pm):
    """``out = scale x + c`` for a number ``scale``, and ``most`` its maximum, a number."""
    (top,) = code.sums(1, code.lanes)
    lowest = code.number(-math.inf, code.kind(1))
    code.builder.store(code.spread(lowest, code.lanes).value, top)
    factor = code.spread(scale, code.lanes)

    def body(j):
        own, offset = (memory.load(code.builder.add(p, j), code.lanes) for memory, p in ((x, px), (c, pc)))
        value = factor * own + offset
        out.store(code.builder.add(po, j), value)
        _highest(code, top, value)

    code.pieces(n, code.lanes, body)
    most.store(pm, _largest(code, lowest, top))


@written
def exp_row(code, x, px, top, e, pe, n, out, po):
    """``e = exp(x - top)`` for ``x <= top``, a number, and ``out`` plus its sum."""
    (total,) = code.sums(1, code.lanes)
    code.builder.store(code.number(0.0, code.kind(code.lanes)).value, total)
    highest = code.spread(top, code.lanes)

    def body(j):
        value = code.exp(x.load(code.builder.add(px, j), code.lanes) - highest)
        e.store(code.builder.add(pe, j), value)
        code.add_to(total, value)

    code.pieces(n, code.lanes, body)
    out.store(po, code.sum_of(code.builder.load(total), out.load(po, 1)))


@written
def exp_scaled_row(code, x, px, c, pc, scale, top, e, pe, n, out, po):
    """``e = exp(scale x + c - top)`` for numbers ``scale`` and ``top`` that no entry exceeds, and ``out`` its sum."""
    (total,) = code.sums(1, code.lanes)
    code.builder.store(code.number(0.0, code.kind(code.lanes)).value, total)
    factor, highest = code.spread(scale, code.lanes), code.spread(top, code.lanes)

    def body(j):
        own, offset = (memory.load(code.builder.add(p, j), code.lanes) for memory, p in ((x, px), (c, pc)))
        value = code.exp(factor * own + offset - highest)
        e.store(code.builder.add(pe, j), value)
        code.add_to(total, value)

    code.pieces(n, code.lanes, body)
    out.store(po, code.sum_of(code.builder.load(total), code.number(0.0, code.kind(1))))


@written
def residual_row(code, log_p, pl, g, pg, total, out, po, n):
    """``out = g - total exp(log_p)`` for a number ``total``."""
    factor = code.spread(total, code.lanes)

    def body(j):
        p = code.exp(log_p.load(code.builder.add(pl, j), code.lanes))
        out.store(code.builder.add(po, j), g.load(code.builder.add(pg, j), code.lanes) - factor * p)

    code.pieces(n, code.lanes, body)


@written
def log_row(code, x, px, out, po, n):
    """``log(x)`` for normal numbers, with an error of a few units in the last place."""

    def body(j):
        out.store(code.builder.add(po, j), code.log(x.load(code.builder.add(px, j), code.lanes)))

    code.pieces(n, code.lanes, body)


@written
def nest_cotangents(code, e, pe, ratio, d, more, slope, mu, dx, of_offsets, pc, out, po, n):
    """Cotangents ``l = e (slope ratio + more)`` of a nest's logits; add ``l``, ``mu l``, and the inner product with ``d``."""
    (total,) = code.sums(1, code.lanes)
    code.builder.store(code.number(0.0, code.kind(code.lanes)).value, total)
    more, slope, mu = (code.spread(number, code.lanes) for number in (more, slope, mu))

    def body(j):
        cot = e.load(code.builder.add(pe, j), code.lanes) * (slope * ratio.load(j, code.lanes) + more)
        place = code.builder.add(pc, j)
        of_offsets.store(place, of_offsets.load(place, code.lanes) + cot)
        dx.store(j, dx.load(j, code.lanes) + mu * cot)
        code.add_to(total, cot * d.load(j, code.lanes))

    code.pieces(n, code.lanes, body)
    out.store(po, code.sum_of(code.builder.load(total), out.load(po, 1)))
