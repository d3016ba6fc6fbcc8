"""Tensors and JSON in one safetensors file, with a checksum over both. Nothing is ever unpickled.

A file says what it holds by ``format``, a name and a number such as ``legendretron-estimator-2``, and which version of the
library wrote it. The number is raised whenever what is written changes, so that a file is either understood or refused with
the version that understands it.
"""

from __future__ import annotations

import errno
import hashlib
import importlib
import json
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from legendretron._internal.files import write_atomically
from legendretron._internal.version import __version__

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["is_artifact", "read_arrays", "read_artifact", "write_artifact"]

#: Formats of models, one for each kind of class.
_MODELS = {"legendretron-estimator", "legendretron-table", "legendretron-calibrator"}
_METADATA = {"format", "library", "notes", "sha256"}
#: safetensors knows more, which torch can hardly compute with
_DTYPES = {"BOOL", "U8", "I64", "F16", "BF16", "F32", "F64"}
#: what safetensors allows
_LONGEST_HEADER = 100_000_000


def _safetensors(framework: str = "torch") -> Any:
    try:
        import safetensors

        importlib.import_module(f"safetensors.{framework}")
    except ImportError as error:  # pragma: no cover
        raise ImportError("saving and loading need safetensors: pip install 'legendretron[save]'.") from error
    return safetensors


def _checksum(tensors: dict[str, Any], metadata: dict[str, str]) -> str:
    signed = {key: metadata.get(key) for key in sorted(_METADATA - {"sha256"})}
    digest = hashlib.sha256(json.dumps(signed).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        is_array = isinstance(tensor, np.ndarray)
        dtype = f"torch.{tensor.dtype}" if is_array else str(tensor.dtype)
        digest.update(json.dumps([name, dtype, list(tensor.shape)]).encode())
        digest.update(tensor.reshape(-1).view(np.uint8).data if is_array else _bytes_of(tensor))
    return digest.hexdigest()


def _bytes_of(tensor: Tensor) -> memoryview:
    import torch

    return tensor.reshape(-1).view(torch.uint8).numpy().data


def write_artifact(path: str | os.PathLike[str], kind: str, tensors: dict[str, Tensor], notes: dict[str, Any]) -> None:
    """Write tensors and JSON notes atomically; ``kind`` is the name of the format and its number."""
    safe = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    metadata = {"format": kind, "library": __version__, "notes": json.dumps(notes)}
    metadata["sha256"] = _checksum(safe, metadata)
    write_atomically(path, _safetensors().torch.save(safe, metadata))


def read_artifact(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`write_artifact` wrote, and refuse any other file with a ``ValueError``.

    Tensors are read only if the file says that it is of this kind, and never take more memory than the file has bytes. They
    are copies: tensors that are mapped to a file change with it, and reading them kills the process if it is cut short.
    """
    return _read(path, kind, "torch")


def read_arrays(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """As :func:`read_artifact`, but arrays, without importing torch."""
    return _read(path, kind, "numpy")


def _read(path: str | os.PathLike[str], kind: str, framework: str) -> tuple[dict[str, Any], dict[str, Any]]:
    library = _safetensors(framework)
    name = repr(os.fspath(path))
    if not Path(path).is_file():
        why = errno.EISDIR if Path(path).is_dir() else errno.ENOENT
        raise OSError(why, os.strerror(why), os.fspath(path))  # a FileNotFoundError, or an IsADirectoryError
    try:
        with library.safe_open(path, framework=framework) as file:
            metadata = file.metadata() or {}
            _check_kind(name, metadata, kind)
            for key in file.keys():  # noqa: SIM118 - not a dict
                if (dtype := file.get_slice(key).get_dtype()) not in _DTYPES:
                    raise ValueError(
                        f"{name} has a tensor {key!r} of dtype {dtype}, which legendretron does not write."
                    )
        tensors = getattr(library, framework).load(Path(path).read_bytes())
    except (library.SafetensorError, OSError) as error:
        raise ValueError(f"{name} is damaged or not a file of legendretron: {error}.") from error
    if metadata["sha256"] != _checksum(tensors, metadata):
        raise ValueError(f"{name} has been changed or damaged since it was written: its checksum does not match.")
    try:
        notes = json.loads(metadata["notes"])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} has notes that are not JSON: {error}.") from error
    if not isinstance(notes, dict):
        raise ValueError(f"{name} has notes that must be a JSON object, not a {type(notes).__name__}.")
    return tensors, notes


def is_artifact(path: str | os.PathLike[str], name: str) -> bool:
    """Whether a file, whole or damaged, says at its beginning that it is of the format ``name``, of any number."""
    if not Path(path).is_file():
        return False
    try:
        with open(path, "rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(size)) if size <= min(_LONGEST_HEADER, os.path.getsize(path)) else None
    except (OSError, ValueError, RecursionError, struct.error):
        return False
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    return isinstance(metadata, dict) and _split(str(metadata.get("format")))[0] == name


def _check_kind(file: str, metadata: dict[str, str], kind: str) -> None:
    written = metadata.get("format", "something else")
    (name, number), (wanted, readable) = _split(written), _split(kind)
    if name != wanted:
        other = "; legendretron.load reads models of any class" if {name, wanted} <= _MODELS else ""
        raise ValueError(f"{file} holds {written!r}, but {kind!r} is needed{other}.")
    if number != readable:
        writer = metadata.get("library")
        raise ValueError(
            f"{file} was written by {'an early version of legendretron' if writer is None else f'legendretron {writer}'} "
            f"in format {number} of {name}, but this version, {__version__}, reads format {readable}. Use it with the "
            "version that wrote it, or fit again."
        )
    if set(metadata) != _METADATA:
        raise ValueError(f"{file} must have the metadata {sorted(_METADATA)}, got {sorted(metadata)}.")


def _split(kind: str) -> tuple[str, str]:
    """Name and number of a format.

    Examples
    --------
    >>> _split("legendretron-estimator-2")
    ('legendretron-estimator', '2')
    """
    name, _, number = kind.rpartition("-")
    return (name, number) if number.isdigit() else (kind, "")
