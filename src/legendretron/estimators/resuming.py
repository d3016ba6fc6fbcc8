"""Fits that are resumed: what identifies them, and the strengths that they had chosen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch
from sklearn.base import BaseEstimator

from legendretron._internal.fields import OBJECT, array, check_fields, optional
from legendretron.links.persistence import link_from_state, link_to_state
from legendretron.training.checkpoint import load_checkpoint, save_checkpoint
from legendretron.tuning.link_search import FittedLink
from legendretron.tuning.table import Tuning

_KIND = "choice of strengths"
#: Parameters that do not change the result; of random_state, the seeds drawn from it count.
_NOT_IDENTIFYING = ("verbose", "checkpoint", "random_state", "cv")


class ChosenStrengths:
    """Strengths in the file ``<checkpoint>.strengths``, so that a resumed fit does not choose again.

    The fingerprint identifies the fit.
    """

    def __init__(self, checkpoint: Path, fingerprint: str) -> None:
        self.path = checkpoint.with_name(f"{checkpoint.name}.strengths")
        self.fingerprint = fingerprint

    def load_or(self, choose: Callable[[], Tuning]) -> Tuning:
        """Return what was chosen before, or choose and save it; raise a ``ValueError`` for a file of something else."""
        if self.path.exists():
            return load_checkpoint(self.path, _KIND, self.fingerprint, _from_state)
        tuning = choose()
        self.save(tuning)
        tuning.logistic = None  # as in a fit that is resumed from here
        return tuning

    def save(self, tuning: Tuning) -> None:
        """Write what was chosen, atomically."""
        first, start = tuning.start, None
        if first is not None:
            start = {"weight": first.weight.cpu(), "bias": first.bias.cpu(), "link": link_to_state(first.link)}
        save_checkpoint(self.path, _KIND, self.fingerprint, {"tuning": tuning.to_state(), "start": start})

    def remove(self) -> None:
        """Remove the file, at the end of a fit."""
        self.path.unlink(missing_ok=True)


def _from_state(state: dict[str, Any]) -> Tuning:
    check_fields("choice of strengths", state, {"tuning": OBJECT, "start": optional(OBJECT)})
    tuning, start = Tuning.from_state(state["tuning"]), state["start"]
    if start is not None:
        single = "float32"  # as candidates are trained
        wanted = {"weight": array(None, None, dtype=single), "bias": array(None, dtype=single), "link": OBJECT}
        check_fields("start", start, wanted)
        link = link_from_state(start["link"])
        tuning.start = FittedLink(torch.as_tensor(start["weight"]), torch.as_tensor(start["bias"]), link)
    return tuning


def fingerprint(estimator: BaseEstimator, identity: tuple[Any, ...]) -> str:
    """Digest of what a checkpoint must share with a fit to be resumed: parameters and ``identity`` (data, start, seeds)."""
    parameters = {k: repr(v) for k, v in estimator.get_params(deep=False).items() if k not in _NOT_IDENTIFYING}
    digest = hashlib.sha256(json.dumps(parameters, sort_keys=True).encode())
    for part in identity:
        arrays = (part.data, part.indices, part.indptr) if scipy.sparse.issparse(part) else (part,)
        for values in arrays:
            plain = values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
            plain = plain if plain.dtype.kind in "biuf" else plain.astype(str)
            digest.update(f"{plain.dtype}{plain.shape}".encode())
            digest.update(np.ascontiguousarray(plain).tobytes())
    return digest.hexdigest()
