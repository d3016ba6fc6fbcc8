"""Where the checkpoints of several processes go, so that after a loss all of them go on from the same step."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Protocol

from legendretron.distributed.layout import Layout
from legendretron.training.checkpoint import checkpoint_progress

__all__ = ["CheckpointStore", "SharedFile"]


class CheckpointStore(Protocol):
    """Keeps the newest checkpoint that all processes have written."""

    #: Where this process writes its checkpoint, and reads it from.
    path: Path

    def fetch(self) -> None:
        """Put the newest complete checkpoint at :attr:`path`, or nothing if there is none. All processes call this."""
        ...

    def written(self) -> None:
        """Note that this process has written, or has nothing to write. All processes call this."""
        ...

    def remove(self) -> None:
        """Remove all checkpoints; the first process calls this when the model is safe."""
        ...


class SharedFile:
    """A file in a folder that all processes see; one for each part of the classes.

    With several parts, each is written under a name that ends in ``.new`` and renamed when all of them are there. So at any
    moment there is a step of which every part exists, under one name or the other.

    Parameters
    ----------
    path : path
        The file; with several parts its name is continued by their numbers.
    layout : Layout
        Which processes there are.
    """

    def __init__(self, path: str | os.PathLike[str], layout: Layout) -> None:
        self._layout, self._whole = layout, Path(path)
        parts = layout.n_class_parts
        self._kept = self._whole if parts == 1 else self._part(layout.class_rank)
        self.path = self._kept if parts == 1 else self._kept.with_name(f"{self._kept.name}.new")

    def _part(self, number: int) -> Path:
        return self._whole.with_name(f"{self._whole.name}.{number + 1}-of-{self._layout.n_class_parts}")

    def fetch(self) -> None:
        """See :class:`CheckpointStore`."""
        if self._layout.n_class_parts == 1:
            found = self._layout.everyone(self.path.exists())
            if any(found) and not all(found):
                raise ValueError(
                    f"checkpoint {str(self.path)!r} is seen by some processes only; it must be in a folder that all machines "
                    "share."
                )
            return
        own = {
            progress: path for path in (self._kept, self.path) if (progress := checkpoint_progress(path)) is not None
        }
        common = set.intersection(*map(set, self._layout.everyone(list(own))))
        if self._layout.data_rank == 0:
            if not common:
                self.path.unlink(missing_ok=True)
            elif own[max(common)] != self.path:
                shutil.copyfile(own[max(common)], self.path)
        self._layout.everyone(None)

    def written(self) -> None:
        """See :class:`CheckpointStore`."""
        if self._layout.n_class_parts > 1:
            self._layout.everyone(None)
            if self._layout.data_rank == 0:
                os.replace(self.path, self._kept)

    def remove(self) -> None:
        """See :class:`CheckpointStore`."""
        for part in [self._whole, *map(self._part, range(self._layout.n_class_parts))]:
            for suffix in ("", ".new"):
                part.with_name(part.name + suffix).unlink(missing_ok=True)
