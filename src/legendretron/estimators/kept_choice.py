"""Strengths that have been chosen, kept beside a checkpoint so that a resumed fit does not choose again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from legendretron._internal.files import write_atomically
from legendretron.estimators.saved_tuning import (
    decode_strengths,
    decode_tuning,
    encode_strengths,
    encode_tuning,
    is_strengths,
    is_tuning,
)
from legendretron.tuning import Tuning

__all__ = ["KeptChoice"]

_KIND = "legendretron-strengths-1"


class KeptChoice:
    """The file ``<checkpoint>.strengths``.

    Parameters
    ----------
    checkpoint : Path
        The path of the checkpoint.
    fingerprint : str
        What identifies the fit.
    """

    def __init__(self, checkpoint: Path, fingerprint: str) -> None:
        self.path = checkpoint.with_name(f"{checkpoint.name}.strengths")
        self.fingerprint = fingerprint

    def load(self) -> Tuning | None:
        """Return what was chosen, or None if nothing was; raise a ``ValueError`` for a file of something else."""
        if not self.path.exists():
            return None
        content = self._read()
        if content.get("fingerprint") != self.fingerprint:
            raise ValueError(
                f"checkpoint: {str(self.path)!r} belongs to other data, settings or random_state; remove it to start anew, "
                "or choose another path."
            )
        strengths = decode_strengths(content["strengths"])
        return decode_tuning(content["tuning"], strengths)

    def _read(self) -> dict[str, Any]:
        try:
            content = json.loads(self.path.read_text())
        except (OSError, ValueError, RecursionError):
            content = None
        good = isinstance(content, dict) and content.get("kind") == _KIND
        if not good or not (is_strengths(content.get("strengths")) and isinstance(content.get("tuning"), list)):
            raise ValueError(f"checkpoint: {str(self.path)!r} is not a file of chosen strengths; choose another path.")
        if not is_tuning(content["tuning"]):
            raise ValueError(f"checkpoint: {str(self.path)!r} is damaged; remove it to start anew.")
        found: dict[str, Any] = content
        return found

    def save(self, tuning: Tuning) -> None:
        """Write what was chosen, atomically."""
        content = {
            "kind": _KIND,
            "fingerprint": self.fingerprint,
            "strengths": encode_strengths(*tuning.chosen),
            "tuning": encode_tuning(tuning),
        }
        write_atomically(self.path, json.dumps(content).encode())

    def remove(self) -> None:
        """Remove the file, at the end of a fit."""
        self.path.unlink(missing_ok=True)
