"""Building blocks of the compiled steps, written as vector instructions.

Numba leaves it to the compiler to find vectors in loops, which fails on matrix products that are to stay in registers, and on
``exp``, of which it has no vector version. So these few functions are given in the compiler's own language, for vectors of 64
bytes, which it splits into what the processor has. Arrays are one-dimensional; ``p...`` is the place of a first entry.

Softplus and sigmoid are polynomials after a reduction of the range, in the precision of their argument, with an error of a few
units in the last place.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["BYTES", "activate", "add_dots", "add_products", "at", "exp_differences", "put"]

#: Of a vector.
BYTES = 64
_INDEX = ir.IntType(64)


class _Memory:
    """An array in the code that is being written."""

    def __init__(self, context, builder, kind, value):
        self.builder = builder
        self.data = context.make_array(kind)(context, builder, value).data
        self.align = kind.dtype.bitwidth // 8

    def _pointer(self, index, kind):
        pointer = self.builder.gep(self.data, [index])
        return self.builder.bitcast(pointer, kind.as_pointer()) if isinstance(kind, ir.VectorType) else pointer

    def load(self, index, kind):
        return self.builder.load(self._pointer(index, kind), align=self.align)

    def store(self, value, index):
        self.builder.store(value, self._pointer(index, value.type), align=self.align)


def _lanes(array, number_of_bytes=BYTES):
    """Entries of a vector."""
    return 8 * number_of_bytes // array.dtype.bitwidth


def _element(array):
    return ir.FloatType() if array.dtype == types.float32 else ir.DoubleType()


def _splat(builder, value, kind):
    """A vector of the same number everywhere."""
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count))


def _index(builder, start, count, step=1):
    """``start + count * step`` as an index, for numbers and values."""
    count, step = (ir.Constant(_INDEX, v) if isinstance(v, int) else v for v in (count, step))
    return builder.add(start, builder.mul(count, step))


@intrinsic
def at(typing, array, i):
    """``array[i]`` for ``i >= 0``: Numba would allow for negative ones, which keeps the compiler from using vectors."""

    def code(context, builder, signature, values):
        kind = signature.args[0]
        memory = _Memory(context, builder, kind, values[0])
        return memory.load(values[1], context.get_data_type(kind.dtype))

    return array.dtype(array, types.int64), code


@intrinsic
def put(typing, array, i, value):
    """``array[i] = value`` for ``i >= 0``, see :func:`at`."""

    def code(context, builder, signature, values):
        _Memory(context, builder, signature.args[0], values[0]).store(values[2], values[1])
        return context.get_dummy_value()

    return types.void(array, types.int64, array.dtype), code


def _products(n_out):
    """For ``n_out`` units at a time, and as many rows as a vector has entries."""

    @intrinsic
    def add_products(typing, a, pa, step_out, step_in, n_in, x, px, out, po, width):
        def code(context, builder, signature, values):
            array = signature.args[0]
            kind = ir.VectorType(_element(array), _lanes(array))
            a, x, out = (_Memory(context, builder, array, values[i]) for i in (0, 5, 7))
            pa, step_out, step_in, n_in, px, po, width = (values[i] for i in (1, 2, 3, 4, 6, 8, 9))
            sums = [cgutils.alloca_once(builder, kind) for _ in range(n_out)]  # in registers in the end
            for u, total in enumerate(sums):
                builder.store(out.load(_index(builder, po, u, width), kind), total)
            with cgutils.for_range(builder, n_in) as loop:
                own = x.load(_index(builder, px, loop.index, width), kind)
                first = _index(builder, pa, loop.index, step_in)
                for u, total in enumerate(sums):
                    factor = _splat(builder, a.load(_index(builder, first, u, step_out), kind.element), kind)
                    product = builder.fmul(factor, own, flags=("contract",))
                    builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
            for u, total in enumerate(sums):
                out.store(builder.load(total), _index(builder, po, u, width))
            return context.get_dummy_value()

        numbers = (types.int64,) * 4
        return types.void(a, *numbers, a, types.int64, a, types.int64, types.int64), code

    return add_products


def _dots(n_c, n_x):
    """For ``n_c`` units of one and ``n_x`` of the other at a time."""

    @intrinsic
    def add_dots(typing, c, pc, x, px, out, po, step, width):
        def code(context, builder, signature, values):
            array = signature.args[0]
            lanes = _lanes(array, BYTES // 2)
            kind = ir.VectorType(_element(array), lanes)
            c, x, out = (_Memory(context, builder, array, values[i]) for i in (0, 2, 4))
            pc, px, po, step, width = (values[i] for i in (1, 3, 5, 6, 7))
            sums = [[cgutils.alloca_once(builder, kind) for _ in range(n_x)] for _ in range(n_c)]
            zero = ir.Constant(kind, [0.0] * lanes)
            for total in sum(sums, []):
                builder.store(zero, total)
            with cgutils.for_range(builder, builder.udiv(width, ir.Constant(_INDEX, lanes))) as loop:
                j = builder.mul(loop.index, ir.Constant(_INDEX, lanes))
                left = [c.load(_index(builder, builder.add(pc, j), i, width), kind) for i in range(n_c)]
                right = [x.load(_index(builder, builder.add(px, j), k, width), kind) for k in range(n_x)]
                for one, row in zip(left, sums, strict=True):
                    for other, total in zip(right, row, strict=True):
                        product = builder.fmul(one, other, flags=("contract",))
                        builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
            kind_of = ir.FunctionType(kind.element, [kind.element, kind])
            name = f"llvm.vector.reduce.fadd.v{lanes}f{array.dtype.bitwidth}"
            reduce = cgutils.get_or_insert_function(builder.module, kind_of, name)
            for i, row in enumerate(sums):
                for k, total in enumerate(row):
                    place = _index(builder, _index(builder, po, i, step), k)
                    before = out.load(place, kind.element)
                    out.store(builder.call(reduce, [before, builder.load(total)], fastmath=("reassoc",)), place)
            return context.get_dummy_value()

        return types.void(c, types.int64, c, types.int64, c, types.int64, types.int64, types.int64), code

    return add_dots


#: By the number of units: add products of a matrix with units, and sums over rows of products of units.
add_products = {n: _products(n) for n in (1, 4)}
add_dots = {(n, k): _dots(n, k) for n in (1, 4) for k in (1, 2)}


class _Arithmetic:
    """Numbers or vectors of one kind in the code that is being written, and the functions of the activation on them.

    No operation may be reordered: adding and subtracting a large number rounds, and one part of log 2 is subtracted after
    the other.
    """

    def __init__(self, builder, element, lanes):
        self.builder, self.lanes = builder, lanes
        single = isinstance(element, ir.FloatType)
        whole = ir.IntType(32 if single else 64)
        self.kind, self.whole = (element, whole) if lanes == 1 else (ir.VectorType(t, lanes) for t in (element, whole))
        self.round_to = np.float32 if single else np.float64
        self.bits, self.bias = (23, 127) if single else (52, 1023)
        self.exp_terms, self.log_terms = (7, 7) if single else (13, 16)
        self.low = -87.3 if single else -708.3
        # the first part of log 2 has so few bits that its multiples are exact
        self.log2 = (0.693359375, -2.12194440e-4) if single else (6.93147180369123816490e-01, 1.90821492927058770002e-10)

    def number(self, value):
        return self._constant(self.kind, float(self.round_to(value)))

    def _constant(self, kind, value):
        return ir.Constant(kind, value if self.lanes == 1 else [value] * self.lanes)

    def add(self, a, b):
        return self.builder.fadd(a, b, flags=("contract",))

    def subtract(self, a, b):
        return self.builder.fsub(a, b, flags=("contract",))

    def multiply(self, a, b):
        return self.builder.fmul(a, b, flags=("contract",))

    def polynomial(self, coefficients, x):
        """From the highest power down."""
        value = self.number(coefficients[0])
        for coefficient in coefficients[1:]:
            value = self.add(self.multiply(value, x), self.number(coefficient))
        return value

    def where(self, comparison, a, b, then, otherwise):
        """With NaN, ``otherwise``."""
        return self.builder.select(self.builder.fcmp_ordered(comparison, a, b), then, otherwise)

    def exp(self, x):
        """``exp(x)`` for ``x <= 0``; 0 where the result would not be a normal number, NaN for NaN."""
        rounder = self.number(1.5 * 2.0**self.bits)
        rounded = self.add(self.multiply(x, self.number(1.0 / math.log(2.0))), rounder)  # its last bits are an integer
        n = self.subtract(rounded, rounder)
        rest = x
        for part in self.log2:
            rest = self.subtract(rest, self.multiply(n, self.number(part)))
        series = self.polynomial([1.0 / math.factorial(k) for k in range(self.exp_terms, -1, -1)], rest)
        exponent = self.builder.add(self.builder.bitcast(rounded, self.whole), self._constant(self.whole, self.bias))
        power = self.builder.shl(exponent, self._constant(self.whole, self.bits))
        value = self.multiply(series, self.builder.bitcast(power, self.kind))
        return self.where("<", x, self.number(self.low), self.number(0.0), value)

    def activated(self, x):
        """Softplus and sigmoid, from one exponential and one division."""
        zero, one, two = (self.number(v) for v in (0.0, 1.0, 2.0))
        negative = self.subtract(self.number(-0.0), x)
        e = self.exp(self.where(">", x, zero, negative, x))
        more, most = self.add(one, e), self.add(two, e)
        q = self.builder.fdiv(one, self.multiply(more, most))
        s = self.multiply(self.multiply(e, more), q)  # e / (2 + e), and log(1 + e) = 2 artanh(s)
        series = self.polynomial([2.0 / (2 * k + 1) for k in range(self.log_terms, -1, -1)], self.multiply(s, s))
        positive = self.add(self.where(">", x, zero, x, zero), self.multiply(s, series))
        slope = self.multiply(self.multiply(most, q), self.where(">=", x, zero, one, e))
        return positive, slope


def _for_all(builder, n, lanes, body):
    """Call ``body(lanes, j)`` for vectors as long as they last, then for single entries."""
    size = ir.Constant(_INDEX, lanes)
    whole = builder.udiv(n, size)
    with cgutils.for_range(builder, whole) as loop:
        body(lanes, builder.mul(loop.index, size))
    with cgutils.for_range(builder, n, start=builder.mul(whole, size)) as loop:
        body(1, loop.index)


@intrinsic
def activate(typing, z, pz, positive, slope, p, n):
    """Softplus and its slope of ``n`` entries."""

    def code(context, builder, signature, values):
        array = signature.args[0]
        z, positive, slope = (_Memory(context, builder, array, values[i]) for i in (0, 2, 3))

        def body(lanes, j):
            arithmetic = _Arithmetic(builder, _element(array), lanes)
            found = arithmetic.activated(z.load(builder.add(values[1], j), arithmetic.kind))
            for memory, value in zip((positive, slope), found, strict=True):
                memory.store(value, builder.add(values[4], j))

        _for_all(builder, values[5], _lanes(array), body)
        return context.get_dummy_value()

    return types.void(z, types.int64, z, z, types.int64, types.int64), code


@intrinsic
def exp_differences(typing, y, py, top, e, pe, total, n):
    """``e = exp(y - top)`` of ``n`` entries with ``y <= top``, added to ``total``."""

    def code(context, builder, signature, values):
        array = signature.args[0]
        y, top, e, total = (_Memory(context, builder, array, values[i]) for i in (0, 2, 3, 5))

        def body(lanes, j):
            arithmetic = _Arithmetic(builder, _element(array), lanes)
            kind = arithmetic.kind
            own = y.load(builder.add(values[1], j), kind)
            value = arithmetic.exp(arithmetic.subtract(own, top.load(j, kind)))
            e.store(value, builder.add(values[4], j))
            total.store(arithmetic.add(total.load(j, kind), value), j)

        _for_all(builder, values[6], _lanes(array), body)
        return context.get_dummy_value()

    return types.void(y, types.int64, y, y, types.int64, y, types.int64), code
