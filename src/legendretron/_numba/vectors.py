"""Building blocks of the compiled steps, written as vector instructions.

Numba leaves it to the compiler to find vectors in loops, which fails on matrix products whose sums are to stay in registers,
and on ``exp``, of which it has no vector version; and it takes a millisecond or more to compile each statement. So these
functions are given in the compiler's own language, for vectors of 64 bytes, which it splits into what the processor has.

Arrays are one-dimensional; ``p...`` is the place of a first entry. Where there are several *units*, each has ``width``
entries, one for each row of a batch, and ``width`` is a multiple of 16. Where nothing else is said, ``n`` may be any number.
"""

from __future__ import annotations

import inspect
import math
from itertools import chain

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from legendretron._numba.series import artanh_series, exp_series

__all__ = [
    "activate",
    "add_multiple",
    "add_outer",
    "add_product",
    "at",
    "combine",
    "cotangents",
    "exp_differences",
    "exp_scaled_differences",
    "extremes",
    "fill",
    "highest",
    "moments_step",
    "multiply",
    "multiply_by",
    "pointer",
    "put",
    "scaled_differences",
]

_BYTES = 64  # of a vector
_INDEX = ir.IntType(64)
# nothing may be reordered: adding and subtracting a large number rounds, and NaN and infinity keep their meaning
_FLAGS = ("contract",)


class _Value:
    """A number or vector in the code that is being written, with its arithmetic."""

    def __init__(self, code, value):
        self.code, self.value = code, value

    def _with(self, operation, other):
        other = other if isinstance(other, _Value) else self.code.number(other, self.value.type)
        return _Value(self.code, operation(self.value, other.value, flags=_FLAGS))

    def __add__(self, other):
        return self._with(self.code.builder.fadd, other)

    def __sub__(self, other):
        return self._with(self.code.builder.fsub, other)

    def __mul__(self, other):
        return self._with(self.code.builder.fmul, other)

    def __truediv__(self, other):
        return self._with(self.code.builder.fdiv, other)

    def where(self, comparison, other, then, otherwise):
        """``then`` where the comparison holds, which it never does for NaN."""
        other, then, otherwise = (
            v if isinstance(v, _Value) else self.code.number(v, self.value.type) for v in (other, then, otherwise)
        )
        holds = self.code.builder.fcmp_ordered(comparison, self.value, other.value)
        return _Value(self.code, self.code.builder.select(holds, then.value, otherwise.value))

    def sqrt(self):
        kind = self.value.type
        suffix = f"v{kind.count}" if isinstance(kind, ir.VectorType) else ""
        root = self.code.library(f"llvm.sqrt.{suffix}f{8 * self.code.bytes}", kind, [kind])
        return _Value(self.code, self.code.builder.call(root, [self.value]))


class _Memory:
    """An array in the code that is being written, by the place of its first entry."""

    def __init__(self, code, data):
        self.code, self.data = code, data

    def _pointer(self, index, kind):
        pointer = self.code.builder.gep(self.data, [index])
        return self.code.builder.bitcast(pointer, kind.as_pointer()) if isinstance(kind, ir.VectorType) else pointer

    def load(self, index, lanes):
        kind = self.code.kind(lanes)
        return _Value(self.code, self.code.builder.load(self._pointer(index, kind), align=self.code.bytes))

    def store(self, index, value):
        self.code.builder.store(value.value, self._pointer(index, value.value.type), align=self.code.bytes)


class _Code:
    """A function that is being written, for single or double precision."""

    def __init__(self, builder, dtype):
        self.builder = builder
        self.single = dtype == types.float32
        self.bytes = dtype.bitwidth // 8
        self.lanes = _BYTES // self.bytes

    def kind(self, lanes):
        element = ir.FloatType() if self.single else ir.DoubleType()
        return element if lanes == 1 else ir.VectorType(element, lanes)

    def number(self, value, kind):
        value = float(np.float32(value) if self.single else value)
        return _Value(self, ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value))

    def spread(self, number, lanes):
        """A vector of the same number everywhere."""
        if lanes == 1:
            return number
        kind, i32 = self.kind(lanes), ir.IntType(32)
        one = self.builder.insert_element(ir.Constant(kind, ir.Undefined), number.value, ir.Constant(i32, 0))
        return _Value(self, self.builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(i32, lanes), [0] * lanes)))

    def index(self, start, count, step=1):
        """``start + count * step``."""
        count, step = (ir.Constant(_INDEX, v) if isinstance(v, int) else v for v in (count, step))
        return self.builder.add(start, self.builder.mul(count, step))

    def pieces(self, n, size, body):
        """Call ``body(start)`` for whole pieces of ``size`` of ``n`` things, and return where they end."""
        size = ir.Constant(_INDEX, size)
        whole = self.builder.udiv(n, size)
        with cgutils.for_range(self.builder, whole) as loop:
            body(self.builder.mul(loop.index, size))
        return self.builder.mul(whole, size)

    def pieces_and_rest(self, n, size, body):
        """Call ``body(size, start)`` for whole pieces, then ``body(1, i)`` for each of the rest."""
        end = self.pieces(n, size, lambda start: body(size, start))
        with cgutils.for_range(self.builder, n, start=end) as loop:
            body(1, loop.index)

    def entries(self, n, body):
        """Call ``body(lanes, start)`` for ``n`` entries, vectors first."""
        self.pieces_and_rest(n, self.lanes, body)

    def library(self, name, result, arguments):
        """A function of the compiler."""
        return cgutils.get_or_insert_function(self.builder.module, ir.FunctionType(result, arguments), name)

    def sums(self, number, lanes):
        """Places for sums, which become registers."""
        return [cgutils.alloca_once(self.builder, self.kind(lanes)) for _ in range(number)]

    def add_to(self, total, value):
        before = _Value(self, self.builder.load(total))
        self.builder.store((before + value).value, total)

    # --- functions ---

    def polynomial(self, coefficients, x):
        """From the highest power down. Halves are computed on their own, so that no product has to wait for all before."""
        terms = [self.number(c, x.value.type) for c in reversed(coefficients)]
        while len(terms) > 1:
            pairs = [terms[i + 1] * x + terms[i] for i in range(0, len(terms) - 1, 2)]
            terms, x = pairs + terms[2 * len(pairs) :], x * x
        return terms[0]

    def exp(self, x):
        """``exp(x)`` for ``x <= 0``; 0 where the result would not be a normal number, NaN for NaN."""
        bits, bias, degree, low = (23, 127, 6, -87.3) if self.single else (52, 1023, 11, -708.3)
        # the first part of log 2 has so few bits that its multiples are exact
        log2 = (
            (0.693359375, -2.12194440e-4) if self.single else (6.93147180369123816490e-01, 1.90821492927058770002e-10)
        )
        rounder = 1.5 * 2.0**bits
        rounded = x * (1.0 / math.log(2.0)) + rounder  # its last bits are the nearest integer
        n = rounded - rounder
        series = self.polynomial(exp_series(degree), x - n * log2[0] - n * log2[1])
        kind = x.value.type
        many = isinstance(kind, ir.VectorType)
        whole = ir.IntType(8 * self.bytes)
        whole = ir.VectorType(whole, kind.count) if many else whole
        bias, bits = (ir.Constant(whole, [v] * kind.count if many else v) for v in (bias, bits))
        power = self.builder.shl(self.builder.add(self.builder.bitcast(rounded.value, whole), bias), bits)
        return x.where("<", low, 0.0, series * _Value(self, self.builder.bitcast(power, kind)))

    def softplus_and_sigmoid(self, x):
        """From one exponential and one division, with errors of a few units in the last place."""
        e = self.exp(x.where(">", 0.0, x * -1.0, x))
        more, most = e + 1.0, e + 2.0
        q = self.number(1.0, x.value.type) / (more * most)
        s = e * more * q  # e / (2 + e), and log(1 + e) = 2 artanh(s)
        series = self.polynomial(artanh_series(4 if self.single else 10), s * s)
        return x.where(">", 0.0, x, 0.0) + s * series, most * q * x.where(">=", 0.0, 1.0, e)


def _data(context, builder, kind, value):
    return context.make_array(kind)(context, builder, value).data


def _written(write):
    """Make a function for compiled code of one that writes it: ``write(code, *arguments)``, arrays among them first.

    It becomes a function of its own and is not copied to where it is called, which would take the compiler long.
    """
    name = write.__name__
    _, *parameters = inspect.signature(write).parameters.values()

    def define(typing, *kinds):
        dtype = next(kind.dtype for kind in kinds if isinstance(kind, types.Array))
        number = {True: dtype, False: types.int64}
        kinds = [k if isinstance(k, types.Array) else number[isinstance(k, types.Float)] for k in kinds]

        def generate(context, builder, signature, values):
            passed = [
                _data(context, builder, kind, value) if isinstance(kind, types.Array) else value
                for kind, value in zip(signature.args, values, strict=True)
            ]
            symbol = f"legendretron.{name}.{dtype}"
            function = builder.module.globals.get(symbol)
            if function is None:
                kind = ir.FunctionType(ir.VoidType(), [value.type for value in passed])
                function = ir.Function(builder.module, kind, symbol)
                function.linkage = "linkonce_odr"
                function.attributes.add("noinline")
                code = _Code(ir.IRBuilder(function.append_basic_block()), dtype)
                wrap = {types.Array: _Memory, types.Float: _Value}
                write(
                    code,
                    *(wrap.get(type(k), lambda _, v: v)(code, v) for k, v in zip(kinds, function.args, strict=True)),
                )
                code.builder.ret_void()
            builder.call(function, passed)
            return context.get_dummy_value()

        return types.void(*kinds), generate

    first = inspect.Parameter("typing", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    define.__signature__ = inspect.Signature([first, *parameters])  # type: ignore[attr-defined]
    define.__name__, define.__doc__ = name, write.__doc__
    return intrinsic(define)


# --- access to memory and single entries ---


@intrinsic
def pointer(typing, address, like):
    """A pointer to entries of the type of ``like`` from an address, a number: quicker to pass than an array."""
    kind = types.CPointer(like.dtype)

    def generate(context, builder, signature, values):
        return builder.inttoptr(values[0], context.get_value_type(kind))

    return kind(types.int64, like), generate


@intrinsic
def at(typing, array, i):
    """``array[i]`` for ``i >= 0``: Numba would allow for negative ones, which keeps the compiler from using vectors."""

    def generate(context, builder, signature, values):
        return builder.load(builder.gep(_data(context, builder, signature.args[0], values[0]), [values[1]]))

    return array.dtype(array, types.int64), generate


@intrinsic
def put(typing, array, i, value):
    """``array[i] = value`` for ``i >= 0``, see :func:`at`."""

    def generate(context, builder, signature, values):
        builder.store(values[2], builder.gep(_data(context, builder, signature.args[0], values[0]), [values[1]]))
        return context.get_dummy_value()

    return types.void(array, types.int64, array.dtype), generate


# --- products ---


@_written
def add_product(code, a, pa, step_out, step_in, n_out, n_in, x, px, out, po, width):
    """``out += A x`` for the matrix with entry (u, k) at ``pa + u * step_out + k * step_in``, transposed or not."""

    def tile(n, u, j):
        """Some units, and as many rows as a vector has entries."""
        sums = code.sums(n, code.lanes)
        p_out, p_a = code.builder.add(j, code.index(po, u, width)), code.index(pa, u, step_out)
        p_x = code.builder.add(px, j)
        for i, total in enumerate(sums):
            code.builder.store(out.load(code.index(p_out, i, width), code.lanes).value, total)
        with cgutils.for_range(code.builder, n_in) as loop:
            own, first = x.load(code.index(p_x, loop.index, width), code.lanes), code.index(p_a, loop.index, step_in)
            for i, total in enumerate(sums):
                code.add_to(total, code.spread(a.load(code.index(first, i, step_out), 1), code.lanes) * own)
        for i, total in enumerate(sums):
            out.store(code.index(p_out, i, width), _Value(code, code.builder.load(total)))

    code.pieces(width, code.lanes, lambda j: code.pieces_and_rest(n_out, 4, lambda n, u: tile(n, u, j)))


@_written
def add_outer(code, c, pc, n_c, x, px, n_x, out, po, width):
    """``out += C X^T``, summed over rows: entry (i, k) is at ``po + i * n_x + k``."""
    lanes = code.lanes // 2  # for enough registers
    kind = code.kind(lanes)
    name = f"llvm.vector.reduce.fadd.v{lanes}f{8 * code.bytes}"
    reduce = code.library(name, kind.element, [kind.element, kind])

    def tile(n, i, m, k):
        """Some units of one and some of the other, summed over all rows."""
        sums = [code.sums(m, lanes) for _ in range(n)]
        for total in chain.from_iterable(sums):
            code.builder.store(code.number(0.0, kind).value, total)
        p_c, p_x = code.index(pc, i, width), code.index(px, k, width)

        def add(j):
            left, right = (
                [memory.load(code.builder.add(j, code.index(p, one, width)), lanes) for one in range(number)]
                for memory, p, number in ((c, p_c, n), (x, p_x, m))
            )
            for a, row in zip(left, sums, strict=True):
                for b, total in zip(right, row, strict=True):
                    code.add_to(total, a * b)

        code.pieces(width, lanes, add)
        first = code.builder.add(k, code.index(po, i, n_x))
        for one, row in enumerate(sums):
            for other, total in enumerate(row):
                place = code.index(code.index(first, one, n_x), other)
                before = out.load(place, 1).value
                value = code.builder.call(reduce, [before, code.builder.load(total)], fastmath=("reassoc",))
                out.store(place, _Value(code, value))

    code.pieces_and_rest(n_c, 4, lambda n, i: code.pieces_and_rest(n_x, 2, lambda m, k: tile(n, i, m, k)))


# --- entry by entry ---


@_written
def fill(code, out, p, n, value):
    """``out = value``."""
    code.entries(n, lambda lanes, j: out.store(code.builder.add(p, j), code.spread(value, lanes)))


@_written
def multiply_by(code, out, p, n, factor):
    """``out *= factor``."""

    def body(lanes, j):
        place = code.builder.add(p, j)
        out.store(place, out.load(place, lanes) * code.spread(factor, lanes))

    code.entries(n, body)


@_written
def multiply(code, x, px, y, py, out, po, n):
    """``out = x y``."""

    def body(lanes, j):
        a, b = (memory.load(code.builder.add(p, j), lanes) for memory, p in ((x, px), (y, py)))
        out.store(code.builder.add(po, j), a * b)

    code.entries(n, body)


@_written
def add_multiple(code, x, px, y, py, out, po, n):
    """``out += x y``."""

    def body(lanes, j):
        a, b = (memory.load(code.builder.add(p, j), lanes) for memory, p in ((x, px), (y, py)))
        place = code.builder.add(po, j)
        out.store(place, out.load(place, lanes) + a * b)

    code.entries(n, body)


@_written
def combine(code, a, x, px, b, y, py, n):
    """``y = a x + b y`` for numbers ``a`` and ``b``."""

    def body(lanes, j):
        place = code.builder.add(py, j)
        own, other = x.load(code.builder.add(px, j), lanes), y.load(place, lanes)
        y.store(place, code.spread(a, lanes) * own + code.spread(b, lanes) * other)

    code.entries(n, body)


@_written
def activate(code, z, pz, positive, slope, p, n):
    """Softplus of ``z``, and its slope."""

    def body(lanes, j):
        found = code.softplus_and_sigmoid(z.load(code.builder.add(pz, j), lanes))
        for memory, value in zip((positive, slope), found, strict=True):
            memory.store(code.builder.add(p, j), value)

    code.entries(n, body)


@_written
def cotangents(code, cot_d, pd, slope, up, p, cot_w, cot_z, n):
    """Those of ``w`` and of ``z`` in ``d = s(z) w``; the slope ``s`` of a softplus has the derivative ``s (1 - s)``."""

    def body(lanes, j):
        c, s, w = (
            cot_d.load(code.builder.add(pd, j), lanes),
            *(memory.load(code.builder.add(p, j), lanes) for memory in (slope, up)),
        )
        cot_w.store(j, c * s)
        cot_z.store(code.builder.add(pd, j), c * w * (s - s * s))

    code.entries(n, body)


@_written
def highest(code, y, py, number, top, best, n):
    """Where ``y`` is higher than ``top``, put it there, and its number into ``best``."""

    def body(lanes, j):
        own, before, number_before = y.load(code.builder.add(py, j), lanes), top.load(j, lanes), best.load(j, lanes)
        top.store(j, own.where(">", before, own, before))
        best.store(j, own.where(">", before, code.spread(number, lanes), number_before))

    code.entries(n, body)


@_written
def extremes(code, y, py, top, least, n):
    """Put ``y`` into ``top`` where it is higher, and into ``least`` where it is lower."""

    def body(lanes, j):
        own, high, low = y.load(code.builder.add(py, j), lanes), top.load(j, lanes), least.load(j, lanes)
        top.store(j, own.where(">", high, own, high))
        least.store(j, own.where("<", low, own, low))

    code.entries(n, body)


@_written
def exp_differences(code, y, py, top, e, pe, total, n):
    """``e = exp(y - top)`` for ``y <= top``, added to ``total``."""

    def body(lanes, j):
        value = code.exp(y.load(code.builder.add(py, j), lanes) - top.load(j, lanes))
        e.store(code.builder.add(pe, j), value)
        total.store(j, total.load(j, lanes) + value)

    code.entries(n, body)


@_written
def exp_scaled_differences(code, y, py, top, offset, scale, e, pe, total, n):
    """``e = exp(scale (y - top) + offset)`` for exponents that are not positive, added to ``total``."""

    def body(lanes, j):
        below = y.load(code.builder.add(py, j), lanes) - top.load(j, lanes)
        value = code.exp(below * code.spread(scale, lanes) + code.spread(offset, lanes))
        e.store(code.builder.add(pe, j), value)
        total.store(j, total.load(j, lanes) + value)

    code.entries(n, body)


@_written
def scaled_differences(code, y, py, top, offset, scale, out, po, most, n):
    """``out = scale (y - top) + offset`` for numbers ``scale`` and ``offset``, and ``most`` the highest so far."""

    def body(lanes, j):
        value = (y.load(code.builder.add(py, j), lanes) - top.load(j, lanes)) * code.spread(scale, lanes)
        value, before = value + code.spread(offset, lanes), most.load(j, lanes)
        out.store(code.builder.add(po, j), value)
        most.store(j, value.where(">", before, value, before))

    code.entries(n, body)


@_written
def moments_step(code, theta, first, second, gradient, n, new1, keep2, new2, floor, factor):
    """Adam's two moments, and ``theta += factor * first / (sqrt(second) + floor)``."""

    def body(lanes, j):
        g, before = gradient.load(j, lanes), first.load(j, lanes)
        m = before + code.spread(new1, lanes) * (g - before)
        v = code.spread(keep2, lanes) * second.load(j, lanes) + code.spread(new2, lanes) * (g * g)
        first.store(j, m)
        second.store(j, v)
        theta.store(j, theta.load(j, lanes) + code.spread(factor, lanes) * m / (v.sqrt() + code.spread(floor, lanes)))

    code.entries(n, body)
