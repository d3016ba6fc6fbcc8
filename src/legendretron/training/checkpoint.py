"""The state of training in one file, written whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from legendretron.artifacts import read_artifact, write_artifact

__all__ = ["load_checkpoint", "save_checkpoint"]

_KIND = "legendretron-checkpoint-1"


def save_checkpoint(path: Path, tensors: dict[str, Tensor], notes: dict[str, Any]) -> None:
    """Write tensors and JSON notes."""
    write_artifact(path, _KIND, tensors, notes)


def load_checkpoint(path: Path, fingerprint: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`save_checkpoint` wrote, and refuse anything else."""
    try:
        tensors, notes = read_artifact(path, _KIND)
    except ValueError as error:
        raise ValueError(f"checkpoint cannot be read: {error} Remove the file to start anew.") from error
    if notes["fingerprint"] != fingerprint:
        raise ValueError(
            f"checkpoint {str(path)!r} belongs to other data, settings or random_state; remove it to start anew, or "
            "choose another path."
        )
    return tensors, notes
