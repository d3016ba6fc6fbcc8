"""Matrix products as vector instructions.

Arrays are as in :mod:`legendretron.accelerate.cpu.vectors`.
"""

from __future__ import annotations

from legendretron.accelerate.cpu.vector_code import BLOCK, ON_ARM, WIDE_REGISTERS, vector_function

__all__ = ["add_dot", "add_outer", "add_outers", "add_product", "product", "product_plus"]

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

    def tile(n, u, vectors, j, first_in, some):
        """Some units, and some vectors of rows."""
        sums = [[code.total() for _ in range(n)] for _ in range(vectors)]
        p_a = pa + (u if step_out is None else u * step_out)
        with code.loop(some) as i:
            place, first = px + j + (first_in + i) * width, p_a + (first_in + i) * step_in
            if step_out is None:
                factors = code.spread_all(a, first, n, code.lanes)
            else:
                factors = [code.spread(a.load(first + step_out * o, 1), code.lanes) for o in range(n)]
            for v, totals in enumerate(sums):
                own = x.load(place + v * code.lanes)
                for factor, total in zip(factors, totals, strict=True):
                    total.add(factor * own)
        write(first_in, {
            po + j + (u + i) * width + v * code.lanes: total.get()
            for v, totals in enumerate(sums)
            for i, total in enumerate(totals)
        })  # fmt: skip

    def block(first, n):
        def part(first_in, some):
            def rows(vectors, v):
                code.tiles(n, lambda m, u: tile(m, first + u, vectors, v * code.lanes, first_in, some))

            code.pieces_and_rest(width // code.lanes, _ROW_VECTORS, rows)

        code.blocks(n_in, part, _PAGES if step_out is None else 2 * BLOCK)

    code.blocks(n_out, block)


@vector_function
def add_product(code, a, pa, step_out, step_in, n_out, n_in, x, px, out, po, width):
    """``out += A x`` for the matrix with entry (u, k) at ``pa + u * step_out + k * step_in``, transposed or not."""

    def write(_, sums):
        for place, value in sums.items():
            out.store(place, out.load(place) + value)

    _product(code, a, pa, step_out, step_in, n_out, n_in, x, px, po, width, write)


def _start_or_add(code, out, start=None):
    """What writes sums: with ``start(place)`` for the first part of the inputs, and added to those before for the others."""

    def write(first_in, sums):
        is_first = code.builder.icmp_unsigned("==", first_in.value, code.index(0).value)
        with code.builder.if_else(is_first) as (first, later):
            with first:
                for place, value in sums.items():
                    out.store(place, value if start is None else start(place) + value)
            with later:
                for place, value in sums.items():
                    out.store(place, out.load(place) + value)

    return write


@vector_function
def product(code, a, pa, step_in, n_out, n_in, x, px, out, po, width):
    """``out = A x`` for the matrix with entry (u, k) at ``pa + u + k * step_in``."""
    _product(code, a, pa, None, step_in, n_out, n_in, x, px, po, width, _start_or_add(code, out))


@vector_function
def product_plus(code, a, pa, step_in, n_out, n_in, x, px, y, py, own, out, po, width):
    """``out = A x + own y`` for a number ``own``, see :func:`product`; ``out`` may be ``y``."""
    write = _start_or_add(code, out, lambda place: y.load(place + (py - po)) * own)
    _product(code, a, pa, None, step_in, n_out, n_in, x, px, po, width, write)


def _outer(code, pairs, n_c, n_x, out, po, stride, width):
    """``out += sum C X^T`` over some pairs of matrices and their places: entry (i, k) is at ``po + i * stride + k``."""
    lanes = code.lanes // _OUTER_PARTS  # for enough registers

    def tile(n, i, m, k):
        """Some units of one and some of the other, summed over all rows."""
        sums = [[code.total(lanes=lanes) for _ in range(m)] for _ in range(n)]
        for c, pc, x, px in pairs:
            with code.pieces(width, lanes) as j:
                left = [c.load(pc + j + (i + one) * width, lanes) for one in range(n)]
                right = [x.load(px + j + (k + one) * width, lanes) for one in range(m)]
                for a, row in zip(left, sums, strict=True):
                    for b, total in zip(right, row, strict=True):
                        total.add(a * b)
        for one, row in enumerate(sums):
            place, totals = po + (i + one) * stride + k, [total.get() for total in row]
            if m == 1:
                out.store(place, totals[0].sum(out.load(place, 1)))
            else:
                out.store(place, out.load(place, m) + code.sums_of(totals))

    def block(first, size):
        def row(n, i):
            code.pieces_and_rest(size, _OUTER_COLUMNS, lambda m, k: tile(n, i, m, first + k))

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
    total = code.total()
    with code.pieces(n) as j:
        total.add(x.load(px + j) * y.load(py + j))
    out.store(po, total.get().sum(out.load(po, 1)))
