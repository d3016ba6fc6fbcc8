"""Nests of classes as vector instructions: of each row an exponential for every nest and class.

Arrays are as in :mod:`legendretron.accelerate.cpu.vectors`.
"""

from __future__ import annotations

import math

from legendretron.accelerate.cpu.vector_code import vector_function

__all__ = ["highest_of_scaled", "mix_nests", "nest_exponentials", "share_cotangents"]


@vector_function
def highest_of_scaled(code, y, py, stride, top, offsets, p_offset, n_classes, scale, most, width):
    """``most`` is the highest of ``scale (y - top) + offset`` over the classes; a class has ``stride`` entries of ``y``."""
    with code.pieces(width) as j:
        first, best = top.load(j), code.total(-math.inf)
        with code.loop(n_classes) as k:
            value = (y.load(j + py + k * stride) - first) * scale + offsets.load(p_offset + k, 1)
            best.set(value.where(">", best.get(), value, best.get()))
        most.store(j, best.get())


@vector_function
def nest_exponentials(
    code, y, py, stride, top, offsets, p_offset, n_classes, scale, most, e, pe, total, weighted, p, width
):
    """``e = exp(scale (y - top) + offset - most)``, its sum over the classes, and that of ``e (y - top)``.

    The exponent must not be positive. A class has ``stride`` entries of ``y`` and ``width`` of ``e``.
    """
    with code.pieces(width) as j:
        first, subtracted = top.load(j), most.load(j)
        sums, weighted_sums = code.total(), code.total()
        with code.loop(n_classes) as k:
            own = y.load(j + py + k * stride) - first
            value = code.exp(own * scale + (offsets.load(p_offset + k, 1) - subtracted))
            e.store(j + pe + k * width, value)
            sums.add(value)
            weighted_sums.add(value * own)
        total.store(p + j, sums.get())
        weighted.store(p + j, weighted_sums.get())


@vector_function
def mix_nests(code, e, share, slope, n_nests, n_classes, out, po, stride, best, width):
    """``out = sum_m e_m slope_m`` for every class, and the number of the class with the highest ``sum_m e_m share_m``.

    Among equals that is the first, and the last of two. ``e`` has ``width`` entries for every nest and class, ``share`` and
    ``slope`` for every nest, ``out`` has ``stride`` for every class.
    """
    with code.pieces(width) as j:
        most, number = code.total(-1.0), code.total()
        with code.loop(n_classes) as k:
            mixed, sloped = code.total(), code.total()
            with code.loop(n_nests) as m:
                value = e.load(j + (m * n_classes + k) * width)
                mixed.add(value * share.load(j + m * width))
                sloped.add(value * slope.load(j + m * width))
            out.store(j + po + k * stride, sloped.get())
            p, before = mixed.get(), most.get()
            # the number of the class where it is likelier than those before
            likelier = p.where(">", before, k.number(), number.get())
            number.set(n_classes.where("==", 2, p.where(">=", before, k.number(), number.get()), likelier))
            most.set(p.where(">", before, p, before))
        best.store(j, number.get())


@vector_function
def share_cotangents(
    code, e, pe, ratio, y, py, top, share, ps, mu, n_classes, dx, offsets, po, sums, p_sum, weighted, width
):
    """Cotangents ``c = e share ratio`` of a nest's logits: add ``mu c`` to ``dx``, and sums over rows to ``offsets``.

    Sums of ``c`` and of ``c (y - top)`` over the classes are added to those of each row. Arrays have ``width`` entries for
    every class.
    """
    with code.loop(n_classes) as k:
        total = code.total()
        with code.pieces(width) as j:
            place = j + k * width
            own = share.load(ps + j) * ratio.load(place) * e.load(pe + place)
            dx.store(place, dx.load(place) + own * mu)
            total.add(own)
            sums.store(p_sum + j, sums.load(p_sum + j) + own)
            weighted.store(j, weighted.load(j) + own * (y.load(py + place) - top.load(j)))
        offsets.store(po + k, total.get().sum(offsets.load(po + k, 1)))
