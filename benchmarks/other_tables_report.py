"""The report of the comparison on other tables. See ``other_tables.py``."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from defaults_numbers import BASELINE, LEVEL, OURS
from label_noise_numbers import (
    MEASURES,
    WITHOUT,
    Results,
    cells_of,
    compared,
    comparison,
    noise_name,
    rate_in,
    results_of,
    tally,
)
from legendretron.experiments import Record
from legendretron.experiments.rendering import described, markdown_table, write_csv, write_text

#: Where a rate should be found: rows to train on, and accuracy without noise in percent.
ENOUGH_ROWS, CLEAR = 2000, 75.0


def _introduction(tables: Sequence[str], splits: int) -> str:
    return (
        f"`{OURS}` against `{BASELINE}` on {len(tables)} tables of KEEL, {splits} splits each. The links and their "
        "strengths were not chosen on them. The rules by which wrong labels are believed were: a first version "
        "failed on some of these tables. Labels of training rows are made wrong at random, to a class that is not the "
        "right one; those of test rows are right. Paired t-tests "
        f"at {100 * (1 - LEVEL):g} %: **better**, *worse*."
    )


def _counts(results: Results, tables: Sequence[str], noises: Sequence[float]) -> str:
    lines = []
    for noise in noises:
        cells = cells_of(results, [noise], tables)
        lines.append(
            [
                noise_name(noise),
                *(tally(results, cells, OURS, BASELINE, name).text for name in MEASURES),
                tally(results, cells, OURS, WITHOUT, "log_loss").text,
            ]
        )
    head = [*(measure.title for measure in MEASURES.values()), "log-loss, against label_noise=None"]
    return markdown_table(["wrong labels", *head], lines)


def _table(results: Results, tables: Sequence[str], noise: float) -> str:
    lines = []
    for table, _ in cells_of(results, [noise], tables):
        data = next(own for (name, *_), own in results.items() if name == table)
        facts = next(iter(data.values()))["data"]
        line = [table, f"{facts['rows']:,} x {facts['features']}, {facts['classes']} classes"]
        for name, digits in (("accuracy", 1), ("log_loss", 3)):
            found = compared(results, table, noise, OURS, BASELINE, name)
            if found is None:
                line += ["-", "-"]
                continue
            mark = {"better": "**", "worse": "*"}.get(found.verdict, "")
            line += [f"{found.other:.{digits}f}", f"{mark}{found.mean:.{digits}f}{mark}"]
        rate = rate_in(results, table, noise, OURS)
        line += (
            [f"{100 * rate.estimate:.1f}", f"{100 * rate.largest_error:.1f}", f"{rate.covered} of {rate.n}"]
            if rate
            else ["-"] * 3
        )
        lines.append(line)
    head = ["table", "rows, columns", "accuracy, logistic", "ours", "log-loss, logistic", "ours"]
    return markdown_table([*head, "wrong, found", "largest error", "covered"], lines)


def _rates(results: Results, tables: Sequence[str], noises: Sequence[float]) -> str:
    """Where there are rows enough and classes are told apart: errors of the estimated share, and how often it was covered."""
    lines = []
    for noise in noises:
        own = []
        for table in tables:
            clean = list(results.get((table, 0.0, BASELINE), {}).values())
            if (
                clean
                and clean[0]["data"]["rows"] * 0.8 >= ENOUGH_ROWS
                and max(
                    statistics.fmean(record["accuracy"] for record in runs.values())
                    for model in (BASELINE, OURS)
                    if (runs := results.get((table, 0.0, model)))
                )
                > CLEAR
                and (rate := rate_in(results, table, noise, OURS))
            ):
                own.append((table, rate))
        if own:
            close = [table for table, rate in own if rate.largest_error <= 0.05]
            n, covered = sum(rate.n for _, rate in own), sum(rate.covered for _, rate in own)
            others = ", ".join(f"{table} {100 * rate.largest_error:.1f}" for table, rate in own if table not in close)
            lines.append(
                f"- {noise_name(noise)}: within 5 percentage points in all splits on {len(close)} of {len(own)} tables"
                f"{f' (largest errors on the others: {others})' if others else ''}; {covered} of {n} intervals hold it."
            )
    return "\n".join(lines)


def write_report(
    records: list[Record], folder: Path, tables: Sequence[str], noises: Sequence[float], splits: int
) -> list[Path]:
    """Write ``other_tables.md`` and ``.csv``."""
    records = sorted(
        records, key=lambda record: (tables.index(record["dataset"]), record["noise"], record["model"], record["seed"])
    )
    results = results_of(records)
    done = [table for table in tables if any(key[0] == table for key in results)]
    seeds = max(len(own) for own in results.values())
    complete = len(done) == len(tables) and seeds == splits
    sections = [
        "# Other tables",
        _introduction(done, seeds),
        "" if complete else f"**Incomplete: {splits} splits of {len(tables)} tables are planned.**",
        "## Better and worse",
        "In how many tables ours is significantly better / worse:",
        _counts(results, done, noises),
        "## Share of wrong labels",
        f"On tables with at least {ENOUGH_ROWS:,} rows to train on and an accuracy above {CLEAR:g} % without noise:",
        _rates(results, done, noises),
    ]
    for noise in noises:
        if cells_of(results, [noise], done):
            sections += [f"## {noise_name(noise)} wrong labels", _table(results, done, noise)]
    sections += ["## How it was run", described(records)]
    text = "\n\n".join(section for section in sections if section)
    return [write_text(folder / "other_tables.md", text), write_csv(folder / "other_tables.csv", comparison(results))]
