"""Results on disk: one file per batch, written atomically."""

from __future__ import annotations

import json
from pathlib import Path

from legendretron._internal.files import write_atomically
from legendretron.experiments.experiment import Batch, Outcome, Record, checked_outcome
from legendretron.experiments.rounding import rounded

__all__ = ["Store", "read_records"]


class Store:
    """Folder of an experiment's results.

    Runs that were trained together finish together: their results are one file, written under a temporary name and
    renamed. A sweep that is killed therefore loses only the batches in training, and finds the rest when it resumes.

    Parameters
    ----------
    folder : path
        Created if missing.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(Path(folder) / "runs")
    ...     read_records(Path(folder) / "runs")
    []
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder) / "runs"
        self.folder.mkdir(parents=True, exist_ok=True)

    def add(self, batch: Batch, outcome: Outcome, seconds: float, environment: dict[str, object], command: str) -> Path:
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
        outcome = checked_outcome(outcome, len(batch.runs))
        runs = [
            {"key": key, **run.varying, **rounded(measured)}
            for key, run, measured in zip(batch.run_keys(), batch.runs, outcome.runs, strict=True)
        ]
        content = {
            "experiment": batch.experiment,
            "dataset": batch.dataset,
            "model": batch.model,
            "command": command,
            "trial": batch.trial,
            "settings": dict(batch.settings),
            "data": {"source": batch.source, **rounded(outcome.data)},
            "seconds": round(seconds, 3),
            **environment,
        }
        # one line per run: files under version control stay short and can be compared
        head = json.dumps(content, indent=1, allow_nan=False)[:-2]
        lines = ",\n".join("  " + json.dumps(run, allow_nan=False) for run in runs)
        path = self.folder / f"{batch.name}.json"
        write_atomically(path, f'{head},\n "runs": [\n{lines}\n ]\n}}\n'.encode())
        return path


def read_records(folder: str | Path) -> list[Record]:
    """All runs in a folder of results, each with what it shares with its batch.

    A run that occurs twice, in batches of different composition, counts once.

    Parameters
    ----------
    folder : path
        With the ``*.json`` files that :class:`Store` writes.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read_records(folder)  # nothing has been run yet
    []
    """
    records: dict[str, Record] = {}
    for path in sorted(Path(folder).glob("*.json")):
        try:
            content = json.loads(path.read_bytes())
            shared = {name: value for name, value in content.items() if name != "runs"}
            shared.setdefault("trial", False)  # missing in the first records
            for run in content["runs"]:
                records.setdefault(run["key"], {**shared, "batch_runs": len(content["runs"]), **run})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(
                f"{str(path)!r} is not a file of results ({type(error).__name__}: {error}). Move it away; its runs are "
                "then done again."
            ) from error
    return list(records.values())
