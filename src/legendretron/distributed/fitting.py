"""The fit of an estimator to a source by several processes, each of which runs this."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from legendretron._internal.validation import check_integer
from legendretron.distributed.checkpoints import CheckpointStore
from legendretron.distributed.layout import Layout
from legendretron.distributed.objective import SharedGradient
from legendretron.distributed.source_shards import Shard, SourceShards, merged, of_shards, scan_shards, window_for
from legendretron.distributed.training import Objective, ShardedState, train_shards
from legendretron.estimators.classes import swap_classes, swap_labels
from legendretron.estimators.fingerprint import fingerprint
from legendretron.estimators.plan import Plan
from legendretron.estimators.restore_on_error import restore_on_error
from legendretron.estimators.standardization import Standardized
from legendretron.estimators.stream_data import StreamData, Taken, balanced_factors, given_factors
from legendretron.estimators.stream_fit import (
    MOST_HELD_OUT,
    SAMPLE_ROWS,
    check_streamable,
    chosen_on,
    sample_size,
    stream_settings,
    take_names,
    units_of,
)
from legendretron.links import LabelNoise
from legendretron.streaming.scan import Summary
from legendretron.streaming.source import Source
from legendretron.training.model import LinearModel
from legendretron.training.row_window import Rows
from legendretron.tuning import Tuning

if TYPE_CHECKING:
    from legendretron.estimators.base import LinearLinkClassifier

__all__ = ["AgreedError", "agreed", "check_estimator", "fit_shards"]

T = TypeVar("T")


class AgreedError(ValueError):
    """Something is wrong that all processes have found, so that none waits for another."""


def agreed(layout: Layout, make: Callable[[], T]) -> T:
    """What a function returns; if it raises a ``ValueError`` on some process, all raise an :class:`AgreedError`."""
    made: T | None = None
    error = ""
    try:
        made = make()
    except (ValueError, OSError) as problem:
        error = str(problem) or repr(problem)
    for found in layout.everyone(error):
        if found:
            raise AgreedError(found)
    return made  # type: ignore[return-value]


def check_estimator(estimator: LinearLinkClassifier) -> None:
    """Raise a ``ValueError`` for parameters that several processes cannot follow."""
    check_streamable(estimator)
    if estimator.keep_interrupted:
        raise ValueError("keep_interrupted=True is not for several processes; leave it out, and keep checkpoints.")
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
        Steps between two checkpoints, in place of ``estimator.checkpoint_every`` epochs.
    skip_bad_rows, sample_rows : int
        As in :meth:`~legendretron.LegendreTronClassifier.fit_stream`.
    """
    try:
        check_estimator(estimator)
        n_shards = layout.n_data if n_shards is None else check_integer("n_shards", n_shards, 1)
        if n_shards < layout.n_data:
            raise ValueError(
                f"n_shards must be at least {layout.n_data}, so that every process has rows, got {n_shards}."
            )
        if checkpoint_steps is not None:
            check_integer("checkpoint_steps", checkpoint_steps, 1)
        seed = estimator._seed()
        factors, summaries = _scanned(source, n_shards, layout, estimator.class_weight, skip_bad_rows)
        summary = merged(summaries)
        if len(summary.classes) < 2:
            only = summary.classes.tolist()[0]
            raise ValueError(f"fit needs rows of at least 2 classes, but the data contains only one class: {only!r}.")
        kind = summary.dtype if estimator.dtype is None else np.dtype(estimator.dtype)
        share = 0.0
        if estimator.early_stopping:
            share = min(float(estimator.validation_fraction), MOST_HELD_OUT / summary.n_rows)
        shards = [
            StreamData(
                Shard(source, number, n_shards), replace(summary, n_rows=own.n_rows, n_skipped=own.n_skipped), factors,
                seed % 2**63, share, kind,
            )
            for number, own in enumerate(summaries)
        ]  # fmt: skip
        wanted = None if estimator._strengths().fixed else sample_size(summary, sample_rows)
        sample, held, sizes = _gathered(shards, layout, wanted)
        if share and not 0 < sum(sizes) < summary.n_rows:
            raise ValueError(
                f"early_stopping cannot hold out validation_fraction={estimator.validation_fraction} of {summary.n_rows} "
                "rows; raise validation_fraction, or set early_stopping=False."
            )
        fit = _Fit(estimator, summary, shards, sizes, held, layout)
        fit.prepare(sample, seed, tuned=wanted is not None)
    except ValueError as error:
        raise AgreedError(str(error)) from error
    fit.train(store, checkpoint_steps)


def _scanned(
    source: Source, n_shards: int, layout: Layout, class_weight: Any, skip_bad_rows: int
) -> tuple[dict[Any, float] | None, list[Summary]]:
    """Factors on the weights of classes, and the summaries of all shards; for balanced classes it takes two passes."""
    factors = given_factors(class_weight)
    if class_weight == "balanced":
        factors = balanced_factors(merged(scan_shards(source, n_shards, layout, None, skip_bad_rows)))
    return factors, scan_shards(source, n_shards, layout, factors, skip_bad_rows)


def _gathered(
    shards: list[StreamData], layout: Layout, wanted: int | None
) -> tuple[Taken | None, dict[int, Taken], list[int]]:
    """A sample of about so many rows, on the first process; rows held out, on each its own; rows of shards to train on."""
    all_rows = sum(data.summary.n_rows for data in shards)
    if wanted is None and not shards[0].held_out:
        return None, {}, [data.summary.n_rows for data in shards]
    sampled: dict[int, Taken] = {}
    held: dict[int, Taken] = {}

    def gather(number: int) -> int:
        data = shards[number]
        part, out = data.gather(None if wanted is None else max(1, round(wanted * data.summary.n_rows / all_rows)))
        if part is not None:
            sampled[number] = part
        if out is None:
            return 0
        held[number] = out
        return len(out.places)

    n_held = of_shards(gather, len(shards), layout)
    sizes = [data.summary.n_rows - n for data, n in zip(shards, n_held, strict=True)]
    if wanted is None:
        return None, held, sizes
    everyone = {number: part for own in layout.at_first(sampled) for number, part in own.items()}
    return shards[0].joined([everyone[number] for number in sorted(everyone)]), held, sizes


class _Fit:
    """What the processes train, and what they make of it."""

    def __init__(
        self,
        estimator: LinearLinkClassifier,
        summary: Summary,
        shards: list[StreamData],
        sizes: list[int],
        held: dict[int, Taken],
        layout: Layout,
    ) -> None:
        self.estimator, self.summary, self.shards = estimator, summary, shards
        self.sizes, self.held, self.layout = sizes, held, layout
        self.kind = shards[0].dtype

    def prepare(self, sample: Taken | None, seed: int, tuned: bool) -> None:
        """Choose strengths, on the first process, and make the model, on each."""
        estimator, summary, layout = self.estimator, self.summary, self.layout
        n_classes, dtype = len(summary.classes), torch.float32 if self.kind == np.float32 else torch.float64
        generator = torch.Generator().manual_seed(seed)
        self.units = units_of(estimator, summary)
        self.start = estimator._fresh(self.units, n_classes, generator, dtype)
        before = generator.get_state()
        link = estimator._make_link(n_classes, generator, dtype, summary.n_rows)
        noise, found = estimator._noise_to_begin_with(n_classes, resume=False, online=False, tuned=tuned)
        self.tuning = self._chosen(sample, dtype, seed, noise) if tuned else None
        strengths = estimator._strengths().pair()
        if self.tuning is not None:
            strengths = self.tuning.chosen.alpha, self.tuning.chosen.link_alpha
        self.plan = estimator._plan_of(link, strengths, self.tuning, noise, found, dtype, anew=True)
        if self.plan.is_softmax:
            generator.set_state(before)
        self.model, self.objective = _model(self.plan, self.start, layout)
        settings = stream_settings(estimator, generator, sum(self.sizes), self.plan.strengths)
        identity = (
            summary.classes, summary.class_weight, summary.mean, summary.variance,
            [seed, *self.plan.strengths, *self.sizes],
        )  # fmt: skip
        self.settings = replace(
            settings,
            fingerprint=fingerprint(estimator, identity),
            verbose=settings.verbose if layout.first else 0,
        )

    def _chosen(self, sample: Taken | None, dtype: torch.dtype, seed: int, noise: LabelNoise | None) -> Tuning:
        """Strengths chosen on the sample by the first process, for all."""
        tuning, error = None, ""
        if self.layout.first:
            assert sample is not None
            try:
                tuning = chosen_on(
                    self.estimator, self.summary, sample, self.units, dtype, self.layout.device, seed, noise
                )
            except ValueError as problem:
                error = str(problem)
        tuning, error = self.layout.from_first((tuning, error))
        if error:
            raise ValueError(error)
        return tuning

    def train(self, store: CheckpointStore | None, checkpoint_steps: int | None) -> None:
        """Train, and keep the result in the estimator."""
        estimator, summary, plan = self.estimator, self.summary, self.plan
        n_classes = len(summary.classes)
        precision = np.dtype(np.float32 if plan.precision == torch.float32 else np.float64)

        def held_rows(held: Taken) -> Rows:
            x = self.units.transform(held.X).astype(precision, copy=False)
            return Rows(x, swap_labels(held.places, n_classes), held.weight)

        def passes(data: StreamData) -> Callable[[int], Generator[Rows]]:
            return data.passes(self.units, precision, shuffle=True)

        class_weight = swap_classes(summary.class_weight)
        state = ShardedState(
            self.model,
            SourceShards(self.shards, self.sizes, self.held, held_rows, passes, window_for(summary, precision)),
            self.settings,
            self.objective,
            self.layout,
            class_weight=class_weight / class_weight.sum(),
            store=store,
            checkpoint_steps=checkpoint_steps,
        )
        result = train_shards(state)
        with restore_on_error(estimator):
            take_names(estimator, summary)
            estimator._keep(
                self.model, result, plan, summary.classes, class_weight, sum(self.sizes), self.start, self.kind
            )
            estimator._tuning = self.tuning
            estimator.n_skipped_rows_, estimator.skipped_rows_ = summary.n_skipped, summary.skipped
        if self.layout.first:
            estimator._report(result)


def _model(plan: Plan, start: Standardized, layout: Layout) -> tuple[LinearModel, Objective]:
    weight, bias = (part.to(layout.device, plan.precision) for part in (start.weight, start.bias))
    link = plan.link.to(layout.device, plan.precision)
    if layout.classes is None:
        model = LinearModel(weight.unsqueeze(0), bias.unsqueeze(0), [link])
        return model, SharedGradient(model, layout)
    from legendretron.distributed.class_parallel import SplitGradient, SplitModel

    split = SplitModel(weight, bias, link, layout)
    return split, SplitGradient(split, layout)
