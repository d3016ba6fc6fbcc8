"""Times and bytes of training by several processes, measured on this machine, and from them the cost of larger problems.

    OMP_NUM_THREADS=1 python benchmarks/scale.py --out docs/results/scale.json
    python docs/render.py

Measured are: reading Parquet; a step on one process, for several numbers of features, classes and rows; the bytes that a step
sends, with rows divided and with classes divided over two processes; and the time of these messages over the loopback. What a
larger cluster takes is computed, by the formulas in `on_paper`; its network is an assumption, which the record names.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from harness import run_cases, run_process
from legendretron.distributed.fitting import SplitModel, join_group
from legendretron.links import make_link
from legendretron.streaming import as_source
from legendretron.training.features import as_features
from legendretron.training.layout import Layout
from legendretron.training.model import LinearModel
from legendretron.training.problem import Sample
from legendretron.training.step import Adam

#: Features, classes, and rows of one process in a step.
STEPS = [(50, 26, 256), (50, 26, 4096), (100, 1000, 256), (100, 1000, 1024), (100, 10_000, 256)]
#: The same for two processes that divide the classes.
SPLIT_STEPS = [(100, 1000, 256), (100, 10_000, 256)]
LINK = {"n_blocks": 2, "hidden": 8, "depth": 4}
#: What is assumed of the network between machines: bytes a second of each, and seconds that a message takes at least.
NETWORKS = {"10 Gbit/s": (1.25e9, 5e-5), "100 Gbit/s": (1.25e10, 2e-5)}


def seconds_of(work: Callable[[], Any], least: float = 1.0) -> float:
    """Median seconds of a call, over calls that take so many seconds together.

    They are the processor's, of one thread, so that other programs on the machine count for less.
    """
    work()
    times: list[float] = []
    while sum(times) < least or len(times) < 3:
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return float(np.median(times))


def make_link_of(n_classes: int) -> Any:
    generator = torch.Generator().manual_seed(0)
    return make_link("composite", n_classes, init="centred", generator=generator, dtype=torch.float32, **LINK)


def make_model(d: int, n_classes: int) -> LinearModel:
    return LinearModel(torch.zeros(1, d, n_classes - 1), torch.zeros(1, n_classes - 1), [make_link_of(n_classes)])


def batch_of(d: int, n_classes: int, rows: int) -> tuple[Any, torch.Tensor, torch.Tensor]:
    random = np.random.default_rng(0)
    X = random.normal(size=(rows, d)).astype(np.float32)
    labels = torch.from_numpy(random.integers(n_classes, size=(1, rows)))
    return as_features(X, torch.float32, torch.device("cpu")), labels, torch.full((1, rows), 1.0 / rows)


def compute_gradient(model: LinearModel, layout: Layout, batch: tuple[Any, torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """The gradient of a step, added up over the processes that have different rows."""
    features, labels, weight = batch
    rows, gradient = torch.arange(labels.shape[1])[None], torch.zeros_like(model.flat)
    model.loss_gradient(Sample(features, rows, labels, weight), gradient, cleared=True)
    return layout.sum_over_rows(gradient)


def measure_reading(rows: int = 200_000, d: int = 50) -> dict[str, Any]:
    """Rows a second that one process reads from Parquet and turns into arrays."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.parquet")
        columns = {f"x{i}": random.normal(size=rows).astype(np.float32) for i in range(d)}
        pq.write_table(pa.table({**columns, "label": random.integers(26, size=rows)}), path, row_group_size=50_000)
        size = path.stat().st_size
        source = as_source(pyarrow.dataset.dataset(path), target="label")
        seconds = seconds_of(lambda: sum(len(batch) for batch in source.batches(0)))
    return {"rows": rows, "features": d, "bytes_a_row": size / rows, "rows_a_second": rows / seconds}


def measure_steps() -> list[dict[str, Any]]:
    """Seconds of a step on one process: gradient, and Adam."""
    found = []
    for d, n_classes, rows in STEPS:
        model = make_model(d, n_classes)
        optimizer, rate = Adam(model.flat), torch.tensor([[1e-3]])
        batch = batch_of(d, n_classes, rows)
        gradient = seconds_of(lambda model=model, batch=batch: compute_gradient(model, Layout.alone(), batch))
        update = seconds_of(lambda o=optimizer, m=model, r=rate: o.step(torch.ones_like(m.flat), r), least=0.3)
        found.append(
            {
                "features": d, "classes": n_classes, "rows": rows, "parameters": model.flat.numel(),
                "gradient_seconds": gradient, "update_seconds": update,
            }
        )  # fmt: skip
    return found


class Sent(TorchDispatchMode):
    """Counts the bytes of every tensor that goes through a collective."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = self.messages = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        from torch.distributed.tensor import DTensor

        if DTensor in types:
            return NotImplemented  # let it become operations on its parts, and see those
        if func.namespace == "_c10d_functional" and not func.__name__.startswith(("wait", "_wrap")):
            self.messages += 1
            self.bytes += sum(arg.numel() * arg.element_size() for arg in args if isinstance(arg, torch.Tensor))
        return func(*args, **(kwargs or {}))


def worker(out: str) -> None:
    """What each of two processes measures."""
    found: dict[str, Any] = {"rows": [], "classes": []}
    with join_group("cpu") as layout:
        for d, n_classes, rows in STEPS:
            model = make_model(d, n_classes)
            batch = batch_of(d, n_classes, rows)
            message = torch.ones_like(model.flat)
            found["rows"].append(
                {
                    "features": d, "classes": n_classes, "rows": rows, "bytes": model.flat.nbytes,
                    "step_seconds": _time_together(lambda m=model, batch=batch: compute_gradient(m, layout, batch)),
                    "message_seconds": _time_together(lambda message=message: dist.all_reduce(message)),
                }
            )  # fmt: skip
        split = Layout.join("cpu", 2)
        for d, n_classes, rows in SPLIT_STEPS:
            model = SplitModel(
                torch.zeros(d, n_classes - 1), torch.zeros(n_classes - 1), make_link_of(n_classes), split
            )
            batch = batch_of(d, n_classes, rows)
            with Sent() as sent_by_classes:
                compute_gradient(model, split, batch)
            found["classes"].append(
                {
                    "features": d, "classes": n_classes, "rows": rows, "own_parameters": model.flat.numel(),
                    "bytes": sent_by_classes.bytes, "messages": sent_by_classes.messages,
                    "step_seconds": _time_together(lambda m=model, batch=batch: compute_gradient(m, split, batch)),
                }
            )  # fmt: skip
        if layout.first:
            Path(out).write_text(json.dumps(found))
        dist.barrier()


def _time_together(work: Callable[[], Any], calls: int = 10) -> float:
    """Median seconds of a call, for work that all processes do the same number of times."""
    work()
    times = []
    for _ in range(calls):
        dist.barrier()
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def measure_processes() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "found.json")
        torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
        run_process(*torchrun, __file__, "--worker", out)
        return json.loads(out.read_text())


def parameters_of(d: int, n_classes: int) -> int:
    """Parameters of a model: W, b, and the blocks' A; the rest of the link does not grow with the classes."""
    rank = LINK["hidden"] * LINK["depth"] + 1
    return (n_classes - 1) * (d + 1 + LINK["n_blocks"] * rank)


def message_seconds(size: float, machines: int, network: tuple[float, float], messages: int = 1) -> float:
    """Seconds of all-reduces around a ring, of so many bytes together: each machine sends its part 2 (N - 1) times."""
    if machines == 1:
        return 0.0
    speed, least = network
    return 2 * (machines - 1) / machines * size / speed + 2 * math.ceil(math.log2(machines)) * least * messages


def on_paper(record: dict[str, Any]) -> dict[str, Any]:
    """What larger problems take, from what was measured."""
    small, large = (step for step in record["steps"] if step["classes"] == 26)
    per_row = (large["gradient_seconds"] - small["gradient_seconds"]) / (large["rows"] - small["rows"])
    fixed = max(0.0, small["gradient_seconds"] - per_row * small["rows"]) + small["update_seconds"]
    reading = 1.0 / record["reading"]["rows_a_second"]
    by_rows = []
    for rows in (1e7, 1e8, 1e9, 1e10):
        for machines in (1, 16, 256):
            own = 4096  # rows of each machine in a step
            steps = rows / (own * machines)
            times = {}
            for name, network in NETWORKS.items():
                message = message_seconds(4.0 * small["parameters"], machines, network)
                times[name] = steps * (max(own * per_row + fixed, own * reading) + message)
            by_rows.append(
                {
                    "rows": rows, "machines": machines, "steps": steps,
                    "table_bytes": rows * record["reading"]["bytes_a_row"],
                    "reading_seconds": rows * reading / machines, "computing_seconds": steps * (own * per_row + fixed),
                    "sending_seconds": {name: steps * message_seconds(4.0 * small["parameters"], machines, network)
                                        for name, network in NETWORKS.items()},
                    "seconds_a_pass": times,
                }
            )  # fmt: skip
    # a step's work grows with rows x classes; what it takes for each, at many classes
    wide = record["steps"][-1]
    per_cell = wide["gradient_seconds"] / (wide["rows"] * wide["classes"])
    split = record["processes"]["classes"][-1]
    bytes_a_row = split["bytes"] / split["rows"]
    by_classes = []
    for n_classes in (1_000, 10_000, 100_000, 1_000_000):
        for parts in (1, 8, 64):
            parameters, rows = parameters_of(100, n_classes), 256
            state = 4.0 * 4 * parameters / parts  # parameters, gradient, two moments
            computing = rows * n_classes * per_cell / parts
            by_classes.append(
                {
                    "classes": n_classes, "class_parts": parts, "parameters": parameters, "state_bytes": state,
                    "step_rows": rows, "computing_seconds": computing,
                    "rows_divided_bytes": 4.0 * parameters / parts,
                    "classes_divided_bytes": 0.0 if parts == 1 else rows * bytes_a_row,
                    "rows_divided_seconds": {
                        name: message_seconds(4.0 * parameters / parts, 8, network) for name, network in NETWORKS.items()
                    },
                    "classes_divided_seconds": {
                        name: message_seconds(rows * bytes_a_row, parts, network, split["messages"])
                        for name, network in NETWORKS.items()
                    },
                }
            )  # fmt: skip
    return {
        "seconds_a_row": per_row, "seconds_a_step": fixed, "seconds_a_row_and_class": per_cell,
        "class_parallel_bytes_a_row": bytes_a_row, "rows": by_rows, "classes": by_classes,
    }  # fmt: skip


def scale() -> dict[str, Any]:
    """Times and bytes of training by several processes, and from them the cost of larger problems."""
    found: dict[str, Any] = {
        "settings": {**LINK, "dtype": "float32"},
        "networks_assumed": NETWORKS,
        "reading": measure_reading(),
        "steps": measure_steps(),
        "processes": measure_processes(),
    }
    # four digits are more than such times have
    return json.loads(
        json.dumps({**found, "on_paper": on_paper(found)}), parse_float=lambda x: float(f"{float(x):.4g}")
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        torch.set_num_threads(1)
        worker(sys.argv[2])
    else:
        run_cases(scale)
