"""How vector instructions are written.

Numba leaves vectorization to the compiler, which fails on matrix products whose sums should stay in registers and on ``exp``;
and each statement takes a millisecond or more to compile. So some functions are written in LLVM's intermediate
representation, for vectors of 64 bytes, which it splits into those of the processor.
"""

from __future__ import annotations

import inspect
import math
import platform
from contextlib import contextmanager

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from legendretron.accelerate.cpu.compiling import data_of

__all__ = ["BLOCK", "ON_ARM", "WIDE_REGISTERS", "Value", "vector_function"]

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


class _Written:
    """Something in the code that is being written: ``value`` is what the compiler knows it by."""

    def __init__(self, code, value):
        self.code, self.value = code, value


class Index(_Written):
    """A place, or how many of something there are."""

    def _with(self, operation, other):
        return Index(self.code, operation(self.value, self.code.index(other).value))

    def __add__(self, other):
        return self._with(self.code.builder.add, other)

    def __sub__(self, other):
        return self._with(self.code.builder.sub, other)

    def __mul__(self, other):
        return self._with(self.code.builder.mul, other)

    def __floordiv__(self, other):
        return self._with(self.code.builder.udiv, other)

    def __mod__(self, other):
        return self._with(self.code.builder.urem, other)

    def where(self, comparison, other, then, otherwise):
        """``then`` if the comparison holds: numbers, indices or vectors."""
        holds = self.code.builder.icmp_unsigned(comparison, self.value, self.code.index(other).value)
        kind = type(then) if isinstance(then, _Written) else Index
        then, otherwise = (v if isinstance(v, _Written) else self.code.index(v) for v in (then, otherwise))
        return kind(self.code, self.code.builder.select(holds, then.value, otherwise.value))

    def number(self):
        """As a floating-point number."""
        return Value(self.code, self.code.builder.uitofp(self.value, self.code.kind(1)))


class Value(_Written):
    """A number or a vector. Beside a vector, a number stands for a vector of it."""

    @property
    def lanes(self):
        """Entries of a vector; 1 for a number."""
        return self.value.type.count if isinstance(self.value.type, ir.VectorType) else 1

    def _match(self, *others):
        """All as vectors, if one of them is."""
        lanes = max([self.lanes, *(v.lanes for v in others if isinstance(v, Value))])
        return [self.code.spread(v, lanes).value for v in (self, *others)]

    def _with(self, operation, other):
        return Value(self.code, operation(*self._match(other), flags=_FLAGS))

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
        one, other, then, otherwise = self._match(other, then, otherwise)
        holds = self.code.builder.fcmp_ordered(comparison, one, other)
        return Value(self.code, self.code.builder.select(holds, then, otherwise))

    def sqrt(self):
        """Square root."""
        kind = self.value.type
        suffix = f"v{self.lanes}" if self.lanes > 1 else ""
        root = self.code.library(f"llvm.sqrt.{suffix}f{8 * self.code.bytes}", kind, [kind])
        return Value(self.code, self.code.builder.call(root, [self.value]))

    def sum(self, start):
        """``start`` plus all entries, in any order."""
        kind = self.value.type
        name = f"llvm.vector.reduce.fadd.v{self.lanes}f{8 * self.code.bytes}"
        reduce = self.code.library(name, kind.element, [kind.element, kind])
        return Value(self.code, self.code.builder.call(reduce, [start.value, self.value], fastmath=("reassoc",)))


class Memory(_Written):
    """An array, by the place of its first entry."""

    def pointer(self, place, kind):
        pointer = self.code.builder.gep(self.value, [place.value])
        return self.code.builder.bitcast(pointer, kind.as_pointer()) if isinstance(kind, ir.VectorType) else pointer

    def load(self, place, lanes=None):
        """A vector, or a number if ``lanes`` is 1."""
        pointer = self.pointer(place, self.code.kind(lanes or self.code.lanes))
        return Value(self.code, self.code.builder.load(pointer, align=self.code.bytes))

    def load_index(self, place):
        """An entry of an array of integers."""
        return Index(self.code, self.code.builder.load(self.code.builder.gep(self.value, [place.value])))

    def store(self, place, value):
        """Write a number or a vector."""
        self.code.builder.store(value.value, self.pointer(place, value.value.type), align=self.code.bytes)


class Total:
    """A number or a vector that changes in loops; the compiler keeps it in a register."""

    def __init__(self, code, start, lanes):
        self.code, self._place = code, cgutils.alloca_once(code.builder, code.kind(lanes))
        self.set(code.spread(start, lanes))

    def get(self):
        return Value(self.code, self.code.builder.load(self._place))

    def set(self, value):
        self.code.builder.store(value.value, self._place)

    def add(self, value):
        self.set(self.get() + value)


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

    def index(self, value):
        """An integer as an index."""
        return value if isinstance(value, Index) else Index(self, ir.Constant(INDEX, value))

    def spread(self, number, lanes):
        """A vector of the same number everywhere; a vector stays as it is."""
        kind, i32 = self.kind(lanes), ir.IntType(32)
        if not isinstance(number, Value):
            number = float(np.float32(number) if self.single else number)
            return Value(self, ir.Constant(kind, number if lanes == 1 else [number] * lanes))
        if number.lanes == lanes:
            return number
        one = self.builder.insert_element(ir.Constant(kind, ir.Undefined), number.value, ir.Constant(i32, 0))
        return self.shuffle(Value(self, one), Value(self, one), [0] * lanes)

    def shuffle(self, low, high, places):
        """Entries of two vectors, by their places in the first, followed by the second."""
        mask = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), places)
        return Value(self, self.builder.shuffle_vector(low.value, high.value, mask))

    def spread_all(self, memory, place, number, lanes):
        """Vectors of each of some numbers that are side by side in memory."""
        if not ON_ARM or number == 1:  # elsewhere numbers are spread as they are loaded
            return [self.spread(memory.load(place + i, 1), lanes) for i in range(number)]
        loaded = memory.load(place, number)
        return [self.shuffle(loaded, loaded, [i] * lanes) for i in range(number)]

    def total(self, start=0.0, lanes=None):
        """A sum that begins with a number."""
        return Total(self, start, lanes or self.lanes)

    # --- loops ---

    @contextmanager
    def loop(self, n, start=0):
        """Indices from ``start`` to below ``n``."""
        with cgutils.for_range(self.builder, n.value, start=self.index(start).value) as loop:
            yield Index(self, loop.index)

    @contextmanager
    def pieces(self, n, size=None):
        """Starts of whole pieces of ``size`` of ``n`` things; of whole vectors if no size is given."""
        size = size or self.lanes
        with self.loop(n // size) as piece:
            yield piece * size

    def pieces_and_rest(self, n, size, body):
        """Call ``body(size, start)`` for whole pieces, then ``body(1, i)`` for each of the rest."""
        with self.pieces(n, size) as start:
            body(size, start)
        if size > 1:
            with self.loop(n, start=n // size * size) as i:
                body(1, i)

    def entries(self, n, body):
        """Call ``body(lanes, start)`` for ``n`` entries, vectors first."""
        self.pieces_and_rest(n, self.lanes, body)

    def tiles(self, n, body):
        """Call ``body(size, start)`` for pieces of 4 and 3, and for single ones where there is no other way.

        Nine, the units of a block by default, are three times three: a single one would leave most of the registers idle.
        """
        fours, rest = n // 4, n % 4
        threes = self.index(0)
        for left, needed, number in ((1, 2, 3), (2, 1, 2), (3, 0, 1)):
            threes = rest.where("==", left, fours.where(">=", needed, number, threes), threes)
        with self.loop(threes) as tile:
            body(3, tile * 3)
        in_threes = threes * 3
        fours = (n - in_threes) // 4
        with self.loop(fours) as tile:
            body(4, in_threes + tile * 4)
        with self.loop(n, start=in_threes + fours * 4) as i:
            body(1, i)

    def blocks(self, n, body, most=BLOCK):
        """Call ``body(start, size)`` for pieces of ``n`` units, by default as many as stay in the fastest cache."""
        with self.loop((n + (most - 1)) // most) as block:
            start = block * most
            left = n - start
            body(start, left.where("<", most, left, most))

    def library(self, name, result, arguments):
        """A function of the compiler."""
        return cgutils.get_or_insert_function(self.builder.module, ir.FunctionType(result, arguments), name)

    def sums_of(self, vectors):
        """The sums of some vectors, whose number is a power of two, as one vector with an entry for each."""
        size = vectors[0].lanes  # of the block of entries that still belong to one sum

        def add_halves(low, high):
            """Add the first and the second half of each block; those of ``high`` follow those of ``low``."""
            n_entries = low.lanes if high is low else 2 * low.lanes
            if size == 1:  # sums already, of vectors with fewer entries than there are vectors
                return self.shuffle(low, high, list(range(n_entries)))
            first = [i for i in range(n_entries) if i % size < size // 2]
            return self.shuffle(low, high, first) + self.shuffle(low, high, [i + size // 2 for i in first])

        while len(vectors) > 1:
            vectors = [add_halves(low, high) for low, high in zip(vectors[::2], vectors[1::2], strict=True)]
            size = max(size // 2, 1)
        (vector,) = vectors
        while size > 1:
            vector = add_halves(vector, vector)
            size //= 2
        return vector

    # --- functions ---

    def polynomial(self, coefficients, x):
        """From the lowest power up; in pairs, pairs of pairs and so on, so that few operations wait for each other."""
        values = [self.spread(coefficient, x.lanes) for coefficient in coefficients]
        while len(values) > 1:
            pairs = [low + high * x for low, high in zip(values[::2], values[1::2], strict=False)]
            values = pairs + values[len(values) - 1 :] if len(values) % 2 else pairs
            x = x * x
        return values[0]

    def _integers(self, lanes):
        """The type of integers as large as numbers, and a function for constants of it."""
        whole = ir.IntType(8 * self.bytes)
        if lanes == 1:
            return whole, lambda value: ir.Constant(whole, value)
        many = ir.VectorType(whole, lanes)
        return many, lambda value: ir.Constant(many, [value] * lanes)

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
        whole, constant = self._integers(x.lanes)
        raw = self.builder.add(self.builder.bitcast(rounded.value, whole), constant(bias))
        power = self.builder.bitcast(self.builder.shl(raw, constant(bits)), x.value.type)
        return x.where("<", low, 0.0, series * Value(self, power))

    def log(self, x):
        """``log(x)`` for normal ``x > 0``, with errors of a few units in the last place; NaN for NaN and infinity."""
        bits, bias = (23, 127) if self.single else (52, 1023)
        kind = x.value.type
        whole, constant = self._integers(x.lanes)
        raw = self.builder.bitcast(x.value, whole)
        power = self.builder.sub(self.builder.lshr(raw, constant(bits)), constant(bias))
        rest = self.builder.or_(self.builder.and_(raw, constant((1 << bits) - 1)), constant(bias << bits))
        n, m = Value(self, self.builder.sitofp(power, kind)), Value(self, self.builder.bitcast(rest, kind))
        # between the roots of 1/2 and of 2, where the series of 2 artanh((m - 1) / (m + 1)) is short
        root = math.sqrt(2.0)
        n, m = m.where(">", root, n + 1.0, n), m.where(">", root, m * 0.5, m)
        t = (m - 1.0) / (m + 1.0)
        return n * math.log(2.0) + t * self.polynomial([2.0, *_ARTANH[self.single]], t * t) + x * 0.0

    def softplus_and_sigmoid(self, x):
        """From one exponential and one division, with errors of a few units in the last place."""
        e = self.exp(x.where(">", 0.0, x * -1.0, x))
        more, most = e + 1.0, e + 2.0
        q = self.spread(1.0, x.lanes) / (more * most)
        s = e * more * q  # e / (2 + e), and log(1 + e) = 2 artanh(s)
        series = self.polynomial([2.0, *_ARTANH[self.single]], s * s)
        return x.where(">", 0.0, x, 0.0) + s * series, most * q * x.where(">=", 0.0, 1.0, e)


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
                wrap = {types.Array: Memory, types.Float: Value, types.Integer: Index}
                write(code, *(wrap[type(k)](code, v) for k, v in zip(kinds, function.args, strict=True)))
                code.builder.ret_void()
            builder.call(function, passed)
            return context.get_dummy_value()

        return types.void(*kinds), generate

    first = inspect.Parameter("typing", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    define.__signature__ = inspect.Signature([first, *parameters])  # type: ignore[attr-defined]
    define.__name__, define.__doc__ = name, write.__doc__
    return intrinsic(define)
