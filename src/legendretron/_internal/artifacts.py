"""The format of all saved files: a tree of values in one safetensors file, with a checksum. Nothing is ever unpickled.

A class that is saved returns such a tree by ``to_state``: dicts, lists, text, numbers, None, and arrays or tensors as values
of dicts. Its ``from_state`` checks a tree by :mod:`legendretron._internal.fields`, and builds from it.

In a file, arrays are tensors that are named by their place in the tree, as in ``link/tensors/nests.log_mu``; the rest of the
tree is JSON in the metadata, beside the kind of the file, the number of the format, and the version that wrote it.
"""

from __future__ import annotations

import errno
import hashlib
import importlib
import json
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from legendretron._internal.files import write_atomically
from legendretron._internal.printable import one_line
from legendretron._internal.version import __version__

#: Raise the number when what is written changes, of any kind of file, so that no file is ever misread.
FORMAT = "legendretron-7"
_METADATA = {"format", "kind", "library", "state", "sha256"}
#: safetensors knows more, which torch can hardly compute with
_DTYPES = {"BOOL", "U8", "I64", "F16", "BF16", "F32", "F64"}
#: what safetensors allows
_LONGEST_HEADER = 100_000_000
#: deepest nesting of a tree; that of a calibrator around a classifier of tables is 10
_DEEPEST = 24

T = TypeVar("T")
Reader = Callable[[dict[str, Any]], T]


# --- writing ---


def save_state(
    path: str | os.PathLike[str], kind: str, state: Mapping[str, Any], check: Reader[Any] | None = None
) -> None:
    """Write a tree of a kind to a file, whole or not at all; its folder is made if needed.

    ``check`` reads such a tree; it is called before anything is written, so that no file is written that cannot be loaded.
    """
    import torch

    arrays: dict[str, Any] = {}
    metadata = {"format": FORMAT, "kind": kind, "library": __version__}
    try:
        metadata["state"] = json.dumps(_split(state, (), arrays))
        tensors = {name: torch.as_tensor(array).detach().cpu().contiguous() for name, array in arrays.items()}
        if check is not None:
            check(_join(metadata["state"], tensors))
    except ValueError as error:
        raise ValueError(f"the {kind} cannot be saved: {error}") from error
    metadata["sha256"] = _checksum(tensors, metadata)
    write_atomically(path, _safetensors("torch").torch.save(tensors, metadata))


def _split(value: Any, place: tuple[str, ...], arrays: dict[str, Any]) -> Any:
    """The part of a tree that JSON can hold; arrays are put aside, by their place."""
    if isinstance(value, Mapping):
        rest = {}
        for key, entry in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{'.'.join(place)} has the key {key!r}, but keys must be text.")
            if hasattr(entry, "dtype") and hasattr(entry, "shape") and not isinstance(entry, np.generic):
                arrays["/".join((*place, key))] = entry
            else:
                rest[key] = _split(entry, (*place, key), arrays)
        return rest
    if isinstance(value, list | tuple):
        return [_split(entry, (*place, str(i)), arrays) for i, entry in enumerate(value)]
    if isinstance(value, np.generic):
        value = value.item()
    if value is not None and not isinstance(value, str | bool | int | float):
        raise ValueError(f"{'.'.join(place)} is of type {type(value).__name__}, which a file cannot hold.")
    return value


# --- reading ---


def load_state(path: str | os.PathLike[str], readers: Mapping[str, Reader[T]], framework: str = "torch") -> T:
    """Return what one of the readers, by the kind of the file, makes of its tree; a ``ValueError`` if it cannot be read.

    Arrays are read only if the file is of such a kind, and never take more memory than the file has bytes. They are copies:
    what is mapped to a file changes with it, and reading it kills the process if the file is cut short. With the framework
    ``"numpy"``, torch is not imported.
    """
    library, name = _safetensors(framework), repr(os.fspath(path))
    if not Path(path).is_file():
        why = errno.EISDIR if Path(path).is_dir() else errno.ENOENT
        raise OSError(why, os.strerror(why), os.fspath(path))  # a FileNotFoundError, or an IsADirectoryError
    try:
        with library.safe_open(path, framework=framework) as file:
            metadata = file.metadata() or {}
            _check_metadata(name, metadata, [*readers])
            for key in file.keys():  # noqa: SIM118 - not a dict
                if (dtype := file.get_slice(key).get_dtype()) not in _DTYPES:
                    raise ValueError(
                        f"{name} has a tensor {key!r} of dtype {dtype}, which legendretron does not write."
                    )
        arrays = getattr(library, framework).load(Path(path).read_bytes())
    except (library.SafetensorError, OSError) as error:
        raise ValueError(f"{name} is damaged or not a file of legendretron: {error}.") from error
    if metadata["sha256"] != _checksum(arrays, metadata):
        raise ValueError(f"{name} has been changed or damaged since it was written: its checksum does not match.")
    try:
        return readers[metadata["kind"]](_join(metadata["state"], arrays))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is not a {metadata['kind']} that can be loaded: {error}") from error


def read_kind(path: str | os.PathLike[str]) -> str | None:
    """What a file, whole or damaged, says at its beginning that it holds; None for a file that is not of this library."""
    try:
        with open(path, "rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(size)) if size <= min(_LONGEST_HEADER, os.path.getsize(path)) else None
    except (OSError, ValueError, RecursionError, struct.error):
        return None
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or not str(metadata.get("format")).startswith("legendretron-"):
        return None
    return str(metadata.get("kind"))


def _check_metadata(file: str, metadata: dict[str, str], kinds: list[str]) -> None:
    written, writer = metadata.get("format", ""), metadata.get("library")
    if not written.startswith("legendretron-"):
        raise ValueError(f"{file} holds {written or 'something else'!r}, but {' or '.join(kinds)} is needed.")
    if written != FORMAT:
        by = "" if writer is None else f" {one_line(writer)}"
        raise ValueError(
            f"{file} is in the format {one_line(written)} of legendretron{by}, but this version reads {FORMAT}. Fit again, "
            "or load it with the version that wrote it."
        )
    if set(metadata) != _METADATA:
        raise ValueError(f"{file} must have the metadata {sorted(_METADATA)}, got {sorted(metadata)}.")
    if metadata["kind"] not in kinds:
        raise ValueError(
            f"{file} holds a {one_line(metadata['kind'])}, but {' or '.join(kinds)} is needed: legendretron.load reads "
            "models of any class, load_link reads links, and load_loss losses."
        )


def _join(text: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The tree of JSON and arrays; the reverse of :func:`_split`."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its state is not JSON: {error}.") from error
    if not isinstance(tree, dict):
        raise ValueError(f"its state must be a JSON object, not a {type(tree).__name__}.")
    _check_tree(tree, _DEEPEST)
    for name, array in arrays.items():
        *way, last = name.split("/")
        parent: Any = tree
        for key in way:
            parent = parent.get(key) if isinstance(parent, dict) else None
        if not isinstance(parent, dict) or last in parent:
            raise ValueError(f"the tensor {name!r} is not used.")
        parent[last] = array
    return tree


def _check_tree(value: Any, depth: int) -> None:
    """Raise a ``ValueError`` for what no state has: deep nesting, and integers of more than 64 bits."""
    if depth < 0:
        raise ValueError("its state is nested too deeply.")
    if isinstance(value, dict | list):
        for entry in value.values() if isinstance(value, dict) else value:
            _check_tree(entry, depth - 1)
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise ValueError("its state has an integer of more than 64 bits.")


# --- both ---


def _safetensors(framework: str) -> Any:
    import safetensors

    importlib.import_module(f"safetensors.{framework}")
    return safetensors


def _checksum(tensors: Mapping[str, Any], metadata: Mapping[str, str]) -> str:
    signed = {key: metadata.get(key) for key in sorted(_METADATA - {"sha256"})}
    digest = hashlib.sha256(json.dumps(signed).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(json.dumps([name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape)]).encode())
        digest.update(_view_bytes(tensor))
    return digest.hexdigest()


def _view_bytes(tensor: Any) -> memoryview:
    if 0 in tensor.shape:  # which torch cannot always view as bytes
        return memoryview(b"")
    if not isinstance(tensor, np.ndarray):
        import torch

        tensor = tensor.reshape(-1).view(torch.uint8).numpy()
    return tensor.reshape(-1).view(np.uint8).data
