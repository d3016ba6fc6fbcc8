"""Memory and speed of training on a table that is read in batches, beside SGDClassifier and training in memory.

    OMP_NUM_THREADS=1 python benchmarks/streaming.py streaming --folder /tmp/table --out docs/results/streaming.json

The table is made up: 50 features in float32 and 26 classes, in Parquet files, 20 million rows if not told otherwise; these
are kept, and used again. The same rows as CSV files (case streaming_csv) show what it costs to read text, once. Each
contestant trains in a process of its own with one thread, after a fit to a few rows, so that imports and compilation are not
counted. Peak memory (VmHWM) is that of the whole process, libraries included. Speeds are rows a second through one pass:
reading and decoding included, except for training in memory, where rows lie there. The first pass over a stream, for means
and deviations, has a time of its own; SGDClassifier is given them. Seconds are those of the whole fit, in which text is read
into temporary files first.
"""

from __future__ import annotations

import functools
import json
import shutil
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

from harness import call_apart, peak_mb, run_cases, show
from legendretron import LegendreTronClassifier
from legendretron.streaming import as_source, scan
from legendretron.streaming.source import read_ahead

FEATURES, CLASSES, FILES, TEST_ROWS = 50, 26, 20, 50_000
NAMES = [f"x{place:02}" for place in range(FEATURES)]
#: One pass with strengths that are given; everything as it is by default, with a search for strengths on a sample.
ONE_PASS: dict[str, Any] = {"alpha": 1e-6, "link_alpha": 1e-6, "max_epochs": 1, "random_state": 0}
DEFAULT: dict[str, Any] = {"random_state": 0}
#: Numbers in text have no precision of their own, and are double by default; those in the Parquet files are single.
SINGLE: dict[str, Any] = {"dtype": "float32"}
CHUNK = 50_000


def made_up(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels; the same relation between them for every seed."""
    relation = np.random.default_rng(0)
    linear, bent = (relation.normal(size=(FEATURES, CLASSES)) / np.sqrt(FEATURES) for _ in range(2))
    rng = np.random.default_rng([1, seed])
    X = rng.normal(size=(rows, FEATURES)).astype(np.float32)
    log_odds = 2.0 * X @ linear + 0.5 * (X @ bent) ** 2
    return 3.0 * X + 1.0, (log_odds + rng.gumbel(size=log_odds.shape)).argmax(1)


def write_table(folder: Path, rows: int) -> None:
    """Write the files that are not there yet, each whole or not at all."""
    if rows % FILES:
        raise SystemExit(f"--rows must be a multiple of {FILES}, got {rows}")
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "rows.json"
    if not kept.exists() or json.loads(kept.read_text()) != rows:
        for path in folder.glob("*.parquet"):
            path.unlink()
        kept.write_text(json.dumps(rows))
    schema = pa.schema([*((name, pa.float32()) for name in NAMES), ("label", pa.int64())])
    size = rows // FILES
    for number in range(FILES):
        path = folder / f"part-{number:02}.parquet"
        if path.exists():
            continue
        parts = []
        for chunk, start in enumerate(range(0, size, CHUNK)):
            X, y = made_up(min(CHUNK, size - start), 1000 * number + chunk)
            columns = [pa.array(np.ascontiguousarray(X[:, place])) for place in range(FEATURES)]
            parts.append(pa.table([*columns, pa.array(y)], schema=schema))
        new = path.with_suffix(".tmp")
        pa.parquet.write_table(pa.concat_tables(parts), new)  # in row groups of a million rows, pyarrow's default
        new.rename(path)


def write_csv(folder: Path, rows: int) -> None:
    """Write the same rows as CSV, for those files that are not there yet."""
    for path in map(Path, _paths(folder, rows)):
        if not path.with_suffix(".csv").exists():
            new = path.with_suffix(".tmp")
            with pyarrow.csv.CSVWriter(new, pa.parquet.read_schema(path)) as writer:
                for batch in pa.parquet.ParquetFile(path).iter_batches():
                    writer.write_batch(batch)
            new.rename(path.with_suffix(".csv"))


def _paths(folder: Path, rows: int, suffix: str = ".parquet") -> list[str]:
    """The first files, with so many rows."""
    in_a_file = json.loads((folder / "rows.json").read_text()) // FILES
    return [str(folder / f"part-{number:02}{suffix}") for number in range(-(-rows // in_a_file))]


def _source(folder: Path, rows: int) -> Any:
    return as_source(pyarrow.dataset.dataset(_paths(folder, rows)), target="label")


def _in_memory(folder: Path, rows: int) -> tuple[np.ndarray, np.ndarray]:
    source = _source(folder, rows)
    X, y = np.empty((rows, FEATURES), np.float32), np.empty(rows, np.int64)
    done = 0
    for batch in source.batches():
        part = slice(done, min(done + len(batch), rows))
        assert batch.y is not None
        X[part], y[part] = batch.X[: rows - done], batch.y[: rows - done]
        done += len(batch)
        if done >= rows:
            break
    return X, y


def streamed(
    folder: Path, rows: int, settings: dict[str, Any], suffix: str = ".parquet"
) -> tuple[Any, dict[str, float]]:
    """Our training by streaming, from Parquet or from text."""
    model, paths = LegendreTronClassifier(**settings), _paths(folder, rows, suffix)
    began = time.perf_counter()
    model.fit_stream(paths, target="label")
    seconds = time.perf_counter() - began

    def predict(X: np.ndarray) -> Any:
        return model.predict_proba(pandas.DataFrame(X, columns=NAMES))

    return predict, {"seconds": seconds, **_speed(model, rows)}


def in_memory(folder: Path, rows: int, settings: dict[str, Any]) -> tuple[Any, dict[str, float]]:
    """Our training on rows in memory."""
    X, y = _in_memory(folder, rows)
    model = LegendreTronClassifier(**settings)
    began = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - began
    return model.predict_proba, {"seconds": seconds, **_speed(model, rows)}


def _speed(model: LegendreTronClassifier, rows: int) -> dict[str, float]:
    if model.max_epochs != 1:
        return {}
    return {"rows_per_second": rows / model.history_["seconds"][-1]}


def sgd(folder: Path, rows: int, settings: dict[str, Any]) -> tuple[Any, dict[str, float]]:
    """scikit-learn's, on the batches that our training reads, in the order in which it does."""
    source = _source(folder, rows)
    summary = scan(source)
    model = SGDClassifier(loss="log_loss", alpha=1e-6, random_state=0)
    began = time.perf_counter()
    for batch in read_ahead(source.batches(0, seed=0)):
        X = ((batch.X - summary.mean) / summary.scale).astype(np.float32)
        model.partial_fit(X, batch.y, summary.classes)
    seconds = time.perf_counter() - began

    def predict(X: np.ndarray) -> Any:
        return model.predict_proba(((X - summary.mean) / summary.scale).astype(np.float32))

    return predict, {"seconds": seconds, "rows_per_second": rows / seconds}


CONTESTANTS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "streamed, one pass": (streamed, ONE_PASS),
    "streamed, by default": (streamed, DEFAULT),
    "streamed from CSV, one pass": (functools.partial(streamed, suffix=".csv"), ONE_PASS | SINGLE),
    "streamed from CSV, by default": (functools.partial(streamed, suffix=".csv"), DEFAULT | SINGLE),
    "in memory, one pass": (in_memory, ONE_PASS),
    "SGDClassifier, one pass": (sgd, {}),
}


def measure(name: str, folder: str, rows: int) -> dict[str, Any]:
    """Train one contestant in this process, and test it."""
    contestant, settings = CONTESTANTS[name]
    with threadpool_limits(1):
        LegendreTronClassifier(**{**ONE_PASS, "batch_size": 256}).fit_stream([made_up(500, 10**6)])
        before = peak_mb()
        predict, found = contestant(Path(folder), rows, settings)
        peak = peak_mb()
        X, y = made_up(TEST_ROWS, 10**6 + 1)
        p = predict(X)
    tested = {
        "test_log_loss": log_loss(y, p, labels=np.arange(CLASSES)),
        "test_accuracy": float((p.argmax(1) == y).mean()),
    }
    return {"contestant": name, "rows": rows, "peak_mb": peak, "mb_before": before, **found, **tested}


KINDS = ["one pass", "by default"]


def _measure_apart(name: str, folder: Path, rows: int) -> dict[str, Any]:
    return show(call_apart(measure, name, str(folder), rows))


def streaming(folder: Path, rows: int = 20_000_000, remove: bool = False) -> dict[str, Any]:
    """Memory and speed of training on a table that is read in batches, beside SGDClassifier and training in memory.

    ``folder`` is for the table, 4 GB with 20 million rows, which is removed at the end if asked for.
    """
    write_table(folder, rows)
    small, middle = rows // 20, rows // 4
    plan = [
        *(("streamed, one pass", some) for some in (small, middle, rows)),
        ("in memory, one pass", small),
        ("SGDClassifier, one pass", small),
        ("SGDClassifier, one pass", rows),
        *(("streamed, by default", some) for some in (small, rows)),
    ]
    found = [_measure_apart(name, folder, some) for name, some in plan]
    speed = {(row["contestant"], row["rows"]): row.get("rows_per_second") for row in found}
    ours = speed["streamed, one pass", small]
    size = sum(path.stat().st_size for path in folder.glob("*.parquet"))
    if remove:
        shutil.rmtree(folder)
    return {
        "shape": [rows, FEATURES, CLASSES],
        "parquet_mb": round(size / 1e6),
        "settings": {"one pass": ONE_PASS, "by default": DEFAULT},
        "wanted": {"peak_mb": 1500, "speed_of_training_in_memory": 0.5},
        "speed_of_training_in_memory": ours / speed["in memory, one pass", small],
        "speed_of_SGDClassifier": ours / speed["SGDClassifier, one pass", small],
        "runs": found,
    }


def parse_alone(folder: str, rows: int) -> float:
    """Seconds that pyarrow's parser takes for the text, files side by side as in a fit, and nothing else."""
    types = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(NAMES, pa.float64()))
    serial = pyarrow.csv.ReadOptions(use_threads=False)

    def parse(path: str) -> None:
        for _ in pyarrow.csv.open_csv(path, serial, convert_options=types):
            pass

    began = time.perf_counter()
    with ThreadPoolExecutor(joblib.cpu_count()) as pool:
        list(pool.map(parse, _paths(Path(folder), rows, ".csv")))
    return time.perf_counter() - began


def streaming_csv(
    folder: Path, rows: int = 20_000_000, kinds: list[str] = KINDS, rounds: int = 3, remove: bool = False
) -> dict[str, Any]:
    """Text against Parquet, in these fits, both in single precision; the folder has 10 GB more with 20 million rows.

    They take turns; the ratio is the median of those of the rounds.
    """
    write_table(folder, rows)
    write_csv(folder, rows)
    found = [
        {of: _measure_apart(f"streamed{of}, {kind}", folder, rows) for of in ("", " from CSV")}
        for kind in kinds
        for _ in range(rounds)
    ]
    parser = [call_apart(parse_alone, str(folder), rows) for _ in range(rounds)]
    ratios = [pair[" from CSV"]["seconds"] / pair[""]["seconds"] for pair in found]
    if remove:
        shutil.rmtree(folder)
    of_kinds = {kind: ratios[place * rounds : (place + 1) * rounds] for place, kind in enumerate(kinds)}
    return {
        "shape": [rows, FEATURES, CLASSES],
        "seconds_from_csv_to_parquet": {kind: statistics.median(own) for kind, own in of_kinds.items()},
        "ratios": of_kinds,
        "seconds_of_the_parser_alone": statistics.median(parser),
        "runs": [run for pair in found for run in pair.values()],
    }


if __name__ == "__main__":
    run_cases(streaming, streaming_csv)
