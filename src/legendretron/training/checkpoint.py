"""The state of training in one file, written atomically."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from legendretron._internal.artifacts import is_artifact, read_artifact, write_artifact
from legendretron.training.history import History

__all__ = ["checkpoint_progress", "load_checkpoint", "save_checkpoint"]

_NAME = "legendretron-checkpoint"
#: The number of the format: raise it when what is written changes. A test holds what each number means.
_KIND = f"{_NAME}-2"
_NOTES = {"fingerprint", "epoch", "seconds", "history"}


def save_checkpoint(path: Path, tensors: dict[str, Tensor], notes: dict[str, Any]) -> None:
    """Write tensors and JSON notes."""
    write_artifact(path, _KIND, tensors, notes)


def load_checkpoint(
    path: Path, fingerprint: str, expected: dict[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`save_checkpoint` wrote, and refuse anything else.

    Parameters
    ----------
    path : Path
        The file.
    fingerprint : str
        What identifies the fit to resume.
    expected : dict of str to Tensor
        Tensors of the names, shapes and dtypes that the checkpoint must have.
    """
    if not is_artifact(path, _NAME):  # it may be a file that somebody needs: do not suggest removing it
        raise ValueError(
            f"checkpoint must be the path of a checkpoint, or of a file that is not there yet, but {str(path)!r} is not a "
            "checkpoint of legendretron; choose another path."
        )
    try:
        tensors, notes = read_artifact(path, _KIND)
        if notes.get("fingerprint") == fingerprint:
            _check(tensors, notes, expected)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"checkpoint cannot be read: {error} Remove the file to start anew, or choose another path."
        ) from error
    if notes.get("fingerprint") != fingerprint:
        raise ValueError(
            f"checkpoint {str(path)!r} belongs to other data, settings or random_state; remove it to start anew, or "
            "choose another path."
        )
    return tensors, notes


def checkpoint_progress(path: Path) -> tuple[int, int] | None:
    """Epochs done, and steps taken in the one after them, of a checkpoint; None if there is none that can be read."""
    try:
        tensors, notes = read_artifact(path, _KIND)
    except (ValueError, OSError):
        return None
    taken = tensors.get("batches.taken")
    return int(notes["epoch"]), 0 if taken is None else int(taken.sum())


def _check(tensors: dict[str, Tensor], notes: dict[str, Any], expected: dict[str, Tensor]) -> None:
    if set(notes) != _NOTES:
        raise ValueError(f"its notes must be {sorted(_NOTES)}, got {sorted(notes)}.")
    epoch, seconds = notes["epoch"], notes["seconds"]
    if type(epoch) is not int or epoch < 0:
        raise ValueError(f"epoch must be an integer that is not negative, got {epoch!r}.")
    if type(seconds) is not float or not 0.0 <= seconds < math.inf:
        raise ValueError(f"seconds must be a finite number that is not negative, got {seconds!r}.")
    History.from_dict(notes["history"])
    if set(tensors) != set(expected):
        raise ValueError(f"its tensors must be {sorted(expected)}, got {sorted(tensors)}.")
    for name, like in expected.items():
        found = tensors[name]
        if found.shape != like.shape or found.dtype != like.dtype:
            raise ValueError(
                f"{name} must be of shape {tuple(like.shape)} and {like.dtype}, got {tuple(found.shape)} and {found.dtype}."
            )
        if name.startswith("generator."):
            try:
                torch.Generator().set_state(found)
            except RuntimeError as error:
                raise ValueError(f"{name} is not the state of a generator: {error}.") from error
