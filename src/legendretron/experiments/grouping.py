"""Grouping of records, one record per seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from legendretron.experiments.experiment import Record

__all__ = ["by_seed", "paired_values"]


def by_seed(records: Sequence[Record], *names: str) -> dict[tuple[Any, ...], dict[int, Record]]:
    """Group records by some of their fields; within a group there is one record per seed.

    Parameters
    ----------
    records : sequence of Record
        Of one experiment.
    *names : str
        Fields that identify a cell of a table, such as ``"dataset"`` and ``"model"``.

    Raises
    ------
    ValueError
        If results of a data set have different numbers of rows, or a seed occurs twice, for instance after a trial with
        fewer epochs in the same folder.

    Examples
    --------
    >>> records = [{"dataset": "iris", "seed": seed, "data": {"rows": 150}} for seed in (0, 1)]
    >>> by_seed(records, "dataset")[("iris",)][1]["seed"]
    1
    """
    groups: dict[tuple[Any, ...], dict[int, Record]] = {}
    rows: dict[str, int] = {}
    for record in records:
        data, dataset = record["data"], record["dataset"]
        found = data["rows"] if "rows" in data else data["train_rows"]  # of images, which come in two parts
        if rows.setdefault(dataset, found) != found:
            raise ValueError(
                f"results on {dataset} are of {rows[dataset]:,} rows and of {found:,}; use a folder for each."
            )
        cell = tuple(record[name] for name in names)
        seeds = groups.setdefault(cell, {})
        if record["seed"] in seeds:
            what = ", ".join(str(value) for value in cell)
            raise ValueError(
                f"results hold {what} twice for seed {record['seed']}, with different settings; use a folder for each."
            )
        seeds[record["seed"]] = record
    return groups


def paired_values(a: dict[int, Record], b: dict[int, Record], name: str) -> tuple[list[float], list[float]]:
    """Measurements of two groups for the seeds that both have, in the same order.

    Examples
    --------
    >>> paired_values({0: {"x": 1.0}, 1: {"x": 2.0}}, {1: {"x": 5.0}, 2: {"x": 6.0}}, "x")
    ([2.0], [5.0])
    """
    shared = sorted(set(a) & set(b))
    return [a[seed][name] for seed in shared], [b[seed][name] for seed in shared]
