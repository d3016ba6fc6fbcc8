"""Results on disk: one file per experiment, to which each batch adds a line."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from legendretron.experiments.experiment import Batch, Outcome, Record, Run

DIGITS = 10
DECIMALS = 12


def round_floats(value: Any) -> Any:
    """Round every float in a value, which may be a list or dict, to :data:`DIGITS` significant digits.

    Zero has no sign; integers, text and None stay as they are.
    """
    if isinstance(value, dict):
        return {name: round_floats(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [round_floats(entry) for entry in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") + 0.0  # -0.0 + 0.0 is 0.0
    return value


def round_difference(value: float) -> float:
    """Round a difference to :data:`DECIMALS` decimal places; zero has no sign."""
    return round(float(value), DECIMALS) + 0.0


_NAME = "runs.jsonl"
#: What is written after a line that was not written to its end, so that it counts for nothing: a control character, "cancel".
_VOID = b"\x18\n"


class Store:
    """Folder of an experiment's results, in its file ``runs.jsonl``.

    Runs that were trained together finish together: their results are one line, a JSON object with what they share and a
    list of runs. A sweep that is killed loses only the batches in training; a line that was not written to its end counts
    for nothing. Two sweeps may write to one folder, since lines are only ever added. On a network file system without locks,
    they must run on one machine.

    Parameters
    ----------
    folder : path
        Created if missing.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(folder)
    ...     read_records(folder)
    []
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / _NAME
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, batch: Batch, outcome: Outcome, seconds: float, environment: dict[str, object], command: str) -> None:
        """Write the results of a batch.

        Parameters
        ----------
        batch, outcome
            The batch, and its result.
        seconds : float
            Time it took.
        environment : dict
            :func:`~legendretron._internal.provenance.provenance` of the process that executed it.
        command : str
            Command that repeats it.
        """
        content = {
            "experiment": batch.experiment,
            "dataset": batch.dataset,
            "model": batch.model,
            "command": command,
            "trial": batch.trial,
            "settings": dict(batch.settings),
            "data": {"source": batch.source, **round_floats(outcome.data)},
            "seconds": round(seconds, 3),
            **environment,
            "runs": [
                {**run.varying, **round_floats(measured)}
                for run, measured in zip(batch.runs, outcome.runs, strict=True)
            ],
        }
        line = json.dumps(content, allow_nan=False).encode() + b"\n"
        with self.path.open("ab+", buffering=0) as file:
            _lock(file)
            if not _ends_a_line(file):
                line = _VOID + line
            while line:  # in one piece, unless the disk is full
                line = line[file.write(line) :]
            os.fsync(file.fileno())


def _lock(file: BinaryIO) -> None:
    """Wait until no other process writes to a file; closing it lets the next one in."""
    if sys.platform != "win32":
        import fcntl

        # without locks, as on some file systems, lines of two processes still come one after the other
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)


def _ends_a_line(file: BinaryIO) -> bool:
    if not file.seek(0, os.SEEK_END):
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def read_records(folder: str | Path) -> list[Record]:
    """All runs in a folder of results, each with what it shares with its batch and with its key.

    A run that occurs twice, in batches of different composition, counts once.

    Parameters
    ----------
    folder : path
        With the file that :class:`Store` writes; without one, there are no runs.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read_records(folder)  # nothing has been run yet
    []
    """
    path = Path(folder) / _NAME
    if not path.exists():
        return []
    records: dict[str, Record] = {}
    *lines, _ = path.read_bytes().split(b"\n")  # what follows the last end of a line was not written to its end
    for number, line in enumerate(lines, 1):
        if line.endswith(_VOID[:1]):
            continue
        try:
            content = json.loads(line)
            shared = {name: value for name, value in content.items() if name != "runs"}
            dataset, model = content["dataset"], content["model"]
            runs = tuple(Run(dataset, model, run["noise"], run["size"], run["seed"]) for run in content["runs"])
            source, settings = content["data"]["source"], content["settings"]
            keys = Batch(content["experiment"], dataset, model, settings, source, runs).run_keys()
            for key, run in zip(keys, content["runs"], strict=True):
                records.setdefault(key, {**shared, "key": key, "batch_runs": len(runs), **run})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(
                f"line {number} of {str(path)!r} is not a line of results ({type(error).__name__}: {error}). Remove it; its "
                "runs are then done again."
            ) from error
    return list(records.values())
