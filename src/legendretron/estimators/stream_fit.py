"""A fit of rows that are read in batches, pass by pass, in bounded memory, by one process or by several."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from legendretron._internal.parameters import ParameterError, spell
from legendretron._internal.validation import check_device, check_integer
from legendretron.estimators.fit_data import FitData, swap_classes, swap_labels
from legendretron.estimators.linear_fit import (
    fit_rows,
    initial_noise,
    make_plan,
    make_sample,
    make_start,
    set_fitted,
    set_tuning,
    warn_unless_converged,
)
from legendretron.estimators.resuming import ChosenStrengths, fingerprint
from legendretron.estimators.settings import (
    checkpoint_path,
    choose,
    draw_seed,
    held_out_share,
    make_problem,
    training_settings,
)
from legendretron.estimators.standardization import Standardizer
from legendretron.estimators.stream_data import Shard, join_rows, map_shards, scan_shards
from legendretron.links import LabelNoise, Link
from legendretron.preprocessing.drift import UsualRanges
from legendretron.streaming import Source
from legendretron.streaming.scan import merge_summaries
from legendretron.training import LinearModel, Sample, as_features
from legendretron.training.checkpoint import CheckpointStore
from legendretron.training.engine import train_batches
from legendretron.training.layout import JointError, Layout
from legendretron.training.stream_batches import Rows, StreamBatches
from legendretron.tuning.table import Tuning

#: Rows that strengths are chosen on, and bytes of their features at most.
SAMPLE_ROWS = 100_000
_SAMPLE_BYTES = 2**28
#: Bytes of the features in the window in which rows are shuffled, and its rows at most; of sparse rows.
_WINDOW_BYTES, _WINDOW_ROWS, _SPARSE_ROWS = 2**26, 2**20, 2**16
#: Rows held out for early stopping at most: they are in memory.
_MOST_HELD_OUT = 100_000


ModelMaker = Callable[[Tensor, Tensor, Link], LinearModel]


def _make_model(weight: Tensor, bias: Tensor, link: Link) -> LinearModel:
    return LinearModel(weight.unsqueeze(0), bias.unsqueeze(0), [link])


def fit_source(
    estimator: Any,
    source: Source,
    layout: Layout | None = None,
    *,
    n_shards: int | None = None,
    store: CheckpointStore | None = None,
    checkpoint_steps: int | None = None,
    skip_bad_rows: int = 0,
    buffer_rows: int | None = None,
    sample_rows: int = SAMPLE_ROWS,
    make_model: ModelMaker = _make_model,
) -> None:
    """Fit an estimator to a source, by this process or by all of a layout: each calls this, and has the result afterwards.

    Parameters
    ----------
    estimator, source
        The same on all processes, each of which reads its shards.
    layout : Layout, optional
        Which part of the work is this process's; all of it if not given.
    n_shards : int, optional
        Parts that the rows are divided into; one for each group of processes that reads the same rows, if not given.
    store : CheckpointStore, optional
        Where checkpoints of several processes go.
    checkpoint_steps : int, optional
        Steps between two checkpoints, in place of one every 10 epochs.
    skip_bad_rows, buffer_rows, sample_rows
        As in :meth:`~legendretron.LegendreTronClassifier.fit_stream`; the buffer is that of a shard.
    make_model : callable
        Makes the model from weight ``(d, K)``, bias ``(K,)`` and link.
    """
    alone = layout is None
    layout = Layout.alone(check_device(estimator.device)) if layout is None else layout
    try:
        check_streamable(estimator, alone=alone)
        n_shards = layout.n_data if n_shards is None else check_integer("n_shards", n_shards, 1)
        if n_shards < layout.n_data:
            raise ValueError(
                f"n_shards must be at least {layout.n_data}, so that every process has rows, got {n_shards}."
            )
        if checkpoint_steps is not None:
            check_integer("checkpoint_steps", checkpoint_steps, 1)
        fit = StreamFit(
            estimator, source, layout, n_shards=n_shards, skip_bad_rows=skip_bad_rows, buffer_rows=buffer_rows,
            sample_rows=sample_rows,
        )  # fmt: skip
        if alone and fit.fits_in_sample:
            fit.fit_in_memory()
            return
        fit.prepare(make_model)
    except ValueError as error:
        if alone:
            raise
        raise JointError(str(error)) from error  # all processes have found it
    fit.train(store, checkpoint_steps)


def check_streamable(estimator: Any, *, alone: bool = True) -> None:
    """Raise a ``ValueError`` for parameters that need all rows in memory, or that several processes cannot follow."""
    if estimator.solver == "lbfgs":
        raise ParameterError(
            "solver",
            "cannot be 'lbfgs', which needs all rows at once; give 'auto' or 'adam'.",
        )
    if estimator._has_fixed_link:
        raise ValueError("a fixed link needs a solver that uses all rows at once; call fit on a sample of the rows.")
    if estimator.warm_start:
        raise ValueError("warm_start=True does not apply to fit_stream; leave it out, or go on with partial_fit.")
    if not (estimator.cv is None or isinstance(estimator.cv, Integral)):
        raise ValueError(
            "cv must be None or a number of folds of the sample on which penalties are chosen, got "
            f"{estimator.cv!r}: a splitter needs all rows."
        )
    if alone:
        return
    if estimator.checkpoint is not None:
        raise ValueError(
            f"checkpoint={estimator.checkpoint!r} is for one process; leave it out: fit_torchrun has a checkpoint of its "
            "own, and Ray keeps those of fit_ray."
        )
    if not isinstance(estimator.random_state, Integral):
        raise ValueError(
            f"random_state must be a number, so that all processes draw the same, got {estimator.random_state!r}."
        )


class StreamFit:
    """The fit of an estimator to a source; every process of the layout makes one, and has the fitted estimator at the end.

    It begins with the first pass over the rows. Then come :meth:`prepare` and :meth:`train`, or :meth:`fit_in_memory`.
    Parameters are those of :func:`fit_source`.
    """

    def __init__(
        self,
        estimator: Any,
        source: Source,
        layout: Layout,
        *,
        n_shards: int,
        skip_bad_rows: int,
        buffer_rows: int | None,
        sample_rows: int,
    ) -> None:
        self.estimator, self.layout, self.buffer_rows = estimator, layout, buffer_rows
        skip_bad_rows = check_integer("skip_bad_rows", skip_bad_rows, 0)
        sample_rows = check_integer("sample_rows", sample_rows, 1)
        if buffer_rows is not None:
            self.buffer_rows = check_integer("buffer_rows", buffer_rows, 0)
        path = checkpoint_path(estimator)  # checked before the table is read
        dtype = None if estimator.dtype is None else np.dtype(estimator.dtype)
        summaries, factors = scan_shards(source, estimator.class_weight, skip_bad_rows, n_shards, layout, dtype)
        self.summary = summary = merge_summaries(summaries)
        if summary.lost:
            classes = f"class{'es' if len(summary.lost) > 1 else ''} {', '.join(map(repr, summary.lost))}"
            warnings.warn(f"all rows of {classes} are bad and were left out.", stacklevel=5)
        if len(summary.classes) < 2:
            only = summary.classes.tolist()[0]
            raise ValueError(f"a fit needs rows of at least 2 classes, but the source has only one: {only!r}.")
        self.seed = draw_seed(estimator.random_state)
        self.dtype = summary.dtype if dtype is None else dtype
        share = min(held_out_share(estimator.early_stopping), _MOST_HELD_OUT / summary.n_rows)
        seed = self.seed % 2**63
        self.shards = [
            Shard(source, (number, n_shards), summary, part.n_rows, part.n_skipped, factors, seed, share, self.dtype)
            for number, part in enumerate(summaries)
        ]
        self.tuned = not estimator._strengths().fixed
        self.sample_rows = sample_rows
        if self.tuned and not summary.sparse:
            self.sample_rows = min(sample_rows, max(1, _SAMPLE_BYTES // (8 * summary.n_features)))
        standardized = estimator.standardize
        mean = np.zeros(summary.n_features) if summary.sparse or not standardized else summary.mean
        self.units = Standardizer(mean, summary.scale if standardized else np.ones(summary.n_features))
        self.saved_choice = None if path is None else ChosenStrengths(path, self._identify())

    @property
    def fits_in_sample(self) -> bool:
        """Whether strengths are to be chosen, and all rows are read into memory for it: they are better fitted there."""
        return self.tuned and self.summary.n_rows <= self.sample_rows

    def fit_in_memory(self) -> None:
        """Fit as in memory; for one shard."""
        (shard,), classes = self.shards, self.summary.classes
        rows, _ = replace(shard, held_out=0.0).gather(1.0)
        self._set_names()
        data = FitData(rows.x, classes[rows.labels], rows.weights, classes)
        fit_rows(self.estimator, data, self.seed)
        self._set_skipped()

    def _set_names(self) -> None:
        summary, estimator = self.summary, self.estimator
        estimator.n_features_in_ = summary.n_features
        estimator.__dict__.pop("feature_names_in_", None)
        if summary.feature_names is not None:
            estimator.feature_names_in_ = np.asarray(summary.feature_names, dtype=object)

    def _set_skipped(self) -> None:
        self.estimator.n_skipped_rows_, self.estimator.skipped_rows_ = self.summary.n_skipped, self.summary.skipped

    def _gather(self) -> Rows | None:
        """Read the rows held out; return the sample that strengths are chosen on, on the first process."""
        summary, estimator, layout = self.summary, self.estimator, self.layout
        self.held: Rows | None = None
        self.sizes = [shard.n_rows for shard in self.shards]
        share = self.sample_rows / summary.n_rows if self.tuned else 0.0
        early_stopping = self.shards[0].held_out > 0.0
        if not (share or early_stopping):
            return None
        sampled, held = {}, {}

        def gather(number: int) -> int:
            sampled[number], held[number] = self.shards[number].gather(min(share, 1.0))
            return len(held[number].labels)

        n_held = map_shards(gather, len(self.shards), layout)
        self.sizes = [size - n for size, n in zip(self.sizes, n_held, strict=True)]
        if early_stopping:
            if not 0 < sum(n_held) < summary.n_rows:
                held_out = held_out_share(estimator.early_stopping)
                reason = f"cannot hold out {held_out:g} of {summary.n_rows} rows; give another share, or leave it out."
                raise ParameterError("early_stopping", reason)
            self.held = join_rows(list(held.values()))
        if not share:
            return None
        parts = {number: part for other in layout.gather_at_first(sampled) for number, part in other.items()}
        return join_rows([parts[number] for number in sorted(parts)]) if parts else None

    def prepare(self, make_model: ModelMaker) -> None:
        """Hold out rows, choose strengths, and make the model by a function of weight ``(d, K)``, bias ``(K,)`` and link."""
        estimator, n_classes, layout = self.estimator, len(self.summary.classes), self.layout
        device = layout.device
        sample = self._gather()
        dtype = torch.float32 if self.dtype == np.float32 else torch.float64
        self.generator = generator = torch.Generator().manual_seed(self.seed)
        self.start = make_start(estimator, self.units, n_classes, generator, dtype)
        before = generator.get_state()
        link = estimator._make_link(n_classes, generator, dtype, self.summary.n_rows)
        noise, found = initial_noise(estimator, n_classes)
        self.tuning = self._choose(sample, dtype, noise) if self.tuned else None
        self.usual = None
        if self.tuned:  # there is a sample
            self.usual = layout.broadcast(None if sample is None else UsualRanges.of(sample.x))
        strengths = estimator._strengths().pair() if self.tuning is None else self.tuning.chosen
        self.plan = plan = make_plan(estimator, link, strengths, self.tuning, noise, found, dtype, fresh=True)
        if plan.is_softmax:
            generator.set_state(before)
        weight, bias = (part.to(device, plan.precision) for part in (self.start.weight, self.start.bias))
        self.model = make_model(weight, bias, plan.link.to(device, plan.precision))

    def _identify(self, *settings: Any) -> str:
        """Fingerprint of the data and of settings beside the estimator's parameters."""
        s = self.summary
        numbers = [self.seed, self.sample_rows, -1 if self.buffer_rows is None else self.buffer_rows, *settings]
        return fingerprint(self.estimator, (s.classes, s.class_weight, s.mean, s.variance, numbers))

    def _choose(self, sample: Rows | None, dtype: torch.dtype, noise: LabelNoise | None) -> Tuning:
        """Strengths, and noise in the labels, chosen on the sample by the first process, for all."""

        def choose_first() -> Tuning | None:
            return None if sample is None else self._choose_on(sample, dtype, noise)

        def choose_for_all() -> Tuning:
            tuning: Tuning = self.layout.broadcast(self.layout.call(choose_first))
            return tuning

        return choose_for_all() if self.saved_choice is None else self.saved_choice.load_or(choose_for_all)

    def _choose_on(self, sample: Rows, dtype: torch.dtype, noise: LabelNoise | None) -> Tuning:
        estimator, classes = self.estimator, self.summary.classes
        missing = np.setdiff1d(np.arange(len(classes)), sample.labels)
        if len(missing):
            raise ValueError(
                f"the sample of {len(sample.labels)} rows on which penalties are chosen has none of class "
                f"{classes[missing].tolist()[0]!r}; raise sample_rows, or give {spell('alpha')} and "
                f"{spell('link_alpha')}."
            )
        features = as_features(self.units.transform(sample.x), dtype, self.layout.device)
        data = FitData(sample.x, classes[sample.labels], sample.weights, classes).normalize()
        problem = make_problem(estimator, features, data, self.seed, noise)
        return choose(problem, estimator._strengths())

    def _validation(self) -> Sample | None:
        """The rows that this process holds out, in memory."""
        if self.held is None:
            return None
        device, precision = self.layout.device, self.plan.precision
        features = as_features(self.units.transform(self.held.x), precision, device)
        labels = swap_labels(self.held.labels, len(self.summary.classes))
        return make_sample(features, np.arange(len(labels)), labels, self.held.weights, precision, device)

    def _batches(self, batch_size: int, endless: bool) -> StreamBatches:
        summary, plan, sizes = self.summary, self.plan, self.sizes
        precision = np.dtype(np.float32 if plan.precision == torch.float32 else np.float64)
        row_bytes = summary.n_features * precision.itemsize
        window = _SPARSE_ROWS if summary.sparse else min(_WINDOW_ROWS, max(1, _WINDOW_BYTES // row_bytes))
        if self.buffer_rows is not None:
            window = self.buffer_rows
        shuffle, generators = self.buffer_rows != 0, [self.generator]
        if len(sizes) > 1:
            seeds = [int(torch.randint(2**63 - 1, (), generator=self.generator)) for _ in sizes]
            generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        passes = {
            # what fits into the window is shuffled there, as rows in memory are
            number: self.shards[number].read_passes(self.units, precision, shuffle=shuffle and sizes[number] > window)
            for number in self.layout.list_shards(len(sizes))
        }
        return StreamBatches(
            passes, sizes, batch_size, window=window, generators=generators, shuffle=shuffle, endless=endless,
            n_features=summary.n_features, sparse=summary.sparse, dtype=plan.precision, device=self.layout.device,
        )  # fmt: skip

    def train(self, store: CheckpointStore | None = None, checkpoint_steps: int | None = None) -> None:
        """Train, and keep the result in the estimator; parameters are those of :func:`fit_source`."""
        estimator, plan, n_rows = self.estimator, self.plan, sum(self.sizes)
        settings = training_settings(estimator, (), self.generator, n_rows, len(self.summary.classes), plan.strengths)
        if settings.max_steps is not None:  # as in memory, but with one pass over all rows at least
            settings = replace(settings, max_steps=max(settings.max_steps, math.ceil(n_rows / settings.batch_size)))
        settings = replace(
            settings,
            checkpoint=settings.checkpoint if store is None else store,
            checkpoint_steps=checkpoint_steps,
            fingerprint=self._identify(*plan.strengths, *self.sizes),
            verbose=settings.verbose if self.layout.first else 0,
        )
        observed = swap_classes(self.summary.class_weight)
        result = train_batches(
            self.model,
            self._batches(settings.batch_size, endless=settings.max_steps is not None),
            settings,
            torch.as_tensor(observed / observed.sum()).unsqueeze(0),
            self._validation(),
            layout=self.layout,
            show_rows=True,
        )
        if self.saved_choice is not None:
            self.saved_choice.remove()
        self._set_names()
        set_fitted(estimator, self.model, result, plan, self.summary.classes, observed, n_rows, self.start, self.dtype)
        set_tuning(estimator, self.tuning, plan)
        estimator._usual, estimator._baseline = self.usual, None
        self._set_skipped()
        if self.layout.first:
            warn_unless_converged(estimator, result)
