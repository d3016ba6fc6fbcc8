"""Nests of classes as vector instructions: of each row an exponential for every nest and class.

Arrays are as in :mod:`legendretron.accelerate.cpu.vectors`.
"""

from __future__ import annotations

import math

from llvmlite import ir
from numba.core import cgutils

from legendretron.accelerate.cpu.vector_code import INDEX, Value, vector_function

__all__ = [
    "highest_of_scaled",
    "mix_nests",
    "nest_exponentials",
    "share_cotangents",
]


@vector_function
def highest_of_scaled(code, y, py, stride, top, offsets, p_offset, n_classes, scale, most, width):
    """``most`` is the highest of ``scale (y - top) + offset`` over the classes; a class has ``stride`` entries of ``y``."""

    def rows(j):
        first, best = top.load(j, code.lanes), code.sums(1, code.lanes)[0]
        code.builder.store(code.number(-math.inf, code.kind(code.lanes)).value, best)
        with cgutils.for_range(code.builder, n_classes) as loop:
            own = y.load(code.builder.add(j, code.index(py, loop.index, stride)), code.lanes) - first
            offset = code.spread(offsets.load(code.builder.add(p_offset, loop.index), 1), code.lanes)
            value, before = own * code.spread(scale, code.lanes) + offset, Value(code, code.builder.load(best))
            code.builder.store(value.where(">", before, value, before).value, best)
        most.store(j, Value(code, code.builder.load(best)))

    code.pieces(width, code.lanes, rows)


@vector_function
def nest_exponentials(
    code, y, py, stride, top, offsets, p_offset, n_classes, scale, most, e, pe, total, weighted, p, width
):
    """``e = exp(scale (y - top) + offset - most)``, its sum over the classes, and that of ``e (y - top)``.

    The exponent must not be positive. A class has ``stride`` entries of ``y`` and ``width`` of ``e``.
    """
    kind = code.kind(code.lanes)

    def rows(j):
        first, subtracted = top.load(j, code.lanes), most.load(j, code.lanes)
        sums = code.sums(2, code.lanes)
        for one in sums:
            code.builder.store(code.number(0.0, kind).value, one)
        with cgutils.for_range(code.builder, n_classes) as loop:
            own = y.load(code.builder.add(j, code.index(py, loop.index, stride)), code.lanes) - first
            offset = code.spread(offsets.load(code.builder.add(p_offset, loop.index), 1), code.lanes)
            value = code.exp(own * code.spread(scale, code.lanes) + (offset - subtracted))
            e.store(code.builder.add(j, code.index(pe, loop.index, width)), value)
            code.add_to(sums[0], value)
            code.add_to(sums[1], value * own)
        for memory, one in zip((total, weighted), sums, strict=True):
            memory.store(code.builder.add(p, j), Value(code, code.builder.load(one)))

    code.pieces(width, code.lanes, rows)


@vector_function
def mix_nests(code, e, share, slope, n_nests, n_classes, out, po, stride, best, width):
    """``out = sum_m e_m slope_m`` for every class, and the number of the class with the highest ``sum_m e_m share_m``.

    Among equals that is the first, and the last of two. ``e`` has ``width`` entries for every nest and class, ``share`` and
    ``slope`` for every nest, ``out`` has ``stride`` for every class.
    """
    kind = code.kind(code.lanes)
    two = code.builder.icmp_unsigned("==", n_classes, ir.Constant(INDEX, 2))

    def rows(j):
        most, number, mixed, sloped = code.sums(4, code.lanes)
        code.builder.store(code.number(-1.0, kind).value, most)
        code.builder.store(code.number(0.0, kind).value, number)
        nest = code.builder.mul(n_classes, width)
        with cgutils.for_range(code.builder, n_classes) as classes:
            for one in (mixed, sloped):
                code.builder.store(code.number(0.0, kind).value, one)
            first = code.builder.add(j, code.builder.mul(classes.index, width))
            with cgutils.for_range(code.builder, n_nests) as nests:
                value = e.load(code.index(first, nests.index, nest), code.lanes)
                place = code.index(j, nests.index, width)
                code.add_to(mixed, value * share.load(place, code.lanes))
                code.add_to(sloped, value * slope.load(place, code.lanes))
            out.store(
                code.builder.add(j, code.index(po, classes.index, stride)), Value(code, code.builder.load(sloped))
            )
            p, before = (Value(code, code.builder.load(one)) for one in (mixed, most))
            here = code.spread(Value(code, code.builder.uitofp(classes.index, kind.element)), code.lanes)
            above, level = (code.builder.fcmp_ordered(sign, p.value, before.value) for sign in (">", ">="))
            above = code.builder.select(two, level, above)
            code.builder.store(code.builder.select(above, p.value, before.value), most)
            code.builder.store(code.builder.select(above, here.value, code.builder.load(number)), number)
        best.store(j, Value(code, code.builder.load(number)))

    code.pieces(width, code.lanes, rows)


@vector_function
def share_cotangents(
    code, e, pe, ratio, y, py, top, share, ps, mu, n_classes, dx, offsets, po, sums, p_sum, weighted, width
):
    """Cotangents ``c = e share ratio`` of a nest's logits: add ``mu c`` to ``dx``, and sums over rows to ``offsets``.

    Sums of ``c`` and of ``c (y - top)`` over the classes are added to those of each row. Arrays have ``width`` entries for
    every class.
    """
    kind = code.kind(code.lanes)
    steepness = code.spread(mu, code.lanes)
    with cgutils.for_range(code.builder, n_classes) as classes:
        (total,) = code.sums(1, code.lanes)
        code.builder.store(code.number(0.0, kind).value, total)

        def rows(j):
            place = code.index(j, classes.index, width)
            own = share.load(code.builder.add(ps, j), code.lanes) * ratio.load(place, code.lanes)
            own = own * e.load(code.builder.add(pe, place), code.lanes)
            below = y.load(code.builder.add(py, place), code.lanes) - top.load(j, code.lanes)
            dx.store(place, dx.load(place, code.lanes) + steepness * own)
            code.add_to(total, own)
            at_sum = code.builder.add(p_sum, j)
            sums.store(at_sum, sums.load(at_sum, code.lanes) + own)
            weighted.store(j, weighted.load(j, code.lanes) + own * below)

        code.pieces(width, code.lanes, rows)
        at_offset = code.builder.add(po, classes.index)
        offsets.store(at_offset, code.sum_of(code.builder.load(total), offsets.load(at_offset, 1)))
