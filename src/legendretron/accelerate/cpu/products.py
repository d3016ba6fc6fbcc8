"""Matrix products as vector instructions.

Arrays are as in :mod:`legendretron.accelerate.cpu.vectors`.
"""

from __future__ import annotations

from itertools import chain

from llvmlite import ir
from numba.core import cgutils

from legendretron.accelerate.cpu.vector_code import BLOCK, INDEX, ON_ARM, WIDE_REGISTERS, Value, vector_function

__all__ = [
    "add_dot",
    "add_outer",
    "add_outers",
    "add_product",
    "product",
    "product_plus",
]

_PAGES = 40  # rows of a large matrix that are worked on together, where each may be on a page of memory of its own
#: Into how many parts vectors are split in sums over rows, and columns of a tile, so that its sums fit into all registers: 32
#: of 16 bytes on ARM, elsewhere 16 of 32 bytes, or 32 of them. Results do not depend on the number of columns.
_OUTER_PARTS, _OUTER_COLUMNS = (4, 4) if ON_ARM else (2, 4) if WIDE_REGISTERS else (2, 2)
#: Vectors of rows in a tile of a product: few sums would wait for each other.
_ROW_VECTORS = 2 if WIDE_REGISTERS else 1


def _product(code, a, pa, step_out, step_in, n_out, n_in, x, px, po, width, write):
    """The product of a matrix, given as in :func:`add_product`: ``write(place, first, sums)`` gets those of some units.

    With ``step_out`` None it is 1: units are side by side. Many inputs are taken in parts, and ``first`` tells which is the
    first: as many as stay in the fastest cache, or have their weights on as many pages of memory as can be found fast.
    """
    beside = step_out is None
    step_out = ir.Constant(INDEX, 1) if beside else step_out
    zero = code.number(0.0, code.kind(code.lanes))

    def tile(n, u, vectors, j, first_in, some):
        """Some units, and some vectors of rows."""
        sums = [code.sums(n, code.lanes) for _ in range(vectors)]
        p_out, p_a = code.builder.add(j, code.index(po, u, width)), code.index(pa, u, step_out)
        p_a, p_x = code.index(p_a, first_in, step_in), code.index(code.builder.add(px, j), first_in, width)
        for total in chain.from_iterable(sums):
            code.builder.store(zero.value, total)
        with cgutils.for_range(code.builder, some) as loop:
            place, first = code.index(p_x, loop.index, width), code.index(p_a, loop.index, step_in)
            if beside:
                factors = code.spread_all(a, first, n, code.lanes)
            else:
                factors = [code.spread(a.load(code.index(first, i, step_out), 1), code.lanes) for i in range(n)]
            for v, totals in enumerate(sums):
                own = x.load(code.index(place, v, code.lanes), code.lanes)
                for factor, total in zip(factors, totals, strict=True):
                    code.add_to(total, factor * own)
        begins = code.builder.icmp_unsigned("==", first_in, ir.Constant(INDEX, 0))
        write(begins, {
            code.index(code.index(p_out, i, width), v, code.lanes): Value(code, code.builder.load(total))
            for v, totals in enumerate(sums)
            for i, total in enumerate(totals)
        })  # fmt: skip

    def block(first, n):
        def part(first_in, some):
            def rows(vectors, v):
                j = code.builder.mul(v, ir.Constant(INDEX, code.lanes))
                code.tiles(n, lambda m, u: tile(m, code.builder.add(first, u), vectors, j, first_in, some))

            code.pieces_and_rest(code.builder.udiv(width, ir.Constant(INDEX, code.lanes)), _ROW_VECTORS, rows)

        code.blocks(n_in, part, _PAGES if beside else 2 * BLOCK)

    code.blocks(n_out, block)


@vector_function
def add_product(code, a, pa, step_out, step_in, n_out, n_in, x, px, out, po, width):
    """``out += A x`` for the matrix with entry (u, k) at ``pa + u * step_out + k * step_in``, transposed or not."""

    def write(_, sums):
        for place, value in sums.items():
            out.store(place, out.load(place, code.lanes) + value)

    _product(code, a, pa, step_out, step_in, n_out, n_in, x, px, po, width, write)


@vector_function
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


@vector_function
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
            place, totals = code.index(first, one, stride), [code.builder.load(total) for total in row]
            if m == 1:
                out.store(place, code.sum_of(totals[0], out.load(place, 1)))
            else:
                out.store(place, out.load(place, m) + code.sums_of(totals))

    def block(first, size):
        def row(n, i):
            code.pieces_and_rest(size, _OUTER_COLUMNS, lambda m, k: tile(n, i, m, code.builder.add(first, k)))

        code.tiles(n_c, row)

    code.blocks(n_x, block)


@vector_function
def add_outer(code, c, pc, n_c, x, px, n_x, out, po, width):
    """``out += C X^T``, summed over rows: entry (i, k) is at ``po + i * n_x + k``."""
    _outer(code, [(c, pc, x, px)], n_c, n_x, out, po, n_x, width)


@vector_function
def add_outers(code, c, pc, other_c, other_pc, n_c, x, px, other_x, other_px, n_x, out, po, stride, width):
    """``out += C X^T + C' X'^T``, see :func:`add_outer`; entry (i, k) is at ``po + i * stride + k``."""
    _outer(code, [(c, pc, x, px), (other_c, other_pc, other_x, other_px)], n_c, n_x, out, po, stride, width)


@vector_function
def add_dot(code, x, px, y, py, out, po, n):
    """``out += sum x y`` over ``n`` entries, a multiple of 16."""
    kind = code.kind(code.lanes)
    (total,) = code.sums(1, code.lanes)
    code.builder.store(code.number(0.0, kind).value, total)

    def add(j):
        a, b = (memory.load(code.builder.add(p, j), code.lanes) for memory, p in ((x, px), (y, py)))
        code.add_to(total, a * b)

    code.pieces(n, code.lanes, add)
    out.store(po, code.sum_of(code.builder.load(total), out.load(po, 1)))
