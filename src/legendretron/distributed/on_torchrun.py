"""Training of one model by processes that ``torchrun`` has started."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from legendretron._internal.validation import check_device
from legendretron.distributed.fitting import AnyClassifier, fit_shards, join_group, started_by_torchrun
from legendretron.training.checkpoint import CheckpointStore, read_progress
from legendretron.training.layout import Layout


class SharedFile(CheckpointStore):
    """A file in a folder that all processes see; one for each part of the classes.

    With several parts, each is written under a name that ends in ``.new`` and renamed when all of them are there. So at any
    moment there is a step of which every part exists, under one name or the other.
    """

    def __init__(self, path: str | os.PathLike[str], layout: Layout) -> None:
        self._layout, self._whole = layout, Path(path)
        parts = layout.n_class_parts
        self._complete = self._whole if parts == 1 else self._part(layout.class_rank)
        super().__init__(self._complete if parts == 1 else self._complete.with_name(f"{self._complete.name}.new"))

    def _part(self, number: int) -> Path:
        return self._whole.with_name(f"{self._whole.name}.{number + 1}-of-{self._layout.n_class_parts}")

    def fetch(self) -> None:
        """See :class:`CheckpointStore`."""
        if self._layout.n_class_parts == 1:
            exists = self._layout.gather(self.path.exists())
            if any(exists) and not all(exists):
                raise ValueError(
                    f"checkpoint {str(self.path)!r} is seen by some processes only; it must be in a folder that all machines "
                    "share."
                )
            return
        steps = {step: path for path in (self._complete, self.path) if (step := read_progress(path)) is not None}
        common = set.intersection(*map(set, self._layout.gather(list(steps))))
        if self._layout.data_rank == 0:
            if not common:
                self.path.unlink(missing_ok=True)
            elif steps[max(common)] != self.path:
                shutil.copyfile(steps[max(common)], self.path)
        self._layout.gather(None)

    def commit(self) -> None:
        """See :class:`CheckpointStore`."""
        if self._layout.n_class_parts > 1:
            self._layout.gather(None)
            if self._layout.data_rank == 0:
                os.replace(self.path, self._complete)

    def end(self) -> None:
        """Keep it until the model has been written: a process may be lost before."""

    def remove(self) -> None:
        """Remove all checkpoints; the first process calls this when the model is safe."""
        for part in [self._whole, *map(self._part, range(self._layout.n_class_parts))]:
            for suffix in ("", ".new"):
                part.with_name(part.name + suffix).unlink(missing_ok=True)


def fit_torchrun(
    estimator: AnyClassifier,
    data: Any,
    *,
    target: str | None = None,
    weight: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    n_shards: int | None = None,
    class_parallel: int = 1,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_steps: int | None = None,
    skip_bad_rows: int = 0,
    out: str | os.PathLike[str] | None = None,
) -> AnyClassifier:
    """Fit an estimator by all processes that ``torchrun`` has started, each on its shards of the rows.

    Every process calls this with the same arguments. Gradients are added up, through Gloo on the CPU and NCCL with
    ``device="cuda"``, so that the result is that of one process on the joint batches. Processes that
    ``torchrun --max-restarts`` starts again go on from the checkpoint, with the same result as if nothing had happened.

    Parameters
    ----------
    estimator : LegendreTronClassifier or MultinomialLogisticClassifier
        What to fit; ``batch_size`` is that of a joint batch.
    data : str, path, list of them, or anything for as_source
        Files, folders or patterns that every process can read, or the same source on all of them.
    target, weight, features, drop, n_shards, class_parallel, checkpoint_steps, skip_bad_rows
        As in :func:`~legendretron.distributed.fit_ray`, with processes for workers.
    checkpoint : path, optional
        File for the state of training, in a folder that all machines share. Removed at the end.
    out : path, optional
        File that the first process writes the model to, before the checkpoint is removed.

    Returns
    -------
    estimator
        The same one, fitted, on every process.

    Examples
    --------
    In a program that is started by ``torchrun --nproc-per-node 2 --max-restarts 3 program.py``::

        clf = LegendreTronClassifier(random_state=0)
        fit_torchrun(clf, "table/", target="label", checkpoint="state", checkpoint_steps=100, out="model.safetensors")
    """
    if not (started_by_torchrun() or (distributed.is_available() and distributed.is_initialized())):
        raise ValueError(
            "fit_torchrun is for processes that torchrun has started: torchrun --nproc-per-node 2 program.py."
        )
    device = check_device(estimator.device)
    if distributed.is_initialized():
        device = torch.device("cuda", torch.cuda.current_device()) if device.type == "cuda" else device
        group: Any = nullcontext(Layout.join(device, class_parallel))
    else:
        group = join_group(device.type, class_parallel)
    with group as layout:
        store = None if checkpoint is None else SharedFile(checkpoint, layout)
        columns: dict[str, Any] = {"target": target, "weight": weight, "features": features, "drop": drop}
        fit_shards(
            estimator, data, layout, columns=columns, skip_bad_rows=skip_bad_rows, n_shards=n_shards, store=store,
            checkpoint_steps=checkpoint_steps,
        )  # fmt: skip
        if out is not None and layout.first:
            estimator.save(out)
        layout.gather(None)  # wait until no process needs the checkpoint
        if store is not None and layout.first:
            store.remove()
    return estimator
