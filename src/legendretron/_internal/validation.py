"""Checks of arguments.

Every check raises a ``ValueError`` that names the argument, shows the value and says what would be accepted.
Shapes are checked everywhere. Values are checked only by functions that take probabilities or labels from
users: inside modules NaN propagates as it does in torch, and reading the values would stall a GPU.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from legendretron._internal.parameters import ParameterError
from legendretron._internal.parameters import check_choice as check_choice
from legendretron._internal.parameters import check_integer as check_integer
from legendretron._internal.parameters import check_open_unit as check_open_unit

#: How far a probability vector may be from summing to one; single-precision ones may come as doubles.
_SUM_SLACK = 1e-5


def has_values(tensor: Tensor) -> bool:
    """Whether the values can be read: not while a graph is compiled, captured or mapped over, nor on the meta device."""
    if torch.compiler.is_compiling() or tensor.is_meta:
        return False
    if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
        return False
    return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def check_two_classes(kind: str, n_classes: int) -> None:
    """Raise unless there are two classes, the only number that this kind of link exists for."""
    if n_classes != 2:
        raise ValueError(f"{kind} is for n_classes=2 only, got {n_classes!r}.")


def check_device(name: object) -> torch.device:
    """Return the torch device of a name, ``"auto"`` being CUDA where available, or raise if it is not available."""
    wanted = name
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(wanted)  # type: ignore[call-overload]
    except (RuntimeError, TypeError) as error:
        raise ParameterError("device", f"must be 'cpu', 'cuda', 'cuda:N' or 'auto', got {name!r}.") from error
    if device.type not in ("cpu", "cuda"):
        raise ParameterError("device", f"must be 'cpu', 'cuda', 'cuda:N' or 'auto', got {name!r}.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ParameterError("device", f"must be 'cpu' or 'auto': torch sees no CUDA device here, got {name!r}.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ParameterError("device", f"must be one of {torch.cuda.device_count()} CUDA devices, got {name!r}.")
    return device


def check_run_shape(run_shape: object) -> tuple[int, ...]:
    """Return the run axes as a tuple of positive integers."""
    if not isinstance(run_shape, tuple | list | torch.Size):
        raise ValueError(f"run_shape must be a tuple of positive integers, got {run_shape!r}.")
    return tuple(check_integer("each entry of run_shape", n, 1) for n in run_shape)


def check_float_tensor(name: str, value: object) -> Tensor:
    """Return ``value`` if it is a real floating-point tensor."""
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} must be a torch.Tensor, got {type(value).__name__}; use torch.as_tensor.")
    if not value.is_floating_point():
        raise ValueError(f"{name} must have a floating-point dtype, got {value.dtype}; use {name}.float().")
    return value


def at_least_single(tensor: Tensor) -> Tensor:
    """Return ``tensor`` in float32 if it has fewer bits: exponentials, sums and differences of them need the digits."""
    return tensor.float() if tensor.dtype.itemsize < 4 else tensor


def in_autocast(tensor: Tensor) -> bool:
    """Whether automatic mixed precision is on where the tensor lives."""
    return not tensor.is_meta and torch.is_autocast_enabled(tensor.device.type)


def full_precision(like: Tensor) -> AbstractContextManager[Any]:
    """Leave automatic mixed precision, which would take products in half precision, where the tensor lives."""
    return torch.autocast(like.device.type, enabled=False) if in_autocast(like) else nullcontext()


def check_precision(name: str, value: Tensor, parameter: Tensor | None) -> Tensor:
    """Return ``value`` in the precision of a module's parameters, at least float32: raised if lower, refused if higher."""
    value = at_least_single(value)
    if parameter is None or value.dtype == parameter.dtype or parameter.dtype.itemsize < 4:
        return value
    if value.dtype.itemsize > parameter.dtype.itemsize:
        raise ValueError(
            f"{name} has dtype {value.dtype}, but the parameters are {parameter.dtype}; convert one of them, "
            f"for example with {name}.to({parameter.dtype})."
        )
    return value.to(parameter.dtype)


def check_last_axis(name: str, value: object, size: int, run_shape: tuple[int, ...] = ()) -> Tensor:
    """Return ``value`` if its shape is ``(*run_shape, ..., size)``."""
    tensor = check_float_tensor(name, value)
    runs = len(run_shape)
    if tensor.dim() <= runs or tensor.shape[-1] != size or tuple(tensor.shape[:runs]) != run_shape:
        axes = "".join(f"{n}, " for n in run_shape)
        raise ValueError(f"{name} must have shape ({axes}..., {size}), got {tuple(tensor.shape)}.")
    return tensor


def check_proba(
    name: str,
    p: object,
    n_classes: int | None = None,
    *,
    interior: bool = False,
    run_shape: tuple[int, ...] = (),
) -> Tensor:
    """Return ``p`` if its last axis holds probability vectors, of any number of classes from 2 up if that is not given.

    With ``interior``, entries must be strictly positive; ``run_shape`` are leading axes that ``p`` must have.
    """
    tensor = check_float_tensor(name, p)
    if n_classes is not None:
        tensor = check_last_axis(name, tensor, n_classes, run_shape)
    elif tensor.dim() == 0 or tensor.shape[-1] < 2:
        raise ValueError(f"{name} must have shape (..., C) with C >= 2, got {tuple(tensor.shape)}.")
    values = tensor.detach()
    if values.numel() == 0 or not has_values(values):
        return tensor
    low = float(values.min())
    if not low >= 0.0:  # also catches NaN
        raise ValueError(f"{name} must contain probabilities, but its smallest entry is {low}.")
    slack = max(_SUM_SLACK, 10.0 * torch.finfo(values.dtype).eps ** 0.5)
    off = float((values.sum(-1) - 1.0).abs().max())
    if not off <= slack:
        raise ValueError(f"{name} must sum to 1 along its last axis, but is off by {off:.3g}; normalize it first.")
    if interior and low == 0.0:
        raise ValueError(
            f"{name} must lie inside the simplex, but its smallest entry is 0, where the link is infinite; "
            f"clip it first, for example {name}.clamp(min=1e-12), and normalize."
        )
    return tensor


def check_labels(
    name: str,
    y: object,
    n_classes: int,
    shape: tuple[int, ...],
    ignore_index: int | None = None,
    *,
    read: bool = True,
) -> Tensor:
    """Return integer class labels as int64 if they have the shape given and, if read, lie in ``0 .. n_classes - 1``."""
    if not isinstance(y, Tensor) or y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        kind = y.dtype if isinstance(y, Tensor) else type(y).__name__
        raise ValueError(f"{name} must be an integer tensor of class labels, got {kind}.")
    if tuple(y.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(y.shape)}.")
    labels = y.long()  # before comparing: a label of 8 bits cannot hold a negative ignore_index
    if not read or labels.numel() == 0 or not has_values(labels):
        return labels
    low, high = torch.aminmax(labels)
    if int(low) >= 0 and int(high) < n_classes:
        return labels
    bad = (labels < 0) | (labels >= n_classes)
    if ignore_index is not None:
        bad &= labels != ignore_index
    if bool(bad.any()):
        raise ValueError(f"{name} must contain labels from 0 to {n_classes - 1}, got {int(labels[bad].flatten()[0])}.")
    return labels
