"""Where the checkpoints of several processes go, so that after a loss all of them go on from the same step."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

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
