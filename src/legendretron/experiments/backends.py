"""Execution of batches: in this process, in others, or on the machines of a Ray cluster."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from legendretron._internal.provenance import provenance
from legendretron._internal.ray_cluster import ray_cluster
from legendretron._internal.validation import check_choice
from legendretron.experiments.experiment import Batch, Outcome, Resources, checked_outcome

BACKENDS = ("loky", "ray")


@dataclass(frozen=True)
class Finished:
    """A batch that was executed: its outcome, or why there is none."""

    batch: Batch  #: the batch
    outcome: Outcome | None  #: its outcome; None if it failed
    error: str  #: message in one line, if it failed
    seconds: float  #: time taken
    environment: dict[str, object]  #: device, threads, versions and commit of the process that executed it


def _execute(execute: Callable[[Batch, Resources], Outcome], batch: Batch, resources: Resources) -> Finished:
    """Execute a batch; an error is stored with the batch, and does not stop the others."""
    began = time.perf_counter()
    outcome, error = None, ""
    try:
        outcome = checked_outcome(execute(batch, resources), len(batch.runs))
    except (ValueError, ArithmeticError, RuntimeError, MemoryError, OSError) as problem:
        error = " ".join(f"{type(problem).__name__}: {problem}".split())
    return Finished(batch, outcome, error, time.perf_counter() - began, provenance(resources.device))


def executed(
    execute: Callable[[Batch, Resources], Outcome],
    batches: Sequence[Batch],
    resources: Resources,
    *,
    backend: str = "loky",
    n_jobs: int = 1,
    address: str | None = None,
) -> Iterator[Finished]:
    """Execute batches and yield each when it is finished, in any order."""
    check_choice("backend", backend, BACKENDS)
    if address is not None and backend == "loky":
        raise ValueError(f"address is that of a Ray cluster, got {address!r} with backend 'loky'.")
    if backend == "loky" and (n_jobs == 1 or len(batches) == 1):
        yield from (_execute(execute, batch, resources) for batch in batches)
        return
    import joblib

    with contextlib.ExitStack() as stack:
        if backend == "ray":
            stack.enter_context(ray_cluster(n_jobs, address))
            _register_ray()
        stack.enter_context(joblib.parallel_config(backend=backend, n_jobs=n_jobs))
        # one task at a time for each worker: a batch that waits in a worker's queue could be done by another
        parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs")
        yield from parallel(joblib.delayed(_execute)(execute, batch, resources) for batch in batches)


def _register_ray() -> None:
    """Register Ray with joblib, as a backend that returns results as they arrive and not all at the end.

    A backend says by an attribute whether it supports this, and Ray's inherits False. But its pool calls back after every
    task, which is all that is needed.
    """
    import joblib
    from ray.util.joblib.ray_backend import RayBackend

    class StreamingRayBackend(RayBackend):  # type: ignore[misc]
        supports_return_generator = True

    joblib.register_parallel_backend("ray", StreamingRayBackend)
