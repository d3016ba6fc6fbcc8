"""``legendretron fit`` by several processes: workers of Ray, or processes that torchrun has started."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer

from legendretron.cli.fit_options import ClusterOptions, FitOptions
from legendretron.cli.options import given, wrong
from legendretron.cli.outputs import naming
from legendretron.cli.terminal import Terminal

if TYPE_CHECKING:
    from legendretron.estimators.base import LinearLinkClassifier


def check_cluster(options: ClusterOptions, unsuitable: Iterable[str]) -> bool:
    """Return whether several processes are to train; options that do not fit are usage errors."""
    by_torchrun = "RANK" in os.environ and "MASTER_ADDR" in os.environ
    of_ray = given(options, "workers", "address", "storage", "max_failures")
    of_both = given(options, "shards", "class_parallel", "checkpoint_steps")
    if options.backend is None:
        for name in [*of_ray, *([] if by_torchrun else of_both)]:
            needed = "--backend ray" if name in of_ray else "--backend ray, or to be started by torchrun"
            raise wrong(name, f"it needs {needed}.")
        if not by_torchrun:
            return False
    elif by_torchrun:
        raise wrong("--backend", "torchrun has started this process already; leave it out.")
    for name in unsuitable:
        raise wrong(name, "it is not for several processes; leave it out.")
    workers, class_parallel = options.workers or 2, options.class_parallel or 1
    if options.backend is not None and workers % class_parallel:
        raise wrong("--class-parallel", f"it must divide --workers, which is {workers}, got {class_parallel}.")
    return True


def fit_by_cluster(terminal: Terminal, options: FitOptions, estimator: LinearLinkClassifier) -> bool:
    """Fit, and write the model; return whether this process is to report: of those of torchrun the first is."""
    from legendretron.distributed.fitting import JointError

    out = options.out
    roles: dict[str, Any] = {
        "target": options.target,
        "features": options.features or None,
        "drop": tuple(options.drop or ()),
    }
    place = re.sub(
        r"^([a-z][a-z0-9]+):/(?!/)", r"\1://", str(options.data)
    )  # an address; a path has lost its second slash
    first = os.environ.get("RANK", "0") == "0"
    if estimator.random_state is None:
        estimator.set_params(random_state=0)
    estimator.set_params(verbose=0 if terminal.quiet or not first else 1)
    how: dict[str, Any] = {
        "n_shards": options.shards,
        "class_parallel": options.class_parallel or 1,
        "checkpoint_steps": options.checkpoint_steps,
        "skip_bad_rows": options.skip_bad_rows,
    }
    try:
        with naming(out):
            if options.backend is None:
                from legendretron.distributed import fit_torchrun

                fit_torchrun(estimator, place, **roles, **how, checkpoint=options.checkpoint, out=out)
            else:
                from legendretron.distributed import fit_ray

                fit_ray(
                    estimator, place, **roles, **how, num_workers=n_processes(options), address=options.address,
                    storage_path=options.storage,
                    max_failures=3 if options.max_failures is None else options.max_failures,
                )  # fmt: skip
                estimator.save(out)
    except JointError:
        if first:
            raise
        raise typer.Exit(1) from None  # the first process says it
    return first


def n_processes(options: FitOptions) -> int:
    """Return how many processes train."""
    return int(os.environ.get("WORLD_SIZE", "1")) if options.backend is None else options.workers or 2
