"""Files of an unfinished fit: where they are, and how one is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from legendretron._internal.artifacts import load_state, read_kind, save_state
from legendretron._internal.fields import OBJECT, TEXT, check_fields
from legendretron._internal.parameters import ParameterError, spell

T = TypeVar("T")


class CheckpointStore:
    """Keeps the newest checkpoint of this process at a path. Other stores do it for several, all of which call them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fetch(self) -> None:
        """Put the newest checkpoint that all processes have written at :attr:`path`, if there is one."""

    def commit(self) -> None:
        """Note that this process has written, or has nothing to write."""

    def end(self) -> None:
        """Remove the checkpoint once training has ended, if it is not needed until the model is saved."""
        self.path.unlink(missing_ok=True)


def save_checkpoint(path: Path, kind: str, fingerprint: str, state: dict[str, Any]) -> None:
    """Write the state of an unfinished fit, which a fingerprint identifies; a kind is, for example, ``"checkpoint"``."""
    save_state(path, kind, {"fingerprint": fingerprint, "state": state})


def load_checkpoint(path: Path, kind: str, fingerprint: str, from_state: Callable[[dict[str, Any]], T]) -> T:
    """Return what ``from_state`` makes of a state that :func:`save_checkpoint` wrote; refuse what is not of this fit."""
    if read_kind(path) != kind:  # it may be a file that somebody needs: do not suggest removing it
        raise ParameterError(
            "checkpoint",
            f"must be a path at which there is nothing, or a {kind} of this fit, but {str(path)!r} is not a {kind} of "
            "legendretron; choose another path.",
        )

    def read(state: dict[str, Any]) -> T | None:
        check_fields("the state", state, {"fingerprint": TEXT, "state": OBJECT})
        return from_state(state["state"]) if state["fingerprint"] == fingerprint else None

    try:
        found = load_state(path, {kind: read})
    except ValueError as error:
        raise ParameterError(
            "checkpoint", f"cannot be read: {error} Remove the file to start over, or choose another path."
        ) from error
    if found is None:
        raise ParameterError(
            "checkpoint",
            f"belongs to other data, settings or {spell('random_state')}, got {str(path)!r}; remove it to start over, or "
            "choose another path.",
        )
    return found


def read_progress(path: Path) -> int | None:
    """Steps taken before a checkpoint; None if there is none that can be read."""
    try:
        return load_state(path, {"checkpoint": lambda state: int(state["state"]["step"])})
    except (ValueError, LookupError, TypeError, OSError):
        return None
