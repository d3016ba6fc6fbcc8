"""The state of training in one file, written atomically."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from torch import Tensor

from legendretron._internal.artifacts import is_artifact, read_artifact, write_artifact
from legendretron.training.history import History

__all__ = ["CheckpointStore", "load_checkpoint", "read_progress", "save_checkpoint"]

_NAME = "legendretron-checkpoint"
#: The number of the format: raise it when what is written changes. A test holds what each number means.
_KIND = f"{_NAME}-3"
_NOTES = {"fingerprint", "epoch", "step", "seconds", "history"}


class CheckpointStore:
    """Keeps the newest checkpoint, here in a file. Other stores do it for several processes, all of which call the methods.

    Parameters
    ----------
    path : Path
        Where this process writes its checkpoint, and reads it from.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def fetch(self) -> None:
        """Put the newest checkpoint that all processes have written at :attr:`path`, if there is one."""

    def commit(self) -> None:
        """Note that this process has written, or has nothing to write."""

    def end(self) -> None:
        """Remove the checkpoint once training has ended, if it is not needed until the model is saved."""
        self.path.unlink(missing_ok=True)


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


def read_progress(path: Path) -> int | None:
    """Steps taken before a checkpoint; None if there is none that can be read."""
    try:
        return int(read_artifact(path, _KIND)[1]["step"])
    except (ValueError, OSError):
        return None


def _check(tensors: dict[str, Tensor], notes: dict[str, Any], expected: dict[str, Tensor]) -> None:
    if set(notes) != _NOTES:
        raise ValueError(f"its notes must be {sorted(_NOTES)}, got {sorted(notes)}.")
    for name in ("epoch", "step"):
        if type(notes[name]) is not int or notes[name] < 0:
            raise ValueError(f"{name} must be an integer that is not negative, got {notes[name]!r}.")
    seconds = notes["seconds"]
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
