"""The fit of an estimator to a source by several processes, each of which runs this."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from legendretron._internal.init_linear import init_linear
from legendretron._internal.validation import check_integer
from legendretron.distributed.checkpoints import CheckpointStore
from legendretron.distributed.layout import Layout
from legendretron.distributed.objective import SharedGradient
from legendretron.distributed.shards import Rows
from legendretron.distributed.source_shards import Shard, SourceShards, scan_shards
from legendretron.distributed.training import Objective, ShardedState, train_shards
from legendretron.estimators.classes import swap_classes, swap_labels
from legendretron.estimators.fingerprint import fingerprint
from legendretron.estimators.fixed_link import is_fixed
from legendretron.estimators.standardization import Standardized
from legendretron.streaming.batch import Batch
from legendretron.streaming.scan import Summary
from legendretron.streaming.source import Source
from legendretron.training.model import LinearModel

if TYPE_CHECKING:
    from legendretron.estimators.base import LinearLinkClassifier
    from legendretron.estimators.plan import Plan

__all__ = ["AgreedError", "check_estimator", "fit_shards"]


class AgreedError(ValueError):
    """Something is wrong that all processes have found, so that none waits for another."""


def check_estimator(estimator: LinearLinkClassifier, class_parallel: int = 1) -> None:
    """Raise a ``ValueError`` for parameters that several processes cannot follow."""
    for name, value, why in (
        ("solver", "lbfgs", "needs all rows at once; use solver='adam' or 'auto'"),
        ("warm_start", True, "is not for several processes; set it to False"),
        ("keep_interrupted", True, "is not for several processes; set it to False, and use checkpoints"),
    ):
        if getattr(estimator, name) == value:
            raise ValueError(f"{name}={value!r} {why}.")
    if is_fixed(getattr(estimator, "link", None)):
        raise ValueError("link must be one that is learned: a loss that is kept fixed is fitted by one process, with fit.")
    if estimator.random_state is None:
        raise ValueError("random_state must be given, so that all processes draw the same; got None.")


def fit_shards(
    estimator: LinearLinkClassifier,
    source: Source,
    layout: Layout,
    *,
    n_shards: int | None = None,
    store: CheckpointStore | None = None,
    checkpoint_steps: int | None = None,
    skip_bad_rows: int = 0,
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
        Steps between two checkpoints, in place of ``estimator.checkpoint_every`` epochs.
    skip_bad_rows : int
        How many bad rows may be left out.
    """
    check_estimator(estimator, layout.n_class_parts)
    n_shards = layout.n_data if n_shards is None else check_integer("n_shards", n_shards, 1)
    if n_shards < layout.n_data:
        raise AgreedError(f"n_shards={n_shards} must be at least {layout.n_data}, so that every process has rows to read.")
    seed = estimator._seed()
    held_out = float(estimator.validation_fraction) if estimator.early_stopping else 0.0
    shards = [Shard(source, number, n_shards, skip_bad_rows, None, held_out, seed) for number in range(n_shards)]
    try:
        factors = _class_factors(estimator, shards, layout)
        shards = [replace(shard, factors=factors) for shard in shards]
        summary, sizes, held = scan_shards(shards, layout)
    except ValueError as error:
        raise AgreedError(str(error)) from error
    if len(summary.classes) < 2:
        raise AgreedError(
            f"fit needs samples of at least 2 classes, but the data contains only one class: {summary.classes[0]!r}."
        )
    n_classes, n_rows = len(summary.classes), sum(sizes)
    kind = summary.dtype if estimator.dtype is None else np.dtype(estimator.dtype)
    dtype = torch.float32 if kind == np.float32 else torch.float64
    generator = torch.Generator().manual_seed(seed)
    start = _start(estimator, summary, generator, dtype)
    before = generator.get_state()
    link = estimator._make_link(n_classes, generator, dtype, n_rows)
    noise, found = estimator._noise_to_begin_with(n_classes, False, False, False)
    plan = estimator._plan_of(link, estimator._strengths().pair(), None, noise, found, dtype, anew=True)
    if plan.is_logistic:
        generator.set_state(before)
    model, objective = _model(plan, start, layout)
    settings = estimator._training_settings((), generator, n_rows, plan.strengths, False)
    identity = (summary.classes, summary.class_weight, summary.mean, start.scale, [seed, *plan.strengths, *sizes, *held])
    class_weight = swap_classes(summary.class_weight)
    state = ShardedState(
        model,
        SourceShards(shards, sizes, held, _prepare(summary, start, kind)),
        replace(settings, fingerprint=fingerprint(estimator, identity), verbose=settings.verbose if layout.first else 0),
        objective,
        layout,
        weight_factor=summary.n_rows / summary.total_weight,
        class_weight=class_weight,
        store=store,
        checkpoint_steps=checkpoint_steps,
    )
    result = train_shards(state)
    estimator._keep(model, result, plan, summary.classes, class_weight, n_rows, start, kind)
    estimator._tuning = None
    estimator.n_features_in_ = summary.n_features
    if summary.feature_names is not None:
        estimator.feature_names_in_ = np.array(summary.feature_names, dtype=object)
    if layout.first:
        estimator._report(result)


def _class_factors(
    estimator: LinearLinkClassifier, shards: list[Shard], layout: Layout
) -> dict[Any, float] | None:
    """What the weights of a class's rows are multiplied by."""
    given = estimator.class_weight
    if given is None or isinstance(given, dict):
        values = np.asarray(list((given or {}).values()), dtype=float)
        if not (np.isfinite(values).all() and (values >= 0).all()):
            raise ValueError(f"class_weight must hold finite, non-negative weights, got {given!r}.")
        return given
    counts = scan_shards(shards, layout)[0]  # a pass of its own: means and deviations depend on the weights
    balanced = counts.n_rows / (len(counts.classes) * counts.class_rows)
    return dict(zip(counts.classes.tolist(), balanced.tolist(), strict=True))


def _start(
    estimator: LinearLinkClassifier, summary: Summary, generator: torch.Generator, dtype: torch.dtype
) -> Standardized:
    """The initial linear predictor, in the units of the summary."""
    d, k = summary.n_features, len(summary.classes) - 1
    mean, scale = np.zeros(d), np.ones(d)
    if estimator.standardize:
        scale = summary.scale
        mean = mean if summary.sparse else summary.mean
    weight, bias = torch.zeros(k, d, dtype=dtype), torch.zeros(k, dtype=dtype)
    if estimator.init == "paper":
        init_linear(d, generator, weight, bias)
    return Standardized(mean, scale, weight.T.contiguous(), bias)


def _model(plan: Plan, start: Standardized, layout: Layout) -> tuple[LinearModel, Objective]:
    weight, bias = (part.to(layout.device, plan.precision) for part in (start.weight, start.bias))
    link = plan.link.to(layout.device, plan.precision)
    if layout.classes is None:
        model = LinearModel(weight.unsqueeze(0), bias.unsqueeze(0), [link])
        return model, SharedGradient(model, layout)
    from legendretron.distributed.class_parallel import SplitGradient, SplitModel

    try:
        split = SplitModel(weight, bias, link, layout)
    except ValueError as error:
        raise AgreedError(str(error)) from error
    return split, SplitGradient(split, layout)


def _prepare(summary: Summary, units: Standardized, dtype: Any) -> Callable[[Batch], Rows]:
    n_classes = len(summary.classes)

    def rows(batch: Batch) -> Rows:
        assert batch.weight is not None
        labels = swap_labels(summary.numbers(batch), n_classes)
        return Rows(units.transform(batch.X.astype(dtype, copy=False)), labels, batch.weight)

    return rows
