"""Tensors and JSON in one safetensors file, with a checksum over both. Nothing is ever unpickled."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from torch import Tensor

from legendretron.files import write_atomically

__all__ = ["read_artifact", "write_artifact"]


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError as error:  # pragma: no cover
        raise ImportError("saving and loading need safetensors: pip install 'legendretron[save]'.") from error
    return safetensors


def _checksum(tensors: dict[str, Tensor], notes: str) -> str:
    digest = hashlib.sha256(notes.encode())
    for name in sorted(tensors):
        array = tensors[name].contiguous().numpy()
        digest.update(f"{name}:{array.dtype}:{array.shape};".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def write_artifact(path: str | os.PathLike[str], kind: str, tensors: dict[str, Tensor], notes: dict[str, Any]) -> None:
    """Write tensors and JSON notes, whole or not at all; ``kind`` names format and version."""
    safe = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(notes)
    header = {"format": kind, "notes": text, "sha256": _checksum(safe, text)}
    write_atomically(path, _safetensors().torch.save(safe, header))


def read_artifact(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`write_artifact` wrote, and refuse anything else with a ``ValueError``."""
    library = _safetensors()
    name = repr(os.fspath(path))
    if not Path(path).is_file():
        raise ValueError(f"path must lead to a file, but there is none at {name}.")
    try:
        with library.safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
    except (library.SafetensorError, OSError) as error:
        raise ValueError(f"{name} is damaged or not a file of legendretron: {error}.") from error
    if header.get("format") != kind:
        raise ValueError(f"{name} holds {header.get('format', 'something else')!r}, but {kind!r} is needed.")
    if header.get("sha256") != _checksum(tensors, header.get("notes", "")):
        raise ValueError(f"{name} has been changed or damaged since it was written: its checksum does not match.")
    return tensors, json.loads(header["notes"])
