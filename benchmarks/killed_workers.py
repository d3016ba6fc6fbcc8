"""Kill workers at random moments while they train one model, and compare the result with that of an undisturbed training.

    OMP_NUM_THREADS=1 python benchmarks/killed_workers.py --out docs/results/killed_workers.json

Two processes train, once undisturbed and once with five of them killed by SIGKILL, one after the other, each at a random
moment after a new checkpoint: processes of `torchrun --max-restarts`, and workers of Ray Train.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness import run_cases
from legendretron import LegendreTronClassifier

#: In the environment of all processes of a run, so that no others are killed.
MARK = "LEGENDRETRON_KILLED_WORKERS"
SETTINGS = {"alpha": 1e-3, "link_alpha": 1e-3, "batch_size": 64, "random_state": 0}


def write_table(folder: Path, rows: int, seed: int = 0) -> None:
    """A made-up table of 10 features and 5 classes, in two files of several row groups."""
    random_numbers = np.random.default_rng(seed)
    weight = random_numbers.normal(size=(10, 5))
    folder.mkdir()
    for part in range(2):
        X = random_numbers.normal(size=(rows // 2, 10)).astype(np.float32)
        y = (X @ weight + random_numbers.gumbel(size=(len(X), 5))).argmax(1)
        table = pa.table({**{f"x{i}": X[:, i] for i in range(10)}, "label": y})
        pq.write_table(table, folder / f"part-{part}.parquet", row_group_size=max(1, rows // 20))


def processes(mark: str, title: str) -> list[int]:
    """Processes of a run whose command line holds a text."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            marked = f"{MARK}={mark}".encode() in (folder / "environ").read_bytes()
            if marked and title.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:  # it has ended, or is another user's
            continue
    return found


class Killer(threading.Thread):
    """Kills a worker some times, each time at a random moment after a new checkpoint: a file of this pattern."""

    def __init__(self, kills: int, workers: Callable[[], list[int]], folder: Path, pattern: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.kills, self.workers, self.folder, self.pattern = kills, workers, folder, pattern
        self.random = random.Random(seed)
        self.killed: list[float] = []
        self.ended = threading.Event()
        self.began = time.monotonic()

    def run(self) -> None:
        seen = None
        while len(self.killed) < self.kills and not self.ended.is_set():
            now = self.newest()
            if now is None or now == seen:
                time.sleep(0.02)
                continue
            time.sleep(self.random.uniform(0.0, 1.0))
            if alive := self.workers():
                os.kill(self.random.choice(alive), signal.SIGKILL)
                self.killed.append(round(time.monotonic() - self.began, 1))
                seen = self.newest()
                while set(alive) & set(self.workers()) and not self.ended.is_set():
                    time.sleep(0.05)  # until all of them have been ended, and are started again

    def newest(self) -> Any:
        found = []
        for path in self.folder.glob(self.pattern):
            with contextlib.suppress(OSError):  # it has just been removed
                found.append((path.stat().st_mtime_ns, str(path)))
        return max(found, default=None)

    def end(self) -> dict[str, Any]:
        self.ended.set()
        return {"killed_at_seconds": self.killed, "seconds": round(time.monotonic() - self.began, 1)}


def by_torchrun(table: Path, folder: Path, kills: int, epochs: int, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Train by two processes of torchrun; the coefficients, and when processes were killed."""
    folder.mkdir()
    mark, out = f"torchrun-{os.getpid()}-{kills}", folder / "model.safetensors"
    program = folder / "train_legendretron.py"
    program.write_text(
        "from legendretron import LegendreTronClassifier\n"
        "from legendretron.distributed import fit_torchrun\n"
        f"clf = LegendreTronClassifier(**{SETTINGS!r}, max_epochs={epochs})\n"
        f"fit_torchrun(clf, {str(table)!r}, target='label', checkpoint={str(folder / 'state')!r}, checkpoint_steps=100, "
        f"out={str(out)!r})\n"
    )
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts", str(kills),
        "--monitor-interval=0.2", str(program),
    ]  # fmt: skip
    environment = {**os.environ, MARK: mark, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    killer = Killer(
        kills, lambda: [p for p in processes(mark, "legendretron") if p != process.pid], folder, "state", seed
    )
    killer.start()
    _, errors = process.communicate()
    times = killer.end()
    if process.returncode:
        raise SystemExit(f"training failed: {errors[-3000:]}")
    return LegendreTronClassifier.load(out).coef_, times


def by_ray(table: Path, folder: Path, kills: int, epochs: int, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
    """The same by two workers of Ray."""
    import ray

    from legendretron.distributed import fit_ray

    if ray.is_initialized():
        raise SystemExit(
            "by_ray marks the workers of a cluster of its own, but there is one; call ray.shutdown() first."
        )
    folder.mkdir()
    mark = f"ray-{os.getpid()}-{kills}"
    os.environ[MARK] = mark
    killer = Killer(kills, lambda: processes(mark, "RayTrainWorker"), folder, "run/checkpoint_*", seed)
    killer.start()
    classifier = LegendreTronClassifier(**SETTINGS, max_epochs=epochs)
    fit_ray(
        classifier, str(table), target="label", num_workers=2, storage_path=folder, name="run", max_failures=kills,
        checkpoint_steps=200,
    )  # fmt: skip
    return classifier.coef_, killer.end()


def compare(
    train: Callable[..., tuple[np.ndarray, dict[str, Any]]], rows: int, epochs: int, kills: int, seed: int = 0
) -> dict[str, Any]:
    """Undisturbed and disturbed training, and how far the coefficients are apart."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_table(folder / "table", rows)
        undisturbed, alone = train(folder / "table", folder / "undisturbed", 0, epochs, seed)
        disturbed, found = train(folder / "table", folder / "disturbed", kills, epochs, seed)
    return {
        "kills": len(found["killed_at_seconds"]),
        **found,
        "undisturbed_seconds": alone["seconds"],
        "largest_difference": float(np.abs(undisturbed - disturbed).max()),
    }


def kill_workers(rows: int = 20_000, epochs: int = 6, kills: int = 5) -> dict[str, Any]:
    """Coefficients of training with workers that are killed, beside those of an undisturbed one."""
    trainings = (by_torchrun, by_ray)
    found = {train.__name__.removeprefix("by_"): compare(train, rows, epochs, kills) for train in trainings}
    return {"shape": [rows, 10, 5], "epochs": epochs, "settings": SETTINGS, "workers": 2, **found}


if __name__ == "__main__":
    run_cases(kill_workers)
