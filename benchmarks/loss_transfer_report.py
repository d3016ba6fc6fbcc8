"""The report of the experiment on loss transfer. See ``loss_transfer.py``."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from defaults_numbers import BASELINE, LEVEL, MEASURES, OURS, Cells, compared
from legendretron.experiments import Record
from legendretron.experiments.grouping import by_seed
from legendretron.experiments.rendering import as_text, described, markdown_table, write_csv, write_text
from legendretron.experiments.statistics import mean_of

CANONICAL = "loss of a canonical link"
DISTILLED = "loss of a distilled composite link"
TRANSFERRED = (CANONICAL, DISTILLED)
SHOWN = ("accuracy", "log_loss")


def _introduction(cells: Cells, repetitions: int) -> str:
    sizes = sorted({next(iter(runs.values()))["data"]["rows"] for runs in cells.values()})
    rows = " or ".join(f"{size:,}" for size in sizes)
    return (
        f"A loss is learned on {rows} rows of a source and kept. With it, `LegendreTronClassifier(link=...)` is trained "
        "on as many rows of a target: a convex problem, solved to the minimum. Beside it, "
        f"`{BASELINE}` and `{OURS}` are fitted to the same target rows; all choose their penalty by cross-validation. "
        f"{repetitions} repetitions with other rows; paired t-tests at {100 * (1 - LEVEL):g} %."
    )


def _verdicts(cells: Cells, task: str, model: str, other: str) -> str:
    """Such as ``better / =``: accuracy, then log-loss."""
    if model == other:
        return ""
    found = [compared(cells, task, model, other, name) for name in SHOWN]
    return " / ".join(one.verdict for one in found if one is not None)


def _table(cells: Cells, tasks: Mapping[str, str]) -> str:
    lines = []
    for task in tasks:
        for model in (BASELINE, OURS, *TRANSFERRED):
            own = list(cells.get((task, model), {}).values())
            if not own:
                continue
            means = [as_text(mean_of([r[name] for r in own]), MEASURES[name].digits) for name in SHOWN]
            seconds = statistics.median(r["fit_seconds"] for r in own)
            against = [_verdicts(cells, task, model, other) for other in (BASELINE, OURS)]
            lines.append([task, model, *means, *against, f"{seconds:.1f}"])
    head = ["task", "model", *(MEASURES[name].title for name in SHOWN)]
    return markdown_table([*head, f"against {BASELINE}", f"against {OURS}", "seconds to fit"], lines)


def _certificates(cells: Cells) -> str:
    own = [r for (_, model), runs in cells.items() if model in TRANSFERRED for r in runs.values()]
    certified = sum(bool(r["certified"]) for r in own)
    largest = max(r["gradient_norm"] for r in own)
    return f"{certified} of {len(own)} fits are certified by the gradient; its largest entry is at most {largest:.1e}."


def _gaps(cells: Cells, tasks: Mapping[str, str]) -> str:
    lines = []
    for task in tasks:
        own = list(cells.get((task, DISTILLED), {}).values())
        if own:
            kl, most, agreement = (
                statistics.median(r[f"gap_{name}"] for r in own) for name in ("mean_kl", "max_difference", "agreement")
            )
            lines.append([task, f"{kl:.4f}", f"{most:.2f}", f"{100 * agreement:.1f} %"])
    return markdown_table(["task", "mean KL divergence", "largest difference", "same class predicted"], lines)


def _conclusion(cells: Cells, tasks: Mapping[str, str]) -> str:
    lines = []
    for model in TRANSFERRED:
        for other in (BASELINE, OURS):
            for name in SHOWN:
                found = {t: c.verdict for t in tasks if (c := compared(cells, t, model, other, name)) is not None}
                counts = [sum(word == asked for word in found.values()) for asked in ("better", "worse")]
                lines.append([model, other, MEASURES[name].title, *map(str, counts), str(len(found))])
    return markdown_table(["model", "against", "measure", "better", "worse", "tasks"], lines)


def write_report(records: list[Record], folder: Path, tasks: Mapping[str, str], repetitions: int) -> list[Path]:
    """Write ``loss_transfer.md`` and ``.csv``."""
    cells = by_seed(records, "dataset", "model")
    done = {task: note for task, note in tasks.items() if any(key[0] == task for key in cells)}
    seeds = max(len(own) for own in cells.values())
    complete = len(done) == len(tasks) and all(len(own) == repetitions for own in cells.values())
    sections = [
        "# Loss transfer",
        _introduction(cells, seeds),
        "\n".join(f"- {task}: {note}." for task, note in done.items()),
        "" if complete else f"**Incomplete: {repetitions} repetitions of {len(tasks)} tasks are planned.**",
        "## Scores on the target",
        "Means with standard errors; tests of accuracy / log-loss. The seconds are those of the fit to the target alone.",
        _table(cells, done),
        "## In how many tasks a transferred loss is better or worse",
        _conclusion(cells, done),
        "## Certificates",
        _certificates(cells) if any(key[1] in TRANSFERRED for key in cells) else "",
        "## What distilling leaves",
        "Between the composite link that was learned on the source and the canonical link nearest to it; medians:",
        _gaps(cells, done),
        "## How it was run",
        described(records),
    ]
    text = "\n\n".join(section for section in sections if section)
    rows: list[dict[str, Any]] = []
    for (task, model), own in cells.items():
        row: dict[str, Any] = {"task": task, "model": model, "repetitions": len(own)}
        for name in MEASURES:
            mean = mean_of([record[name] for record in own.values()])
            row |= {name: mean.value, f"{name}: standard error": mean.error}
            for other, short in ((BASELINE, "logistic"), (OURS, "default")):
                found = None if model == other else compared(cells, task, model, other, name)
                row |= {f"{name}: p, {short}": found.p if found else ""}
                row |= {f"{name}: verdict, {short}": found.verdict if found else ""}
        for name in ("learn_seconds", "fit_seconds"):
            row[name] = statistics.median(record[name] for record in own.values())
        rows.append(row)
    return [write_text(folder / "loss_transfer.md", text), write_csv(folder / "loss_transfer.csv", rows)]
