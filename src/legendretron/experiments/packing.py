"""Fewer files of results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from legendretron.experiments.experiment import Batch, Outcome, Run
from legendretron.experiments.store import Store

__all__ = ["pack"]


def pack(folder: Path) -> int:
    """Put runs of a data set and model that share settings and environment into one file; the number of files left.

    A sweep writes a file for each run, because each is done on its own; for version control, these are many.
    """
    groups: dict[str, list[tuple[Path, dict[str, Any]]]] = {}
    for path in sorted((folder / "runs").glob("*.json")):
        content = json.loads(path.read_bytes())
        shared = {name: value for name, value in content.items() if name not in ("runs", "seconds")}
        groups.setdefault(json.dumps(shared, sort_keys=True), []).append((path, content))
    for files in groups.values():
        if len(files) > 1:
            packed = _packed(folder, [content for _, content in files])
            for path, _ in files:
                if path != packed:  # one of them may hold all runs already
                    path.unlink()
    return len(groups)


def _packed(folder: Path, contents: list[dict[str, Any]]) -> Path:
    first = contents[0]
    measured = {run["key"]: run for content in contents for run in content["runs"]}
    in_order = sorted(measured.values(), key=lambda run: (run["noise"], run["size"] or 0, run["seed"]))
    runs = tuple(Run(first["dataset"], first["model"], run["noise"], run["size"], run["seed"]) for run in in_order)
    data = dict(first["data"])
    source = data.pop("source")
    batch = Batch(
        first["experiment"],
        first["dataset"],
        first["model"],
        first["settings"],
        source,
        runs,
        first.get("trial", False),
    )
    if batch.run_keys() != [run["key"] for run in in_order]:
        raise ValueError(f"keys of {first['dataset']}, {first['model']} do not follow from the settings in the files.")
    identity = ("key", "seed", "noise", "size")
    values = [{name: value for name, value in run.items() if name not in identity} for run in in_order]
    environment = {name: first[name] for name in ("commit", "device", "threads", "versions")}
    seconds = sum(content["seconds"] for content in contents)
    return Store(folder).add(batch, Outcome(data, values), seconds, environment, first["command"])
