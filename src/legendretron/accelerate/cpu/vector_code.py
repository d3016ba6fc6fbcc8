"""How vector instructions are written.

Numba leaves vectorisation to the compiler, which fails on matrix products whose sums should stay in registers and on ``exp``;
and each statement takes a millisecond or more to compile. So some functions are written in LLVM's intermediate
representation, for vectors of 64 bytes, which it splits into those of the processor.
"""

from __future__ import annotations

import inspect
import math
import platform

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["BLOCK", "INDEX", "ON_ARM", "WIDE_REGISTERS", "Memory", "Value", "VectorCode", "data_of", "vector_function"]

_BYTES = 64  # of a vector
BLOCK = 32  # units of a large matrix that are worked on together
ON_ARM = platform.machine() in ("aarch64", "arm64")
#: Whether there are 32 registers of a whole vector each; elsewhere on x86 there are 16 of half a vector.
WIDE_REGISTERS = not ON_ARM and get_host_cpu_features().get("avx512f", False)
INDEX = ir.IntType(64)
# no reordering: rounding by a large number relies on the order, and NaN and infinity must survive
_FLAGS = ("contract",)

# Coefficients of interpolating polynomials at Chebyshev nodes, for double and for single precision: their error is below
# half a unit in the last place, with fewer terms than a Taylor series.
#: exp(x) = 1 + x + x^2 (...) for |x| <= log(2) / 2
_EXP = (
    (
        *(0.500000000000000103, 0.166666666666666675, 0.0416666666666238205, 0.0083333333333300382),
        *(0.00138888889173670806, 0.00019841269863171556, 0.0000248015210578682052, 2.75572682769056962e-6),
        *(2.76202015910315488e-7, 2.5100472505694996e-8),
    ),
    (0.5, 0.166665766661199283, 0.0416665542129841503, 0.0083632328836826182, 0.00139262508314976117),
)
#: 2 artanh(s) = s (2 + s^2 (...)) for s <= 1 / 3
_ARTANH = (
    (
        *(0.666666666666666586, 0.400000000000145966, 0.285714285671050609, 0.222222227178017817),
        *(0.181817894173264479, 0.153855705929122436, 0.133141355508811629, 0.120011551828577787),
        *(0.0880031765086877347, 0.161649381694713386),
    ),
    (0.666666403256286929, 0.400075630652593343, 0.282365466575577283, 0.268520272939996959),
)
#: and for s <= 0.1716, where the logarithm needs it
_ARTANH_OF_LOG = (
    (
        *(0.666666666666666973, 0.399999999998981299, 0.285714286265982915, 0.222222110332414979),
        *(0.181828965160939351, 0.153314762039735205, 0.146194795158978788),
    ),
    (0.666666851643872053, 0.399887295372972367, 0.295822628311972002),
)


class Value:
    """A number or vector in the code that is being written, with its arithmetic."""

    def __init__(self, code, value):
        self.code, self.value = code, value

    def _with(self, operation, other):
        other = other if isinstance(other, Value) else self.code.number(other, self.value.type)
        return Value(self.code, operation(self.value, other.value, flags=_FLAGS))

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
            v if isinstance(v, Value) else self.code.number(v, self.value.type) for v in (other, then, otherwise)
        )
        holds = self.code.builder.fcmp_ordered(comparison, self.value, other.value)
        return Value(self.code, self.code.builder.select(holds, then.value, otherwise.value))

    def sqrt(self):
        """Square root."""
        kind = self.value.type
        suffix = f"v{kind.count}" if isinstance(kind, ir.VectorType) else ""
        root = self.code.library(f"llvm.sqrt.{suffix}f{8 * self.code.bytes}", kind, [kind])
        return Value(self.code, self.code.builder.call(root, [self.value]))


class Memory:
    """An array in the code that is being written, by the place of its first entry."""

    def __init__(self, code, data):
        self.code, self.data = code, data

    def _pointer(self, index, kind):
        pointer = self.code.builder.gep(self.data, [index])
        return self.code.builder.bitcast(pointer, kind.as_pointer()) if isinstance(kind, ir.VectorType) else pointer

    def load(self, index, lanes):
        """A vector, or a number if ``lanes`` is 1."""
        kind = self.code.kind(lanes)
        return Value(self.code, self.code.builder.load(self._pointer(index, kind), align=self.code.bytes))

    def store(self, index, value):
        """Write a number or a vector."""
        self.code.builder.store(value.value, self._pointer(index, value.value.type), align=self.code.bytes)


class VectorCode:
    """A function that is being written, for single or double precision."""

    def __init__(self, builder, dtype):
        self.builder = builder
        self.single = dtype == types.float32
        self.bytes = dtype.bitwidth // 8
        self.lanes = _BYTES // self.bytes

    def kind(self, lanes):
        """The type of a vector, or of a number if ``lanes`` is 1."""
        element = ir.FloatType() if self.single else ir.DoubleType()
        return element if lanes == 1 else ir.VectorType(element, lanes)

    def number(self, value, kind):
        """A constant; in all entries, if the type is a vector."""
        value = float(np.float32(value) if self.single else value)
        return Value(self, ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value))

    def spread(self, number, lanes):
        """A vector of the same number everywhere."""
        if lanes == 1:
            return number
        kind, i32 = self.kind(lanes), ir.IntType(32)
        one = self.builder.insert_element(ir.Constant(kind, ir.Undefined), number.value, ir.Constant(i32, 0))
        return Value(self, self.builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(i32, lanes), [0] * lanes)))

    def spread_all(self, memory, place, number, lanes):
        """Vectors of each of some numbers that are side by side in memory."""
        if not ON_ARM or number == 1:  # elsewhere numbers are spread as they are loaded
            return [self.spread(memory.load(self.index(place, i), 1), lanes) for i in range(number)]
        kind, i32 = self.kind(number), ir.IntType(32)
        loaded = self.builder.load(memory._pointer(place, kind), align=self.bytes)
        masks = [ir.Constant(ir.VectorType(i32, lanes), [i] * lanes) for i in range(number)]
        return [Value(self, self.builder.shuffle_vector(loaded, loaded, mask)) for mask in masks]

    def index(self, start, count, step=1):
        """``start + count * step``."""
        count, step = (ir.Constant(INDEX, v) if isinstance(v, int) else v for v in (count, step))
        return self.builder.add(start, self.builder.mul(count, step))

    def pieces(self, n, size, body):
        """Call ``body(start)`` for whole pieces of ``size`` of ``n`` things, and return where they end."""
        size = ir.Constant(INDEX, size)
        whole = self.builder.udiv(n, size)
        with cgutils.for_range(self.builder, whole) as loop:
            body(self.builder.mul(loop.index, size))
        return self.builder.mul(whole, size)

    def pieces_and_rest(self, n, size, body):
        """Call ``body(size, start)`` for whole pieces, then ``body(1, i)`` for each of the rest."""
        if size == 1:
            self.pieces(n, 1, lambda start: body(1, start))
            return
        end = self.pieces(n, size, lambda start: body(size, start))
        with cgutils.for_range(self.builder, n, start=end) as loop:
            body(1, loop.index)

    def tiles(self, n, body):
        """Call ``body(size, start)`` for pieces of 4 and 3, and for single ones where there is no other way.

        Nine, the units of a block by default, are three times three: a single one would leave most of the registers idle.
        """
        four, builder = ir.Constant(INDEX, 4), self.builder
        fours, rest = builder.udiv(n, four), builder.urem(n, four)
        threes = ir.Constant(INDEX, 0)
        for left, needed, number in ((1, 2, 3), (2, 1, 2), (3, 0, 1)):
            fits = builder.and_(
                builder.icmp_unsigned("==", rest, ir.Constant(INDEX, left)),
                builder.icmp_unsigned(">=", fours, ir.Constant(INDEX, needed)),
            )
            threes = builder.select(fits, ir.Constant(INDEX, number), threes)
        of_threes = builder.mul(threes, ir.Constant(INDEX, 3))
        with cgutils.for_range(builder, threes) as loop:
            body(3, builder.mul(loop.index, ir.Constant(INDEX, 3)))
        fours = builder.udiv(builder.sub(n, of_threes), four)
        with cgutils.for_range(builder, fours) as loop:
            body(4, builder.add(of_threes, builder.mul(loop.index, four)))
        done = builder.add(of_threes, builder.mul(fours, four))
        with cgutils.for_range(builder, n, start=done) as loop:
            body(1, loop.index)

    def blocks(self, n, body, most=BLOCK):
        """Call ``body(start, size)`` for pieces of ``n`` units, by default as many as stay in the fastest cache."""
        size = ir.Constant(INDEX, most)
        number = self.builder.udiv(self.builder.add(n, ir.Constant(INDEX, most - 1)), size)
        with cgutils.for_range(self.builder, number) as loop:
            start = self.builder.mul(loop.index, size)
            left = self.builder.sub(n, start)
            body(start, self.builder.select(self.builder.icmp_unsigned("<", left, size), left, size))

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
        """Add to one of :meth:`sums`."""
        before = Value(self, self.builder.load(total))
        self.builder.store((before + value).value, total)

    def sum_of(self, vector, start):
        """``start`` plus all entries of a vector, in any order."""
        kind = vector.type
        name = f"llvm.vector.reduce.fadd.v{kind.count}f{8 * self.bytes}"
        reduce = self.library(name, kind.element, [kind.element, kind])
        return Value(self, self.builder.call(reduce, [start.value, vector], fastmath=("reassoc",)))

    def sums_of(self, vectors):
        """The sums of some vectors, whose number is a power of two, as one vector with an entry for each."""
        size = vectors[0].type.count  # of the block of entries that still belong to one sum

        def add_halves(low, high):
            """Add the first and the second half of each block; those of ``high`` follow those of ``low``."""
            size_of_both = low.type.count if high is low else 2 * low.type.count
            first = [i for i in range(size_of_both) if i % size < size // 2]
            kind = ir.VectorType(ir.IntType(32), len(first))
            one, other = (
                Value(self, self.builder.shuffle_vector(low, high, ir.Constant(kind, [i + step for i in first])))
                for step in (0, size // 2)
            )
            return (one + other).value

        while len(vectors) > 1:
            vectors = [add_halves(low, high) for low, high in zip(vectors[::2], vectors[1::2], strict=True)]
            size //= 2
        (vector,) = vectors
        while size > 1:
            vector = add_halves(vector, vector)
            size //= 2
        return Value(self, vector)

    # --- functions ---

    def polynomial(self, coefficients, x):
        """From the lowest power up; in pairs, pairs of pairs and so on, so that few operations wait for each other."""
        values = [self.number(coefficient, x.value.type) for coefficient in coefficients]
        while len(values) > 1:
            pairs = [low + high * x for low, high in zip(values[::2], values[1::2], strict=False)]
            values = pairs + values[len(values) - 1 :] if len(values) % 2 else pairs
            x = x * x
        return values[0]

    def _integers(self, kind):
        """The type of integers as large as the numbers of a type, and a function for constants of it."""
        whole = ir.IntType(8 * self.bytes)
        if not isinstance(kind, ir.VectorType):
            return whole, lambda value: ir.Constant(whole, value)
        many = ir.VectorType(whole, kind.count)
        return many, lambda value: ir.Constant(many, [value] * kind.count)

    def exp(self, x):
        """``exp(x)`` for ``x <= 0``; 0 where the result would not be a normal number, NaN for NaN."""
        bits, bias, low = (23, 127, -87.3) if self.single else (52, 1023, -708.3)
        # the first part of log 2 has so few bits that its multiples are exact
        log2 = (
            (0.693359375, -2.12194440e-4) if self.single else (6.93147180369123816490e-01, 1.90821492927058770002e-10)
        )
        rounder = 1.5 * 2.0**bits
        rounded = x * (1.0 / math.log(2.0)) + rounder  # its last bits are the nearest integer
        n = rounded - rounder
        r = x - n * log2[0] - n * log2[1]
        series = self.polynomial([1.0, 1.0, *_EXP[self.single]], r)
        kind = x.value.type
        whole, constant = self._integers(kind)
        raw = self.builder.add(self.builder.bitcast(rounded.value, whole), constant(bias))
        power = self.builder.bitcast(self.builder.shl(raw, constant(bits)), kind)
        return x.where("<", low, 0.0, series * Value(self, power))

    def log(self, x):
        """``log(x)`` for normal ``x > 0``, with errors of a few units in the last place; NaN for NaN and infinity."""
        bits, bias = (23, 127) if self.single else (52, 1023)
        kind = x.value.type
        whole, constant = self._integers(kind)
        raw = self.builder.bitcast(x.value, whole)
        power = self.builder.sub(self.builder.lshr(raw, constant(bits)), constant(bias))
        rest = self.builder.or_(self.builder.and_(raw, constant((1 << bits) - 1)), constant(bias << bits))
        n, m = Value(self, self.builder.sitofp(power, kind)), Value(self, self.builder.bitcast(rest, kind))
        # between the roots of 1/2 and of 2, where the series of 2 artanh((m - 1) / (m + 1)) is short
        root = math.sqrt(2.0)
        n, m = m.where(">", root, n + 1.0, n), m.where(">", root, m * 0.5, m)
        t = (m - 1.0) / (m + 1.0)
        return n * math.log(2.0) + t * self.polynomial([2.0, *_ARTANH_OF_LOG[self.single]], t * t) + x * 0.0

    def softplus_and_sigmoid(self, x):
        """From one exponential and one division, with errors of a few units in the last place."""
        e = self.exp(x.where(">", 0.0, x * -1.0, x))
        more, most = e + 1.0, e + 2.0
        q = self.number(1.0, x.value.type) / (more * most)
        s = e * more * q  # e / (2 + e), and log(1 + e) = 2 artanh(s)
        series = self.polynomial([2.0, *_ARTANH[self.single]], s * s)
        return x.where(">", 0.0, x, 0.0) + s * series, most * q * x.where(">=", 0.0, 1.0, e)


def data_of(context, builder, kind, value):
    """Pointer to the first entry of an array."""
    return context.make_array(kind)(context, builder, value).data


def vector_function(write):
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
                data_of(context, builder, kind, value) if isinstance(kind, types.Array) else value
                for kind, value in zip(signature.args, values, strict=True)
            ]
            symbol = f"legendretron.{name}.{dtype}"
            function = builder.module.globals.get(symbol)
            if function is None:
                kind = ir.FunctionType(ir.VoidType(), [value.type for value in passed])
                function = ir.Function(builder.module, kind, symbol)
                function.linkage = "linkonce_odr"
                function.attributes.add("noinline")
                code = VectorCode(ir.IRBuilder(function.append_basic_block()), dtype)
                wrap = {types.Array: Memory, types.Float: Value}
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
