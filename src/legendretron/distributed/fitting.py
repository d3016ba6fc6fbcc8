"""The fit of an estimator to a source by several processes, each of which runs this."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING

from torch import Tensor

from legendretron._internal.validation import check_integer
from legendretron.estimators.restore_on_error import restore_on_error
from legendretron.estimators.stream_fit import SAMPLE_ROWS, StreamFit, check_streamable
from legendretron.links import Link
from legendretron.streaming.source import Source
from legendretron.training.checkpoint import CheckpointStore
from legendretron.training.layout import JointError, Layout
from legendretron.training.model import LinearModel

if TYPE_CHECKING:
    from legendretron.estimators.base import LinearLinkClassifier

__all__ = ["JointError", "check_estimator", "fit_shards"]


def check_estimator(estimator: LinearLinkClassifier) -> None:
    """Raise a ``ValueError`` for parameters that several processes cannot follow."""
    check_streamable(estimator)
    if estimator.checkpoint is not None:
        raise ValueError(
            f"checkpoint={estimator.checkpoint!r} is for one process; leave it out: fit_torchrun has a checkpoint of its "
            "own, and Ray keeps those of fit_ray."
        )
    if not isinstance(estimator.random_state, Integral):
        raise ValueError(
            f"random_state must be a number, so that all processes draw the same, got {estimator.random_state!r}."
        )


def fit_shards(
    estimator: LinearLinkClassifier,
    source: Source,
    layout: Layout,
    *,
    n_shards: int | None = None,
    store: CheckpointStore | None = None,
    checkpoint_steps: int | None = None,
    skip_bad_rows: int = 0,
    sample_rows: int = SAMPLE_ROWS,
) -> None:
    """Fit an estimator; every process of the layout calls this, and has the fitted estimator afterwards.

    Parameters
    ----------
    estimator : LinearLinkClassifier
        The same on all processes.
    source : Source
        Of which each process reads its shards.
    layout : Layout
        Which part of the work is this process's.
    n_shards : int, optional
        Parts that the rows are divided into; one for each group of processes that reads the same rows, if not given.
    store : CheckpointStore, optional
        Where checkpoints go.
    checkpoint_steps : int, optional
        Steps between two checkpoints, in place of one every 10 epochs.
    skip_bad_rows, sample_rows : int
        As in :meth:`~legendretron.LegendreTronClassifier.fit_stream`.
    """

    def make_model(weight: Tensor, bias: Tensor, link: Link) -> LinearModel:
        if layout.classes is None:
            return LinearModel(weight.unsqueeze(0), bias.unsqueeze(0), [link])
        from legendretron.distributed.class_parallel import SplitModel

        return SplitModel(weight, bias, link, layout)

    with restore_on_error(estimator):
        try:
            check_estimator(estimator)
            n_shards = layout.n_data if n_shards is None else check_integer("n_shards", n_shards, 1)
            if n_shards < layout.n_data:
                raise ValueError(
                    f"n_shards must be at least {layout.n_data}, so that every process has rows, got {n_shards}."
                )
            if checkpoint_steps is not None:
                check_integer("checkpoint_steps", checkpoint_steps, 1)
            fit = StreamFit(
                estimator, source, layout, n_shards=n_shards, skip_bad_rows=skip_bad_rows, sample_rows=sample_rows
            )
            fit.prepare(make_model)
        except ValueError as error:  # all processes have found it
            raise JointError(str(error)) from error
        fit.train(store, checkpoint_steps)
