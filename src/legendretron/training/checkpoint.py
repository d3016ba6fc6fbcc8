"""The state of training in one file: safetensors with a JSON header, written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import Tensor

from legendretron.files import write_atomically

__all__ = ["load_checkpoint", "save_checkpoint"]

_FORMAT = "legendretron-checkpoint-1"


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError as error:  # pragma: no cover
        raise ImportError("checkpoints need safetensors: pip install 'legendretron[save]'.") from error
    return safetensors


def save_checkpoint(path: Path, tensors: dict[str, Tensor], notes: dict[str, Any]) -> None:
    """Write tensors and JSON notes."""
    header = {"format": _FORMAT, "notes": json.dumps(notes)}
    safe = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, _safetensors().torch.save(safe, header))


def load_checkpoint(path: Path, fingerprint: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`save_checkpoint` wrote, and refuse anything else."""
    library = _safetensors()
    try:
        with library.safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (library.SafetensorError, OSError) as error:
        raise ValueError(f"checkpoint {str(path)!r} cannot be read: {error}; remove it to start anew.") from error
    if header.get("format") != _FORMAT:
        raise ValueError(f"{str(path)!r} is not a checkpoint of this version; remove it or choose another path.")
    notes = json.loads(header["notes"])
    if notes["fingerprint"] != fingerprint:
        raise ValueError(
            f"checkpoint {str(path)!r} belongs to other data or settings; remove it to start anew, or choose "
            "another path."
        )
    return tensors, notes
