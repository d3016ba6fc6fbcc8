r"""Links as one node of autograd's graph, by compiled functions on the CPU and by kernels on CUDA.

A link is a long series of small operations, and recording each of them takes far longer than computing. Here a link is one
operation with a backward pass written by hand, which gives the gradients of predictors and of all parameters at once. It
keeps its input, its result, and few numbers more.

Plain operations remain, for what these functions cannot do: derivatives of higher order, forward-mode differentiation,
function transforms, run axes, half precision, distributed tensors, recording and exporting. ``torch.compile`` sees the
operator ``legendretron::link``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from legendretron.accelerate.cpu.support import has_numba
from legendretron.accelerate.cuda.support import has_triton

__all__ = ["Chain", "Nests", "Shape", "by_one_node"]

#: Beyond this, products with ``A`` are large enough for matrix multiplication to be faster than one row at a time on CUDA.
_MOST_CLASSES_ON_CUDA = 8192
_MOST_IN_NESTS_ON_CUDA = 16_384  # that a program can hold
_HIGHEST_RANK_ON_CUDA = 17  # kernels are unrolled over the units; more of them take long to compile
_PLAIN_TYPES = (Tensor, nn.Parameter)
_PRECISIONS = (torch.float32, torch.float64)
_BATCHED: Any = torch._C._parse_dispatch_key("Batched")


class Chain(NamedTuple):
    """A composite link: what decides which function computes it."""

    n_blocks: int
    n_out: int
    hidden: int
    depth: int
    mixed: int  #: units of a layer that see the one before
    soft: bool  #: whether networks end in a softplus
    normalised: bool  #: whether they are CP-Flow's

    @property
    def on_cuda(self) -> bool:
        """Whether there are kernels."""
        return self.n_out < _MOST_CLASSES_ON_CUDA and self.hidden * self.depth + 1 <= _HIGHEST_RANK_ON_CUDA


class Nests(NamedTuple):
    """A canonical link."""

    n_nests: int
    n_classes: int
    all_classes: bool  #: whether rows have an entry for each class

    @property
    def on_cuda(self) -> bool:
        """Whether there are kernels."""
        return self.n_nests * self.n_classes <= _MOST_IN_NESTS_ON_CUDA


Shape = Chain | Nests


class _Functions(Protocol):
    def kept_size(self, n: int) -> int: ...

    def forward(self, z: Tensor, tensors: Sequence[Tensor], keep: bool) -> tuple[Tensor, Tensor]: ...

    def backward(
        self, g: Tensor, z: Tensor, log_p: Tensor, kept: Tensor, tensors: Sequence[Tensor], wanted: tuple[bool, bool]
    ) -> tuple[Tensor, Tensor]: ...


@cache
def _functions(shape: Shape, on_cuda: bool) -> _Functions:
    if on_cuda:
        from legendretron.accelerate.cuda.link import ChainOnCUDA
        from legendretron.accelerate.cuda.nested_link import NestsOnCUDA

        return ChainOnCUDA(*shape) if isinstance(shape, Chain) else NestsOnCUDA(*shape)
    from legendretron.accelerate.cpu.links import ChainOnCPU, NestsOnCPU

    return ChainOnCPU(*shape) if isinstance(shape, Chain) else NestsOnCPU(*shape)


def _parts(gradient: Tensor, tensors: Sequence[Tensor], needed: Sequence[bool]) -> list[Tensor | None]:
    """The gradient of each tensor, of those one after the other; None where it is not needed."""
    if not any(needed):
        return [None] * len(tensors)
    parts = gradient.split([tensor.numel() for tensor in tensors])
    return [
        (part if tensor.dim() == 1 else part.view(tensor.shape)) if need else None
        for part, tensor, need in zip(parts, tensors, needed, strict=True)
    ]


class _OneNode(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, functions: _Functions, plain: Any, z: Tensor, *tensors: Tensor) -> Tensor:
        log_p, kept = functions.forward(z, tensors, True)
        ctx.save_for_backward(z, log_p, kept, *tensors)
        ctx.functions, ctx.plain = functions, plain
        return log_p

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        z, log_p, kept, *tensors = ctx.saved_tensors
        needed = ctx.needs_input_grad[2:]
        higher = torch.is_grad_enabled()
        if higher or _is_batch(g):  # by operations that have derivatives, and take many gradients at once
            wanted = [tensor for tensor, need in zip((z, *tensors), needed, strict=True) if need]
            with torch.enable_grad():
                log_p = ctx.plain(z, tensors)
            found = iter(torch.autograd.grad(log_p, wanted, g, create_graph=higher, allow_unused=True))
            return None, None, *(next(found) if need else None for need in needed)
        dz, gradient = ctx.functions.backward(g.contiguous(), z, log_p, kept, tensors, (needed[0], any(needed[1:])))
        return None, None, dz if needed[0] else None, *_parts(gradient, tensors, needed[1:])


def by_one_node(
    shape: Shape, z: Tensor, tensors: Sequence[Tensor], plain: Callable[[Tensor, Sequence[Tensor]], Tensor]
) -> Tensor | None:
    """Log-probabilities ``(n, C)`` of rows ``(n, ...)``; None if there is no function for them.

    Parameters
    ----------
    shape : Chain or Nests
        The link.
    z : Tensor of shape (n, K) or (n, C)
        Predictors, or logits.
    tensors : sequence of Tensor
        All parameters of the link.
    plain : callable
        The same map from ``z`` and ``tensors`` by plain operations, for derivatives of higher order.
    """
    if torch.compiler.is_compiling():
        return _by_operator(shape, z, tensors)
    dtype = z.dtype
    if type(z) not in _PLAIN_TYPES or dtype not in _PRECISIONS or z.dim() != 2:
        return None
    on_cuda = z.is_cuda
    if not (has_triton() and shape.on_cuda and len(z) > 0 if on_cuda else z.is_cpu and has_numba()) or _is_watched():
        return None
    device = z.device
    recorded = z.requires_grad
    for tensor in tensors:
        if type(tensor) not in _PLAIN_TYPES or tensor.dtype != dtype or tensor.device != device:
            return None
        if not tensor.is_contiguous():
            return None
        recorded = recorded or tensor.requires_grad
    functions = _functions(shape, on_cuda)
    if not z.is_contiguous():
        z = z.contiguous()
    if recorded and torch.is_grad_enabled():
        result: Tensor = _OneNode.apply(functions, plain, z, *tensors)  # type: ignore[no-untyped-call]
        return result
    return functions.forward(z, tensors, False)[0]


def _is_batch(g: Tensor) -> bool:
    """Whether it stands for many gradients, as with ``is_grads_batched``; these are not seen by :func:`_is_watched`."""
    return bool(torch._C._dispatch_keys(g).has(_BATCHED))  # private, too


def _is_watched() -> bool:
    """Whether something wants to see each operation: a transform, forward-mode differentiation, a recorder."""
    # private, but there is no public way to ask
    return (
        torch._C._functorch.peek_interpreter_stack() is not None
        or forward_ad._current_level >= 0
        or torch._C._get_tracing_state() is not None
        or torch._C._len_torch_dispatch_stack() > 0
    )


# --- for compilers: an operator that they call as it is ---


@torch.library.custom_op("legendretron::link", mutates_args=())
def _link(z: Tensor, tensors: Sequence[Tensor], kind: str, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
    return _functions(_shape(kind, sizes), z.is_cuda).forward(z.contiguous(), [t.contiguous() for t in tensors], False)


@torch.library.custom_op("legendretron::link_backward", mutates_args=())
def _link_backward(
    g: Tensor,
    z: Tensor,
    log_p: Tensor,
    kept: Tensor,
    tensors: Sequence[Tensor],
    kind: str,
    sizes: Sequence[int],
) -> tuple[Tensor, Tensor]:
    functions = _functions(_shape(kind, sizes), z.is_cuda)
    tensors = [tensor.contiguous() for tensor in tensors]
    return functions.backward(g.contiguous(), z.contiguous(), log_p, kept, tensors, (True, True))


_KINDS: dict[str, type[Chain] | type[Nests]] = {"chain": Chain, "nests": Nests}


def _shape(kind: str, sizes: Sequence[int]) -> Shape:
    return _KINDS[kind](*sizes)  # type: ignore[arg-type]


@_link.register_fake
def _(z: Tensor, tensors: Sequence[Tensor], kind: str, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
    shape = _shape(kind, sizes)
    n_classes = shape.n_out + 1 if isinstance(shape, Chain) else shape.n_classes
    return z.new_empty(z.shape[0], n_classes), z.new_empty(_functions(shape, z.is_cuda).kept_size(z.shape[0]))


@_link_backward.register_fake
def _(
    g: Tensor,
    z: Tensor,
    log_p: Tensor,
    kept: Tensor,
    tensors: Sequence[Tensor],
    kind: str,
    sizes: Sequence[int],
) -> tuple[Tensor, Tensor]:
    return z.new_empty(z.shape), z.new_empty(sum(tensor.numel() for tensor in tensors))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    z, tensors, ctx.kind, ctx.sizes = inputs
    ctx.save_for_backward(z, *output, *tensors)


def _pull_back(ctx: Any, g: Tensor, _: Tensor) -> tuple[Any, ...]:
    z, log_p, kept, *tensors = ctx.saved_tensors
    dz, gradient = _link_backward(g, z, log_p, kept, tensors, ctx.kind, ctx.sizes)
    return dz, _parts(gradient, tensors, [True] * len(tensors)), None, None


_link.register_autograd(_pull_back, setup_context=_setup)


def _has_functions(on_cuda: bool) -> bool:
    """Asked while a graph is made; transforms are then really active, and the graph is one for them alone."""
    transformed = torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0
    return not transformed and (has_triton() if on_cuda else has_numba())


# what torch.compiler.assume_constant_result does; that also loads the compiler, for two seconds of every import of ours
_has_functions._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _by_operator(shape: Shape, z: Tensor, tensors: Sequence[Tensor]) -> Tensor | None:
    if torch.compiler.is_exporting() or type(z) not in _PLAIN_TYPES or z.dim() != 2 or z.dtype not in _PRECISIONS:
        return None
    device = z.device.type
    if not (device == "cpu" or (device == "cuda" and shape.on_cuda)) or not _has_functions(device == "cuda"):
        return None
    if any(type(t) not in _PLAIN_TYPES or t.dtype != z.dtype or t.device != z.device for t in tensors):
        return None
    kind = "chain" if isinstance(shape, Chain) else "nests"
    return _link(z, list(tensors), kind, [int(size) for size in shape])[0]
