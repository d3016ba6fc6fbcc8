"""A Ray cluster for the time of a block: one on this machine, or one that is there."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from legendretron._internal.extras import import_extra


@contextmanager
def ray_cluster(n_cpus: int, address: str | None = None) -> Iterator[Any]:
    """Connect to a cluster, or start one on this machine, and yield the module ``ray``; the connection is closed at the end.

    The address ``"auto"`` is that of the cluster that this machine belongs to; without one, a cluster with so many cores and
    all GPUs is started here.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage statistics
    ray: Any = import_extra("ray", "backend ray", "distributed")
    # workers find the modules that this process finds, as they do with the other backends
    paths = {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    if address is None:
        ray.init(
            num_cpus=n_cpus, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False,
            runtime_env={"env_vars": paths},
        )  # fmt: skip
    else:
        ray.init(address=address, logging_level=logging.ERROR)
    try:
        yield ray
    finally:
        ray.shutdown()
