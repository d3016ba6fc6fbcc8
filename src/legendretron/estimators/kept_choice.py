"""Strengths that have been chosen, kept beside a checkpoint so that a resumed fit does not choose again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from legendretron._internal.files import write_atomically
from legendretron.estimators.saved_noise import encode_plan, is_plan
from legendretron.estimators.saved_tuning import (
    decode_strengths,
    decode_tuning,
    encode_strengths,
    encode_tuning,
    is_strengths,
    is_tuning,
)
from legendretron.links import TransitionNoise
from legendretron.tuning import FoundNoise, Tuning

__all__ = ["KeptChoice"]

_KIND = "legendretron-strengths-2"


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
        tuning = decode_tuning(content["tuning"], decode_strengths(content["strengths"]))
        if tuning is not None and content["noise"] is not None:
            tuning.noise = FoundNoise(*(float(value) for value in content["noise"]))
            if content["matrix"] is not None:
                tuning.noise_matrix = np.array(content["matrix"], dtype=np.float64)
        return tuning

    def _read(self) -> dict[str, Any]:
        try:
            content = json.loads(self.path.read_text())
        except (OSError, ValueError, RecursionError):
            content = None
        good = isinstance(content, dict) and content.get("kind") == _KIND
        if not good or not (is_strengths(content.get("strengths")) and isinstance(content.get("tuning"), list)):
            raise ValueError(f"checkpoint: {str(self.path)!r} is not a file of chosen strengths; choose another path.")
        if not is_tuning(content["tuning"]) or not _is_noise(content):
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
            "noise": encode_plan(tuning.noise),
            "matrix": None if tuning.noise_matrix is None else tuning.noise_matrix.tolist(),
        }
        write_atomically(self.path, json.dumps(content).encode())

    def remove(self) -> None:
        """Remove the file, at the end of a fit."""
        self.path.unlink(missing_ok=True)


def _is_noise(content: dict[str, Any]) -> bool:
    if "noise" not in content or "matrix" not in content:
        return False
    plan, matrix = content["noise"], content["matrix"]
    if matrix is not None:
        try:
            TransitionNoise(matrix)
        except (TypeError, ValueError):
            return False
    return is_plan(plan) if plan is not None else matrix is None
