"""Sizes and buffers of a chain of blocks in the compiled steps, by name."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

__all__ = ["Chain", "Sizes", "Units"]

Array = NDArray[Any]


class Sizes(NamedTuple):
    """Of all blocks, which are alike."""

    n_out: int  #: ``K``
    hidden: int  #: units of a layer
    mixed: int  #: of these, how many see the layer before
    depth: int  #: layers
    normalised: int  #: whether those are normalised, as in CP-Flow's network
    stride: int  #: entries of a row of the stack, of which the first ``K`` count
    n_blocks: int
    group: int  #: blocks that go through together, a divisor of their number


class Chain(NamedTuple):
    """What is the same for all rows, see :mod:`legendretron.accelerate.cpu.chain`."""

    stack: Array  #: the blocks' matrices, one below the other
    stack_grad: Array
    raw: Array  #: softplus of the raw parameters, mixing weights divided by the units of a layer
    raw_slope: Array
    mixing: Array  #: mixing weights with their scales
    unit_scale: Array  #: scale of each ridge unit
    bias: Array  #: of each ridge unit, with its scale
    gram: Array  #: products of each block's matrix with those before
    cross: Array  #: sums over rows, by which gradients of the stack depend on other blocks
    sums: Array  #: sums over rows, of which the gradients of ``alpha`` consist
    partial: Array  #: a vector for each ridge unit and mixing weight of a block, to add up gradients in


class Units(NamedTuple):
    """Values of the ridge units of all blocks, each with an entry for every row of a batch."""

    seen: Array  #: products of the stack with the predictors
    ridge: Array  #: inputs of one block's network; later products of the stack with the cotangents
    positive: Array
    slope: Array
    d: Array
    up: Array
    scaled: Array
    cot_d: Array  #: of one block, like the next
    cot_w: Array
    cot_z: Array
