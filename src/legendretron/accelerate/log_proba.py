r"""Log-probabilities of a link as one node of autograd's graph, by compiled functions on the CPU and by kernels on CUDA.

A link is a long series of small operations, and recording each of them takes far longer than computing. Here a link is one
operation with a backward pass written by hand, which gives the gradients of predictors and of all parameters at once. It
keeps its input, its result, and few numbers more.

Plain operations remain, for what these functions cannot do: derivatives of higher order, forward-mode differentiation,
function transforms, run axes, half precision, distributed tensors, recording and exporting. ``torch.compile`` sees the
operator ``legendretron::link``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol, cast

import torch
from torch import Tensor
from torch.autograd import forward_ad

from legendretron.accelerate.forms import LinkForm, LinkParts, fits_kernels, link_parts
from legendretron.accelerate.support import can_read, compiled_applies, has_numba, has_triton, kernels_apply
from legendretron.links import CanonicalLink, Link, NoisyLink
from legendretron.simplex import log_softmax_plus

__all__ = ["LinkFunctions", "is_watched", "link_functions", "log_proba"]

_BATCHED: Any = torch._C._parse_dispatch_key("Batched")
_Plain = Callable[[Tensor, Sequence[Tensor]], Tensor]


def log_proba(link: Link, rows: Tensor, all_classes: bool = False) -> Tensor:
    """Log-probabilities ``(n, C)`` of rows, by compiled functions where they exist, else by the link's own maps.

    Rows are predictors ``(n, C - 1)``, or, with ``all_classes``, logits ``(n, C)``.

    Examples
    --------
    >>> link, z = CanonicalLink(3), torch.randn(5, 2)
    >>> torch.allclose(log_proba(link, z), link(z), atol=1e-6)
    True
    """
    if type(link) is NoisyLink:
        return link.noise.log_observed(log_proba(link.clean, rows, all_classes))
    parts, log_p = None if link.run_shape else link_parts(link), None
    if parts is not None and parts.form.n_nests:
        log_p = _by_one_node(parts, all_classes, rows, _plain_nests(link, all_classes))
    elif parts is not None and parts.form.n_blocks:
        z = link._predictors_of_logits(rows) if all_classes else rows
        log_p = link._log_proba_in_double(rows, all_classes)
        if log_p is None:
            log_p = _by_one_node(parts, False, z, _plain_chain(parts))
    if log_p is not None:
        return log_p
    return link._log_proba_of_logits(rows) if all_classes else link._log_proba(rows)


def _plain_nests(link: Link, all_classes: bool) -> _Plain:
    nests = cast(CanonicalLink, link).nests
    return nests._log_proba_of_logits if all_classes else nests._log_proba


def _plain_chain(parts: LinkParts) -> _Plain:
    blocks = parts.blocks

    def plain(z: Tensor, tensors: Sequence[Tensor]) -> Tensor:
        each = len(tensors) // len(blocks)
        for i, block in enumerate(blocks):
            z = block._gradient_of(block._ridge_of(tensors[each * i : each * (i + 1)]), z)
        return log_softmax_plus(z)

    return plain


class LinkFunctions(Protocol):
    """A link by compiled functions: log-probabilities of rows, and their derivatives.

    They read and write memory as large as their sizes say, see :func:`~legendretron.accelerate.support.can_read`.
    """

    #: Of the link's tensors.
    shapes: list[tuple[int, ...]]

    def saved_size(self, n: int) -> int:
        """Numbers that the forward pass keeps for the backward pass, beside its result."""

    def forward(self, z: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Log-probabilities ``(n, C)`` of rows, and what is saved."""

    def backward(
        self, g: Tensor, z: Tensor, log_p: Tensor, saved: Tensor, tensors: Sequence[Tensor], wanted: tuple[bool, bool]
    ) -> tuple[Tensor, Tensor]:
        """Gradients of the rows, and of all parameters one after the other; either may be left out if not wanted."""


@cache
def _functions(form: LinkForm, all_classes: bool, on_cuda: bool) -> LinkFunctions:
    if on_cuda:
        from legendretron.accelerate.cuda.chain import ChainOnCUDA
        from legendretron.accelerate.cuda.nests import NestsOnCUDA

        return NestsOnCUDA(form, all_classes) if form.n_nests else ChainOnCUDA(form)
    from legendretron.accelerate.cpu.links import LinkOnCPU

    return LinkOnCPU(form, all_classes)


def link_functions(form: LinkForm, all_classes: bool, like: Tensor) -> LinkFunctions | None:
    """Compiled functions for contiguous tensors like this one and a link without run axes; None if there are none."""
    known = kernels_apply(like) and fits_kernels(form) if like.is_cuda else compiled_applies(like)
    return _functions(form, all_classes, like.is_cuda) if known else None


def _parts(gradient: Tensor, shapes: Sequence[tuple[int, ...]], needed: Sequence[bool]) -> list[Tensor | None]:
    """The gradients of tensors of these shapes, from all of them one after the other; None where one is not needed."""
    if not any(needed):
        return [None] * len(shapes)
    parts = gradient.split([math.prod(shape) for shape in shapes])
    return [
        (part if len(shape) == 1 else part.view(shape)) if need else None
        for part, shape, need in zip(parts, shapes, needed, strict=True)
    ]


class _OneNode(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, functions: LinkFunctions, plain: _Plain, z: Tensor, *tensors: Tensor) -> Tensor:
        log_p, saved = functions.forward(z, tensors)
        ctx.save_for_backward(log_p, saved, z, *tensors)
        ctx.functions, ctx.plain = functions, plain
        ctx.shapes = [log_p.shape, log_p.shape, saved.shape, z.shape, *functions.shapes]
        return log_p

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        log_p, saved, z, *tensors = kept = ctx.saved_tensors
        needed = ctx.needs_input_grad[2:]
        higher = torch.is_grad_enabled()
        plain = higher or _is_batch(g)  # by operations that have derivatives, and take many gradients at once
        if not plain:
            g = g.contiguous()
            # parameters may have been replaced since, and hooks may bring tensors back in another layout
            plain = not can_read((g, *kept), ctx.shapes, z)
        if plain:
            wanted = [tensor for tensor, need in zip((z, *tensors), needed, strict=True) if need]
            with torch.enable_grad():
                log_p = ctx.plain(z, tensors)
            gradients = iter(torch.autograd.grad(log_p, wanted, g, create_graph=higher, allow_unused=True))
            return None, None, *(next(gradients) if need else None for need in needed)
        dz, gradient = ctx.functions.backward(g, z, log_p, saved, tensors, (needed[0], any(needed[1:])))
        return None, None, dz if needed[0] else None, *_parts(gradient, ctx.functions.shapes, needed[1:])


def _by_one_node(parts: LinkParts, all_classes: bool, z: Tensor, plain: _Plain) -> Tensor | None:
    """Log-probabilities ``(n, C)`` of rows; None if there is no function for them.

    ``plain`` is the same map from ``z`` and the link's tensors by plain operations: for derivatives of higher order, and for
    errors, where tensors are not those of the link.
    """
    form, tensors = parts.form, parts.tensors
    compiling = torch.compiler.is_compiling()
    if not compiling and is_watched():
        return None
    z = z if z.is_contiguous() else z.contiguous()
    functions = None if compiling else link_functions(form, all_classes, z)
    shapes = form.shapes if functions is None else functions.shapes
    if not can_read((z, *tensors), [_shape_of_rows(form, all_classes, z.shape[0]), *shapes], z):
        return None
    if compiling:
        return _by_operator(form, all_classes, z, tensors)
    if (
        functions is None or (z.is_cuda and not len(z)) or z.is_neg()
    ):  # such as imaginary parts, negated when they are read
        return None
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (z, *tensors)):
        result: Tensor = _OneNode.apply(functions, plain, z, *tensors)  # type: ignore[no-untyped-call]
        return result
    return functions.forward(z, tensors)[0]


def _shape_of_rows(form: LinkForm, all_classes: bool, n: int) -> tuple[int, int]:
    return n, form.n_classes if all_classes else form.n_classes - 1


def _is_batch(g: Tensor) -> bool:
    """Whether it stands for many gradients, as with ``is_grads_batched``; these are not seen by :func:`is_watched`."""
    return bool(torch._C._dispatch_keys(g).has(_BATCHED))  # private, too


def is_watched() -> bool:
    """Whether something must see each operation: a compiler, a transform, forward-mode differentiation, a recorder."""
    # private, but there is no public way to ask
    return (
        torch.compiler.is_compiling()
        or _is_transformed()
        or torch._C._get_tracing_state() is not None
        or torch._C._len_torch_dispatch_stack() > 0
    )


def _is_transformed() -> bool:
    return torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0


# --- for compilers: an operator that they call as it is ---


@torch.library.custom_op("legendretron::link", mutates_args=())
def _link(z: Tensor, tensors: Sequence[Tensor], sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
    z, tensors = z.contiguous(), [tensor.contiguous() for tensor in tensors]
    return _checked_functions(sizes, z, tensors).forward(z, tensors)


@torch.library.custom_op("legendretron::link_backward", mutates_args=())
def _link_backward(
    g: Tensor,
    z: Tensor,
    log_p: Tensor,
    saved: Tensor,
    tensors: Sequence[Tensor],
    sizes: Sequence[int],
) -> tuple[Tensor, Tensor]:
    g, z, log_p, saved = (tensor.contiguous() for tensor in (g, z, log_p, saved))
    tensors = [tensor.contiguous() for tensor in tensors]
    functions = _checked_functions(sizes, z, tensors, (g, log_p, saved))
    return functions.backward(g, z, log_p, saved, tensors, (True, True))


def _sizes(form: LinkForm, all_classes: bool) -> list[int]:
    """What an operator may be given: integers."""
    return [int(all_classes), *(int(size) for size in form[:8])]


def _form_of(sizes: Sequence[int]) -> tuple[LinkForm, bool]:
    """The inverse of :func:`_sizes`; anyone may call an operator with any integers."""
    if len(sizes) == 9:
        n_classes, n_blocks, hidden, depth, mixed, soft, normalized, n_nests = sizes[1:]
        form = LinkForm(n_classes, n_blocks, hidden, depth, mixed, bool(soft), bool(normalized), n_nests)
        all_classes = bool(sizes[0])
        least = n_classes >= 2 and min(hidden, depth) >= 1 and min(n_blocks, n_nests) >= 0
        if least and mixed in (hidden, hidden - hidden // 2) and (n_nests > 0 or not all_classes):
            return form, all_classes
    raise ValueError(f"sizes must be those of a link, as LegendreHead gives them, got {list(sizes)}.")


def _functions_of(sizes: Sequence[int], z: Tensor) -> LinkFunctions:
    form, all_classes = _form_of(sizes)
    return _functions(form, all_classes, z.is_cuda)


def _checked_functions(
    sizes: Sequence[int], z: Tensor, tensors: Sequence[Tensor], others: Sequence[Tensor] = ()
) -> LinkFunctions:
    """Functions of an operator that may read its tensors; ``others`` are cotangents, log-probabilities and what was saved."""
    form, all_classes = _form_of(sizes)
    functions, n = _functions_of(sizes, z), z.shape[0] if z.dim() else 0
    of_rows = n, form.n_classes
    shapes = [_shape_of_rows(form, all_classes, n), *functions.shapes]
    shapes += [of_rows, of_rows, (functions.saved_size(n),)] if others else []
    given = (z, *tensors, *others)
    if not can_read(given, shapes, z) or (z.is_cuda and not fits_kernels(form)):
        found = ", ".join(f"{tuple(t.shape)} {t.dtype} on {t.device}" for t in given)
        raise ValueError(
            f"tensors must be those of a link with sizes={list(sizes)}, of shapes {shapes}, all with the dtype and device of "
            f"z, got {found}."
        )
    return functions


@_link.register_fake
def _(z: Tensor, tensors: Sequence[Tensor], sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
    return z.new_empty(z.shape[0], sizes[1]), z.new_empty(_functions_of(sizes, z).saved_size(z.shape[0]))


@_link_backward.register_fake
def _(
    g: Tensor,
    z: Tensor,
    log_p: Tensor,
    saved: Tensor,
    tensors: Sequence[Tensor],
    sizes: Sequence[int],
) -> tuple[Tensor, Tensor]:
    return z.new_empty(z.shape), z.new_empty(sum(tensor.numel() for tensor in tensors))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    z, tensors, ctx.sizes = inputs
    ctx.save_for_backward(z, *output, *tensors)


def _pull_back(ctx: Any, g: Tensor, _: Tensor) -> tuple[Any, ...]:
    z, log_p, saved, *tensors = ctx.saved_tensors
    dz, gradient = _link_backward(g, z, log_p, saved, tensors, ctx.sizes)
    return dz, _parts(gradient, [tensor.shape for tensor in tensors], [True] * len(tensors)), None


_link.register_autograd(_pull_back, setup_context=_setup)


def _has_functions(on_cuda: bool) -> bool:
    """Asked while a graph is made; transforms are then really active, and the graph is one for them alone."""
    return not _is_transformed() and (has_triton() if on_cuda else has_numba())


# what torch.compiler.assume_constant_result does, but that loads the compiler, which would add 2 s to every import
_has_functions._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _by_operator(form: LinkForm, all_classes: bool, z: Tensor, tensors: Sequence[Tensor]) -> Tensor | None:
    device = z.device.type
    if torch.compiler.is_exporting() or not (device == "cpu" or (device == "cuda" and fits_kernels(form))):
        return None
    return _link(z, list(tensors), _sizes(form, all_classes))[0] if _has_functions(device == "cuda") else None
