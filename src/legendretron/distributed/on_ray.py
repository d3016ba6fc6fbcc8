"""Training of one model by the workers of a Ray cluster."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sklearn.base import clone

from legendretron._internal.extras import import_extra
from legendretron._internal.ray_cluster import ray_cluster
from legendretron._internal.validation import check_integer
from legendretron.datasets.streams import are_paths
from legendretron.distributed.fitting import PATIENCE, AnyClassifier, fit_shards
from legendretron.estimators import load
from legendretron.estimators.stream_fit import check_streamable
from legendretron.training.checkpoint import CheckpointStore
from legendretron.training.layout import JointError, Layout

_MODEL, _NOTES, _ERROR = "model.safetensors", "notes.json", "error.txt"


def fit_ray(
    estimator: AnyClassifier,
    data: Any,
    *,
    target: str | None = None,
    weight: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    num_workers: int = 2,
    n_shards: int | None = None,
    class_parallel: int = 1,
    address: str | None = None,
    resources_per_worker: dict[str, float] | None = None,
    storage_path: str | os.PathLike[str] | None = None,
    name: str | None = None,
    max_failures: int = 3,
    checkpoint_steps: int | None = None,
    skip_bad_rows: int = 0,
) -> AnyClassifier:
    """Fit an estimator by the workers of a Ray cluster, each on its shards of the rows.

    Workers are started by Ray Train. Gradients are added up, so that the result is that of one worker on the joint batches.
    If a worker is lost, all are started again and go on from the last checkpoint, with the same result as if nothing had
    happened.

    Parameters
    ----------
    estimator : LegendreTronClassifier or MultinomialLogisticClassifier
        What to fit. Its ``batch_size`` is that of a joint batch; ``device="cuda"`` gives each worker a GPU.
    data : str, path, list of them, or anything for as_source
        Files, folders or patterns that every worker can read. Workers read the row groups of their shards themselves.
    target, weight, features, drop
        Columns; see :func:`~legendretron.streaming.as_source`.
    num_workers : int
        Processes.
    n_shards : int, optional
        Parts that the rows are divided into; as many as there are workers that read different rows, if not given. The result
        depends on it, but not on the number of workers.
    class_parallel : int
        Over how many workers the classes are divided; it divides ``num_workers``. With more than one, these read the same
        rows.
    address : str, optional
        Of a cluster, or ``"auto"``. If not given, one is used that ``ray.init`` has connected to, or started on this machine.
    resources_per_worker : dict, optional
        As in ``ray.train.ScalingConfig``.
    storage_path : path or URI, optional
        Folder that all machines share, for checkpoints. A temporary one if not given, which works on one machine only.
    name : str, optional
        Of the run, a folder in ``storage_path``.
    max_failures : int
        How often training goes on after the loss of a worker.
    checkpoint_steps : int, optional
        Steps between two checkpoints. If not given, there is one every 10 epochs.
    skip_bad_rows : int
        How many rows with missing values may be left out.

    Returns
    -------
    estimator
        The same one, fitted.

    Examples
    --------
    ::

        clf = LegendreTronClassifier(alpha=1e-4, link_alpha=1e-4, random_state=0)
        fit_ray(clf, "s3://bucket/table/", target="label", num_workers=16, address="auto", storage_path="s3://bucket/runs")
    """
    check_integer("num_workers", num_workers, 1)
    check_integer("max_failures", max_failures, 0)
    check_integer("class_parallel", class_parallel, 1)
    if num_workers % class_parallel:
        raise ValueError(f"class_parallel={class_parallel} must divide num_workers={num_workers}.")
    if address is not None and storage_path is None and address not in ("auto", "local"):
        raise ValueError(
            "storage_path must be given with the address of a cluster: a folder that all its machines share."
        )
    check_streamable(estimator, alone=False)
    import_extra("ray.train.torch", "fit_ray", "distributed")
    import ray
    import ray.train
    from ray.train.torch import TorchConfig, TorchTrainer

    columns = {"target": target, "weight": weight, "features": features, "drop": tuple(drop)}
    gpu = str(estimator.device).startswith("cuda")
    with ExitStack() as stack:
        if not ray.is_initialized():
            stack.enter_context(ray_cluster(num_workers, address))
        if storage_path is None:
            storage_path = stack.enter_context(tempfile.TemporaryDirectory(prefix="legendretron-"))
        trainer = TorchTrainer(
            _work,
            train_loop_config={
                "estimator": clone(estimator),
                "data": _for_workers(data),
                "columns": columns,
                "n_shards": n_shards,
                "class_parallel": class_parallel,
                "checkpoint_steps": checkpoint_steps,
                "skip_bad_rows": skip_bad_rows,
            },
            torch_config=TorchConfig(backend="nccl" if gpu else "gloo", timeout_s=int(PATIENCE.total_seconds())),
            scaling_config=ray.train.ScalingConfig(
                num_workers=num_workers, use_gpu=gpu, resources_per_worker=resources_per_worker
            ),
            run_config=ray.train.RunConfig(
                name=name,
                storage_path=_absolute(storage_path),
                failure_config=ray.train.FailureConfig(max_failures=max_failures),
                checkpoint_config=ray.train.CheckpointConfig(num_to_keep=2),
            ),
        )
        result = trainer.fit()
        assert result.checkpoint is not None  # the last thing that workers do is to hand in the model
        with result.checkpoint.as_directory() as folder:
            if (error := Path(folder, _ERROR)).exists():
                raise ValueError(error.read_text())
            fitted = load(Path(folder, _MODEL))
            notes = json.loads(Path(folder, _NOTES).read_text())
            fitted.n_skipped_rows_, fitted.skipped_rows_ = int(notes["n_skipped_rows"]), tuple(notes["skipped_rows"])
    parameters = estimator.get_params(deep=False)
    estimator.__dict__.update(fitted.__dict__)
    estimator.__dict__.update(parameters)  # such as verbose, which a file does not hold
    return estimator


def _for_workers(data: Any) -> Any:
    """The same data from wherever workers run: paths become absolute."""
    if isinstance(data, str | os.PathLike):
        return _absolute(data)
    return [_absolute(path) for path in data] if are_paths(data) else data


def _absolute(path: str | os.PathLike[str]) -> str:
    """The same path from wherever workers run; addresses in the cloud are left as they are."""
    text = os.fspath(path)
    return text if "://" in text else os.path.abspath(text)


def _work(config: dict[str, Any]) -> None:
    """What each worker does."""
    import ray.train
    from ray.train.torch import get_device

    estimator = config.pop("estimator")
    with tempfile.TemporaryDirectory(prefix="legendretron-") as folder:
        layout = Layout.join(get_device(), config.pop("class_parallel"))
        store = RayCheckpoints(Path(folder), layout)
        problem = ""
        try:
            fit_shards(estimator, layout=layout, store=store, **config)
        except JointError as error:  # on all workers alike: there is no sense in starting again
            problem = str(error)
        checkpoint = None
        if layout.first:
            out = Path(folder, "out")
            out.mkdir()
            if problem:
                (out / _ERROR).write_text(problem)
            else:
                estimator.save(out / _MODEL)
                notes = {"n_skipped_rows": estimator.n_skipped_rows_, "skipped_rows": estimator.skipped_rows_}
                (out / _NOTES).write_text(json.dumps(notes))
            checkpoint = ray.train.Checkpoint.from_directory(out)
        ray.train.report({"finished": True}, checkpoint=checkpoint)


class RayCheckpoints(CheckpointStore):
    """Checkpoints that Ray keeps where it keeps those of all runs, on a shared disk or in the cloud.

    Each worker that has something to keep hands in a file, and Ray counts a checkpoint only if all of them have. It keeps
    the last ones of each run.
    """

    def __init__(self, folder: Path, layout: Layout) -> None:
        self._layout = layout
        super().__init__(
            folder / "checkpoint" / f"training-{layout.class_rank + 1}-of-{layout.n_class_parts}.safetensors"
        )
        self.path.parent.mkdir()

    def fetch(self) -> None:
        """See :class:`~legendretron.training.checkpoint.CheckpointStore`."""
        import ray.train

        if (checkpoint := ray.train.get_checkpoint()) is None:
            return
        with checkpoint.as_directory() as folder:
            if (newest := Path(folder, self.path.name)).exists():
                shutil.copyfile(newest, self.path)

    def commit(self) -> None:
        """See :class:`~legendretron.training.checkpoint.CheckpointStore`."""
        import ray.train

        has_file = self._layout.data_rank == 0
        ray.train.report({}, checkpoint=ray.train.Checkpoint.from_directory(self.path.parent) if has_file else None)

    def end(self) -> None:
        """Leave the checkpoints to Ray."""
