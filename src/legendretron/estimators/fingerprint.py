"""What identifies a fit, so that a checkpoint is resumed by the same one only."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import scipy.sparse
import torch
from sklearn.base import BaseEstimator

__all__ = ["fingerprint"]

#: Parameters that do not change the result; of random_state, the seeds drawn from it count.
_NOT_IDENTIFYING = ("verbose", "checkpoint", "random_state", "cv")


def fingerprint(estimator: BaseEstimator, identity: tuple[Any, ...]) -> str:
    """Digest of what a checkpoint must share with a fit to be resumed: parameters and ``identity`` (data, start, seeds)."""
    parameters = {k: repr(v) for k, v in estimator.get_params(deep=False).items() if k not in _NOT_IDENTIFYING}
    digest = hashlib.sha256(json.dumps(parameters, sort_keys=True).encode())
    for part in identity:
        arrays = (part.data, part.indices, part.indptr) if scipy.sparse.issparse(part) else (part,)
        for array in arrays:
            plain = array.detach().cpu().numpy() if isinstance(array, torch.Tensor) else np.asarray(array)
            plain = plain if plain.dtype.kind in "biuf" else plain.astype(str)
            digest.update(f"{plain.dtype}{plain.shape}".encode())
            digest.update(np.ascontiguousarray(plain).tobytes())
    return digest.hexdigest()
