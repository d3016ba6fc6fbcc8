"""Export to ONNX, for serving without torch."""

from __future__ import annotations

import copy
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from legendretron._internal.extras import import_extra
from legendretron._internal.files import write_atomically

__all__ = ["export_onnx", "onnx_model"]


def onnx_model(module: nn.Module, example: Tensor, inputs: str, outputs: list[str]) -> Any:
    """Return the ``onnx.ModelProto`` of a module in evaluation mode, dynamic in the first axis of its input.

    Examples
    --------
    >>> from legendretron.nn import LegendreHead
    >>> model = onnx_model(LegendreHead(5, 3, link="softmax"), torch.zeros(1, 5), "features", ["log_proba"])
    >>> model.graph.input[0].name
    'features'
    """
    if not isinstance(example, Tensor) or example.dim() < 2:
        shape = tuple(example.shape) if isinstance(example, Tensor) else type(example).__name__
        raise ValueError(f"example must be a tensor with a first axis for the batch, got {shape}.")
    if any(p.is_floating_point() and p.dtype.itemsize < 4 for p in module.parameters()):
        raise ValueError("module has parameters of half precision, which onnxruntime cannot run; use module.float().")
    for library in ("onnx", "onnxscript"):
        import_extra(library, "export to ONNX", "export")
    if example.shape[0] == 0:  # it is there for its shape
        example = example.new_zeros((1, *example.shape[1:]))
    if example.shape[0] == 1:  # one row would be taken for a constant
        example = example.expand(2, *example.shape[1:]).contiguous()
    plain = copy.deepcopy(module).eval()
    with torch.no_grad(), _quietly():
        program = torch.onnx.export(
            plain,
            (example,),
            dynamo=True,
            verbose=False,
            input_names=[inputs],
            output_names=outputs,
            dynamic_shapes=({0: torch.export.Dim("n")},),
        )
    assert program is not None
    return program.model_proto


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence the exporter's messages about its internals."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):  # older versions of onnxscript print
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def export_onnx(module: nn.Module, path: str | Path, example: Tensor) -> None:
    """Write a network that ends in a LegendreHead or LegendreLink to an ONNX file; the write is atomic.

    The file takes ``"input"``, of any number of rows, and gives ``"log_proba"``. The network is exported in evaluation
    mode and on its own device; it is not changed.

    Parameters
    ----------
    module : Module
        The network.
    path : path
        The file to write.
    example : Tensor of shape (n, ...)
        An input of the network, for its shape and dtype; integers too, where it takes such.

    Examples
    --------
    >>> import tempfile
    >>> from legendretron.nn import LegendreHead
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_onnx(LegendreHead(5, 3, link="softmax"), f"{folder}/head.onnx", torch.zeros(1, 5))
    """
    model = onnx_model(module, example, "input", ["log_proba"])
    write_atomically(Path(path), model.SerializeToString())
