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
import platform
from itertools import chain

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = [
    "activate",
    "add_dot",
    "add_multiple",
    "add_outer",
    "add_outers",
    "add_product",
    "at",
    "combine",
    "exp_differences",
    "exp_scaled_differences",
    "extremes",
    "fill",
    "highest",
    "highest_of_scaled",
    "inner_backward",
    "inner_forward",
    "log_plus",
    "mix_nests",
    "moments_step",
    "multiply",
    "multiply_by",
    "nest_exponentials",
    "pointer",
    "product",
    "product_plus",
    "put",
    "scale",
    "scale_rows",
    "scaled_differences",
]

_BYTES = 64  # of a vector
_BLOCK = 32  # units of a large matrix that are worked on together
_PAGES = 40  # rows of a large matrix that are worked on together, where each may be on a page of memory of its own
_ARM = platform.machine() in ("aarch64", "arm64")
#: Into how many parts vectors are split in sums over rows, and columns of a tile, so that its sums fit into all registers: 32
#: of 16 bytes on ARM, elsewhere 16 of 32 bytes, or more.
_OUTER_PARTS, _OUTER_COLUMNS = (4, 4) if _ARM else (2, 2)
_INDEX = ir.IntType(64)
# nothing may be reordered: adding and subtracting a large number rounds, and NaN and infinity keep their meaning
_FLAGS = ("contract",)

# Coefficients of polynomials that meet a function at the Chebyshev nodes of the range where it is needed, for double and for
# single precision: their error is below half a unit in the last place with fewer terms than a Taylor series has.
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

    def spread_all(self, memory, place, number, lanes):
        """Vectors of each of some numbers that are side by side in memory."""
        if not _ARM or number == 1:  # elsewhere numbers are spread as they are loaded
            return [self.spread(memory.load(self.index(place, i), 1), lanes) for i in range(number)]
        kind, i32 = self.kind(number), ir.IntType(32)
        loaded = self.builder.load(memory._pointer(place, kind), align=self.bytes)
        masks = [ir.Constant(ir.VectorType(i32, lanes), [i] * lanes) for i in range(number)]
        return [_Value(self, self.builder.shuffle_vector(loaded, loaded, mask)) for mask in masks]

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

    def tiles(self, n, body):
        """Call ``body(size, start)`` for pieces of 4 and 3, and for single ones where there is no other way.

        Nine, the units of a block by default, are three times three: a single one would leave most of the registers idle.
        """
        four, builder = ir.Constant(_INDEX, 4), self.builder
        fours, rest = builder.udiv(n, four), builder.urem(n, four)
        threes = ir.Constant(_INDEX, 0)
        for left, needed, number in ((1, 2, 3), (2, 1, 2), (3, 0, 1)):
            fits = builder.and_(
                builder.icmp_unsigned("==", rest, ir.Constant(_INDEX, left)),
                builder.icmp_unsigned(">=", fours, ir.Constant(_INDEX, needed)),
            )
            threes = builder.select(fits, ir.Constant(_INDEX, number), threes)
        of_threes = builder.mul(threes, ir.Constant(_INDEX, 3))
        with cgutils.for_range(builder, threes) as loop:
            body(3, builder.mul(loop.index, ir.Constant(_INDEX, 3)))
        fours = builder.udiv(builder.sub(n, of_threes), four)
        with cgutils.for_range(builder, fours) as loop:
            body(4, builder.add(of_threes, builder.mul(loop.index, four)))
        done = builder.add(of_threes, builder.mul(fours, four))
        with cgutils.for_range(builder, n, start=done) as loop:
            body(1, loop.index)

    def blocks(self, n, body, most=_BLOCK):
        """Call ``body(start, size)`` for pieces of ``n`` units, by default as many as stay in the fastest cache."""
        size = ir.Constant(_INDEX, most)
        number = self.builder.udiv(self.builder.add(n, ir.Constant(_INDEX, most - 1)), size)
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
        before = _Value(self, self.builder.load(total))
        self.builder.store((before + value).value, total)

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
        return x.where("<", low, 0.0, series * _Value(self, power))

    def log(self, x):
        """``log(x)`` for normal ``x > 0``, with errors of a few units in the last place; NaN for NaN and infinity."""
        bits, bias = (23, 127) if self.single else (52, 1023)
        kind = x.value.type
        whole, constant = self._integers(kind)
        raw = self.builder.bitcast(x.value, whole)
        power = self.builder.sub(self.builder.lshr(raw, constant(bits)), constant(bias))
        rest = self.builder.or_(self.builder.and_(raw, constant((1 << bits) - 1)), constant(bias << bits))
        n, m = _Value(self, self.builder.sitofp(power, kind)), _Value(self, self.builder.bitcast(rest, kind))
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


def _product(code, a, pa, step_out, step_in, n_out, n_in, x, px, po, width, write):
    """The product of a matrix, given as in :func:`add_product`: ``write(place, first, sums)`` gets those of some units.

    With ``step_out`` None it is 1: units are side by side. Many inputs are taken in parts, and ``first`` tells which is the
    first: as many as stay in the fastest cache, or have their weights on as many pages of memory as can be found fast.
    """
    beside = step_out is None
    step_out = ir.Constant(_INDEX, 1) if beside else step_out
    zero = code.number(0.0, code.kind(code.lanes))

    def tile(n, u, j, first_in, some):
        """Some units, and as many rows as a vector has entries."""
        sums = code.sums(n, code.lanes)
        p_out, p_a = code.builder.add(j, code.index(po, u, width)), code.index(pa, u, step_out)
        p_a, p_x = code.index(p_a, first_in, step_in), code.index(code.builder.add(px, j), first_in, width)
        for total in sums:
            code.builder.store(zero.value, total)
        with cgutils.for_range(code.builder, some) as loop:
            own, first = x.load(code.index(p_x, loop.index, width), code.lanes), code.index(p_a, loop.index, step_in)
            if beside:
                factors = code.spread_all(a, first, n, code.lanes)
            else:
                factors = [code.spread(a.load(code.index(first, i, step_out), 1), code.lanes) for i in range(n)]
            for factor, total in zip(factors, sums, strict=True):
                code.add_to(total, factor * own)
        begins = code.builder.icmp_unsigned("==", first_in, ir.Constant(_INDEX, 0))
        found = {i: _Value(code, code.builder.load(total)) for i, total in enumerate(sums)}
        write(begins, {code.index(p_out, i, width): value for i, value in found.items()})

    def block(first, n):
        def part(first_in, some):
            def rows(j):
                code.tiles(n, lambda m, u: tile(m, code.builder.add(first, u), j, first_in, some))

            code.pieces(width, code.lanes, rows)

        code.blocks(n_in, part, _PAGES if beside else 2 * _BLOCK)

    code.blocks(n_out, block)


@_written
def add_product(code, a, pa, step_out, step_in, n_out, n_in, x, px, out, po, width):
    """``out += A x`` for the matrix with entry (u, k) at ``pa + u * step_out + k * step_in``, transposed or not."""

    def write(_, sums):
        for place, value in sums.items():
            out.store(place, out.load(place, code.lanes) + value)

    _product(code, a, pa, step_out, step_in, n_out, n_in, x, px, po, width, write)


@_written
def product(code, a, pa, step_in, n_out, n_in, x, px, out, po, width):
    """``out = A x`` for the matrix with entry (u, k) at ``pa + u + k * step_in``."""

    def write(begins, sums):
        with code.builder.if_else(begins) as (first, later):
            with first:
                for place, value in sums.items():
                    out.store(place, value)
            with later:
                for place, value in sums.items():
                    out.store(place, out.load(place, code.lanes) + value)

    _product(code, a, pa, None, step_in, n_out, n_in, x, px, po, width, write)


@_written
def product_plus(code, a, pa, step_in, n_out, n_in, x, px, factor, y, py, own, out, po, width):
    """``out = factor A x + own y`` for numbers ``factor`` and ``own``, see :func:`product`; ``out`` may be ``y``."""
    factor, own = (code.spread(number, code.lanes) for number in (factor, own))
    apart = code.builder.sub(py, po)

    def write(begins, sums):
        with code.builder.if_else(begins) as (first, later):
            with first:
                for place, value in sums.items():
                    out.store(place, y.load(code.builder.add(place, apart), code.lanes) * own + value * factor)
            with later:
                for place, value in sums.items():
                    out.store(place, out.load(place, code.lanes) + value * factor)

    _product(code, a, pa, None, step_in, n_out, n_in, x, px, po, width, write)


def _outer(code, pairs, n_c, n_x, out, po, stride, width):
    """``out += sum C X^T`` over some pairs of matrices and their places: entry (i, k) is at ``po + i * stride + k``."""
    lanes = code.lanes // _OUTER_PARTS  # for enough registers
    kind = code.kind(lanes)
    name = f"llvm.vector.reduce.fadd.v{lanes}f{8 * code.bytes}"
    reduce = code.library(name, kind.element, [kind.element, kind])

    def tile(n, i, m, k):
        """Some units of one and some of the other, summed over all rows."""
        sums = [code.sums(m, lanes) for _ in range(n)]
        for total in chain.from_iterable(sums):
            code.builder.store(code.number(0.0, kind).value, total)

        for c, pc, x, px in pairs:
            p_c, p_x = code.index(pc, i, width), code.index(px, k, width)

            def add(j, c=c, p_c=p_c, x=x, p_x=p_x):
                left, right = (
                    [memory.load(code.builder.add(j, code.index(p, one, width)), lanes) for one in range(number)]
                    for memory, p, number in ((c, p_c, n), (x, p_x, m))
                )
                for a, row in zip(left, sums, strict=True):
                    for b, total in zip(right, row, strict=True):
                        code.add_to(total, a * b)

            code.pieces(width, lanes, add)
        first = code.builder.add(k, code.index(po, i, stride))
        for one, row in enumerate(sums):
            for other, total in enumerate(row):
                place = code.index(code.index(first, one, stride), other)
                before = out.load(place, 1).value
                value = code.builder.call(reduce, [before, code.builder.load(total)], fastmath=("reassoc",))
                out.store(place, _Value(code, value))

    def block(first, size):
        def row(n, i):
            code.pieces_and_rest(size, _OUTER_COLUMNS, lambda m, k: tile(n, i, m, code.builder.add(first, k)))

        code.tiles(n_c, row)

    code.blocks(n_x, block)


@_written
def add_outer(code, c, pc, n_c, x, px, n_x, out, po, width):
    """``out += C X^T``, summed over rows: entry (i, k) is at ``po + i * n_x + k``."""
    _outer(code, [(c, pc, x, px)], n_c, n_x, out, po, n_x, width)


@_written
def add_outers(code, c, pc, other_c, other_pc, n_c, x, px, other_x, other_px, n_x, out, po, stride, width):
    """``out += C X^T + C' X'^T``, see :func:`add_outer`; entry (i, k) is at ``po + i * stride + k``."""
    _outer(code, [(c, pc, x, px), (other_c, other_pc, other_x, other_px)], n_c, n_x, out, po, stride, width)


@_written
def add_dot(code, x, px, y, py, out, po, n):
    """``out += sum x y`` over ``n`` entries, a multiple of 16."""
    kind = code.kind(code.lanes)
    name = f"llvm.vector.reduce.fadd.v{code.lanes}f{8 * code.bytes}"
    reduce = code.library(name, kind.element, [kind.element, kind])
    (total,) = code.sums(1, code.lanes)
    code.builder.store(code.number(0.0, kind).value, total)

    def add(j):
        a, b = (memory.load(code.builder.add(p, j), code.lanes) for memory, p in ((x, px), (y, py)))
        code.add_to(total, a * b)

    code.pieces(n, code.lanes, add)
    value = code.builder.call(reduce, [out.load(po, 1).value, code.builder.load(total)], fastmath=("reassoc",))
    out.store(po, _Value(code, value))


# --- the networks inside the blocks, layer by layer for as many rows as a vector has entries ---


class _Network:
    """Places of units and of mixing weights. Layers have ``hidden`` units; the first ``mixed`` see the layer before."""

    def __init__(self, code, raw, p_raw, hidden, mixed, depth, width):
        self.code, self.raw, self.p_raw = code, raw, p_raw
        self.hidden, self.mixed, self.width = hidden, mixed, width
        self.one, self.builder = ir.Constant(_INDEX, 1), code.builder
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
        return _Value(self.code, self.builder.load(total))


@_written
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
                found = code.softplus_and_sigmoid(z.load(net.unit(k, i, j), code.lanes))
                for memory, value in zip((positive, slope), found, strict=True):
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
        nothing = ir.Constant(_INDEX, 0)
        last = net.unit(depth, nothing, own)
        sigmoid = code.softplus_and_sigmoid(z.load(net.unit(depth, nothing, j), code.lanes))[1]
        ends = code.builder.icmp_unsigned("!=", final, nothing)
        value = _Value(code, code.builder.select(ends, sigmoid.value, one.value))
        up.store(last, one)
        for memory in (slope, d):
            memory.store(last, value)
        net.layers(downwards, down=True)

    code.pieces(width, code.lanes, rows)


@_written
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
    zero, nothing, lanes = code.number(0.0, kind), ir.Constant(_INDEX, 0), ir.Constant(_INDEX, code.lanes)
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
    name = f"llvm.vector.reduce.fadd.v{code.lanes}f{8 * code.bytes}"
    reduce = code.library(name, kind.element, [kind.element, kind])
    with cgutils.for_range(code.builder, n_sums) as loop:
        place = code.builder.add(p_bias, loop.index)
        total = sums.load(code.builder.mul(loop.index, lanes), code.lanes).value
        value = code.builder.call(reduce, [grad.load(place, 1).value, total], fastmath=("reassoc",))
        grad.store(place, _Value(code, value))


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
def scale(code, x, px, factor, out, po, n):
    """``out = factor x``."""

    def body(lanes, j):
        out.store(code.builder.add(po, j), x.load(code.builder.add(px, j), lanes) * code.spread(factor, lanes))

    code.entries(n, body)


@_written
def scale_rows(code, x, px, step_x, factors, p_factor, out, po, step_out, n_rows, n):
    """``out = factor x`` for rows of ``n`` entries, each with a factor of its own."""
    with cgutils.for_range(code.builder, n_rows) as loop:
        factor = factors.load(code.builder.add(p_factor, loop.index), 1)
        p_x, p_out = code.index(px, loop.index, step_x), code.index(po, loop.index, step_out)

        def body(lanes, j):
            value = x.load(code.builder.add(p_x, j), lanes) * code.spread(factor, lanes)
            out.store(code.builder.add(p_out, j), value)

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
def log_plus(code, x, px, y, py, out, po, n):
    """``out = log(x) + y``."""

    def body(lanes, j):
        a, b = (memory.load(code.builder.add(p, j), lanes) for memory, p in ((x, px), (y, py)))
        out.store(code.builder.add(po, j), code.log(a) + b)

    code.entries(n, body)


# --- nests of classes: of each row an exponential for every nest and class ---


@_written
def highest_of_scaled(code, y, py, stride, top, offsets, p_offset, n_classes, scale, most, width):
    """``most`` is the highest of ``scale (y - top) + offset`` over the classes; a class has ``stride`` entries of ``y``."""

    def rows(j):
        first, best = top.load(j, code.lanes), code.sums(1, code.lanes)[0]
        code.builder.store(code.number(-math.inf, code.kind(code.lanes)).value, best)
        with cgutils.for_range(code.builder, n_classes) as loop:
            own = y.load(code.builder.add(j, code.index(py, loop.index, stride)), code.lanes) - first
            offset = code.spread(offsets.load(code.builder.add(p_offset, loop.index), 1), code.lanes)
            value, before = own * code.spread(scale, code.lanes) + offset, _Value(code, code.builder.load(best))
            code.builder.store(value.where(">", before, value, before).value, best)
        most.store(j, _Value(code, code.builder.load(best)))

    code.pieces(width, code.lanes, rows)


@_written
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
            memory.store(code.builder.add(p, j), _Value(code, code.builder.load(one)))

    code.pieces(width, code.lanes, rows)


@_written
def mix_nests(code, e, share, slope, n_nests, n_classes, out, po, stride, best, width):
    """``out = sum_m e_m slope_m`` for every class, and the number of the class with the highest ``sum_m e_m share_m``.

    Among equals that is the first, and the last of two. ``e`` has ``width`` entries for every nest and class, ``share`` and
    ``slope`` for every nest, ``out`` has ``stride`` for every class.
    """
    kind = code.kind(code.lanes)
    two = code.builder.icmp_unsigned("==", n_classes, ir.Constant(_INDEX, 2))

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
                code.builder.add(j, code.index(po, classes.index, stride)), _Value(code, code.builder.load(sloped))
            )
            p, before = (_Value(code, code.builder.load(one)) for one in (mixed, most))
            here = code.spread(_Value(code, code.builder.uitofp(classes.index, kind.element)), code.lanes)
            above, level = (code.builder.fcmp_ordered(sign, p.value, before.value) for sign in (">", ">="))
            above = code.builder.select(two, level, above)
            code.builder.store(code.builder.select(above, p.value, before.value), most)
            code.builder.store(code.builder.select(above, here.value, code.builder.load(number)), number)
        best.store(j, _Value(code, code.builder.load(number)))

    code.pieces(width, code.lanes, rows)


@_written
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
