"""What the linear estimators share: checking data, choosing strengths, and training."""

from __future__ import annotations

import copy
import math
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from legendretron._internal.parameters import ParameterError, spell
from legendretron._internal.sklearn_compat import restore_on_error, validates_parameters
from legendretron._internal.start import init_linear
from legendretron._internal.validation import check_device, check_integer
from legendretron.diagnostics.softmax_test import LinkTest
from legendretron.estimators.convex import check_fixed_fit, fit_convex, fixed_link, has_convex_solver, is_fixed
from legendretron.estimators.fit_data import FitData, apply_class_weight, check_rows, validation_split
from legendretron.estimators.label_noise import (
    FittedNoise,
    how_to_find_noise,
    is_learned,
    make_learned_noise,
    read_label_noise,
)
from legendretron.estimators.linear import LinearPredictor
from legendretron.estimators.onnx import LinearLink, predictor_model
from legendretron.estimators.resuming import ChosenStrengths, fingerprint
from legendretron.estimators.settings import LEARNING_RATE, Plan, Protocol, Strengths, batch_size_for, draw_seed
from legendretron.estimators.standardization import Standardized, Standardizer
from legendretron.estimators.stream_fit import SAMPLE_ROWS, fit_source
from legendretron.estimators.votes import fit_votes
from legendretron.links import LabelNoise, Link, NoisyLink, SoftmaxLink, clean_link, with_noise
from legendretron.training import LinearModel, Sample, TrainingResult, TrainingSettings, as_features, train
from legendretron.training.features import Features
from legendretron.training.threads import threads_for
from legendretron.tuning.folds import make_folds
from legendretron.tuning.problem import Candidate, TuningProblem, link_candidates
from legendretron.tuning.rules import link_folds_for, steps_for
from legendretron.tuning.table import Tuning
from legendretron.tuning.tune import tune

#: Strengths and learning rate of ``partial_fit``, which has no held-out rows to choose them on.
_ONLINE_ALPHA, _ONLINE_RATE = 1e-4, 0.01
#: Most iterations of L-BFGS and of the convex solvers with ``max_epochs="auto"``; and for a fixed link, where the gradient
#: must certify the minimum.
MOST_ITERATIONS, _FIXED_ITERATIONS = 1000, 10_000
#: Epochs between two checkpoints.
_CHECKPOINT_EPOCHS = 10


class LinearLinkClassifier(LinearPredictor):
    """Base of the classifiers that put a link on a linear predictor; not for direct use."""

    n_skipped_rows_: int
    skipped_rows_: tuple[str, ...]

    # the title in the HTML display links to the paper
    _doc_link_module = "legendretron"
    _doc_link_template = "https://arxiv.org/abs/2301.11695"

    def __init__(
        self,
        *,
        alpha: float | str = "auto",
        solver: str = "auto",
        learning_rate: float | str = "auto",
        max_epochs: int | str = "auto",
        batch_size: int | str = "auto",
        early_stopping: bool | float = False,
        tol: float = 1e-8,
        class_weight: dict[Any, float] | str | None = None,
        warm_start: bool = False,
        standardize: bool = True,
        device: str = "cpu",
        dtype: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
        checkpoint: Any = None,
        cv: Any = None,
        label_noise: Any = None,
    ) -> None:
        self.alpha = alpha
        self.solver = solver
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.early_stopping = early_stopping
        self.tol = tol
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.standardize = standardize
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.cv = cv
        self.label_noise = label_noise

    # --- for subclasses ---

    @abstractmethod
    def _make_link(self, n_classes: int, generator: torch.Generator, dtype: torch.dtype, n_rows: int) -> Link: ...

    @abstractmethod
    def _strengths(self) -> Strengths:
        """What the parameters say about the penalties."""

    def _protocol(self) -> Protocol:
        """How it is trained, beyond what the parameters say."""
        return Protocol()

    def _is_centered(self) -> bool:
        """Whether the penalty on the link acts on its distance from softmax."""
        return True

    def _check_resumed_link(self) -> None:
        """Raise a ``ValueError`` if the parameters now ask for another link than the one that was fitted."""

    # --- fitting ---

    @validates_parameters
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the model, and choose the strengths of the penalties if they are not given.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features)
            Features. Sparse matrices are never made dense.
        y : array of shape (n_samples,), or array or data frame of shape (n_samples, n_classes)
            Class labels, numbers or strings, of at least two classes. Or soft labels: probabilities of the classes, which sum
            to 1 in each row; classes are then the column names of a data frame, or 0 to ``n_classes - 1`` for an array.
        sample_weight : array of shape (n_samples,), optional
            Non-negative weights, not all zero. A weight of 2 is equivalent to repeating the row: exactly if all rows are
            in one batch, as with ``solver="lbfgs"``, and in expectation with minibatches.
        groups : array of shape (n_samples,), optional
            Group of each row, such as a patient. Rows of a group are held out together when penalties are chosen.

        Returns
        -------
        self
        """
        with restore_on_error(self):
            resume = self.warm_start and hasattr(self, "_standardized")
            data = check_rows(self, X, y, sample_weight, groups, reset=not resume, **self._options())
            if resume and not np.array_equal(data.classes, self.classes_):
                raise ValueError(
                    f"warm_start needs the classes of the first fit, {self.classes_}, got {data.classes}; "
                    "set warm_start=False to start again."
                )
            seed = draw_seed(self.random_state)

            def train(data: FitData, find_noise: str | None) -> None:
                self._train(data, seed, resume, find_noise=find_noise)

            def predict() -> np.ndarray:
                p: np.ndarray = self._predict_all(data.X, log=False)[np.arange(len(data.y)), data.places]
                return p

            combine = data.copies is not None and (
                how_to_find_noise(self.label_noise, self.class_weight) == "if it helps"
                and not (self._has_fixed_link or self._strengths().fixed)
            )
            fit_votes(self, data, train, predict, combine=combine, resume=resume)
        return self

    @validates_parameters
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Continue training for one pass over the data, with minibatches and a constant learning rate.

        Features are standardized by the means and standard deviations of the first call.

        Parameters
        ----------
        X, y
            As in :meth:`fit`; some classes may be absent.
        sample_weight : array of shape (n_samples,), optional
            Weight of each row. Weights are on the same scale in all calls.
        classes : array, optional
            All classes; required in the first call.

        Returns
        -------
        self
        """
        with restore_on_error(self):
            first = not hasattr(self, "_standardized")
            if first and classes is None:
                raise ValueError("classes must be given in the first call of partial_fit.")
            if self.class_weight == "balanced":
                raise ValueError("class_weight='balanced' needs all data at once; give partial_fit a dict of weights.")
            data = check_rows(self, X, y, sample_weight, partial=True, reset=first, **self._options())
            known = np.unique(classes) if first else self.classes_
            if not first and classes is not None and not np.array_equal(np.unique(classes), known):
                raise ValueError(f"classes must be those of the first call, {known}, got {np.unique(classes)}.")
            unknown = np.setdiff1d(data.classes, known)
            if len(unknown):
                raise ValueError(f"y holds labels that are not in classes: {unknown}; classes are {known}.")
            if len(known) < 2:
                raise ValueError(f"classes must contain at least 2 classes, got only one class: {known.tolist()[0]!r}.")
            calls = 0 if first else int(getattr(self, "n_iter_", 0))
            seed = int(check_random_state(self.random_state).randint(2**31 - 1 - calls)) + calls
            self._train(data._replace(classes=known), seed, not first, online=True)
            self.n_iter_ = calls + 1
        return self

    @validates_parameters
    def fit_stream(
        self,
        source: Any,
        *,
        target: str | None = None,
        weight: str | None = None,
        features: Sequence[str] | None = None,
        drop: Sequence[str] = (),
        skip_bad_rows: int = 0,
        buffer_rows: int | None = None,
        sample_rows: int = SAMPLE_ROWS,
    ) -> Self:
        """Fit the model to a table that is read in batches and need not fit into memory.

        The first pass finds the classes, means and standard deviations. Penalties are chosen on a sample of the rows; a table
        that is no larger than the sample is fitted as in :meth:`fit`. Training, also of logistic regression, then uses
        minibatches: at least one pass over all rows, in shuffled order, while a thread reads the next rows. Whether a row
        is in the sample, or held out for early stopping, depends only on its number in the table and on ``random_state``.

        Parameters
        ----------
        source : path, list of paths, tuple of arrays, data set, iterable or Source
            Numeric tables: files, folders or patterns of Parquet, CSV, TSV or LIBSVM text; arrays ``(X, y)`` or
            ``(X, y, sample_weight)``; or anything else that :func:`~legendretron.streaming.as_source` takes, such as a torch
            ``DataLoader``.
        target, weight : str, optional
            Columns of the labels and of the weights, for files and data sets.
        features, drop : sequence of str, optional
            Columns to use as features, by default all other columns, and columns to leave out.
        skip_bad_rows : int, default=0
            How many rows may be skipped because values are missing, infinite or unreadable; one more is an error.
            ``n_skipped_rows_`` is the number of skipped rows, and ``skipped_rows_`` says where the first ones are.
        buffer_rows : int, default=None
            Rows kept in memory for shuffling, by default 64 MiB of them. 0 trains in the order of the table, which should
            then be shuffled already.
        sample_rows : int, default=100_000
            Rows to choose penalties on; fewer if they would take more than 256 MiB. Rare classes are sampled more often, and
            weighted down accordingly.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_iris
        >>> from legendretron import LegendreTronClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> batches = [(X[start : start + 40], y[start : start + 40]) for start in range(0, 150, 40)]
        >>> clf = LegendreTronClassifier(alpha=1e-3, link_alpha=1e-3, random_state=0).fit_stream(batches)
        >>> clf.score(X, y) > 0.95
        True
        """
        from legendretron.datasets.streams import open_rows

        columns: dict[str, Any] = {"target": target, "weight": weight, "features": features, "drop": drop}
        skip_bad_rows = check_integer("skip_bad_rows", skip_bad_rows, 0)
        with restore_on_error(self), open_rows(source, **columns, skip_bad_rows=skip_bad_rows) as rows:
            fit_source(self, rows, skip_bad_rows=skip_bad_rows, buffer_rows=buffer_rows, sample_rows=sample_rows)
        return self

    def _held_out_share(self) -> float:
        """Share of the rows that early stopping holds out."""
        given = self.early_stopping
        return float(0.1 * given if isinstance(given, bool | np.bool_) else given)

    @property
    def _has_fixed_link(self) -> bool:
        return is_fixed(getattr(self, "link", None))

    def _options(self) -> dict[str, Any]:
        """What features may be, for scikit-learn's checks."""
        dtype = [np.float64, np.float32] if self.dtype is None else np.dtype(self.dtype)
        return {"accept_sparse": "csr", "dtype": dtype}

    def _train(
        self,
        data: FitData,
        seed: int,
        resume: bool,
        online: bool = False,
        choice: Tuning | None = None,
        find_noise: str | None = None,
    ) -> None:
        device = check_device(self.device)
        path = self._checkpoint_path(online)  # checked before strengths are chosen, which takes long
        data = data if online else data.normalize()
        X, labels, weight, n_classes = data.X, data.labels, data.weight, data.n_classes
        dtype = torch.float32 if X.dtype == np.float32 else torch.float64
        fixed = None
        if self._has_fixed_link:
            check_fixed_fit(self, online)
            fixed = fixed_link(self.link, n_classes, dtype, device)
        generator = torch.Generator().manual_seed(seed)
        if resume:
            start = self._standardized
        else:
            units = Standardizer.fit(X, weight, self.standardize, getattr(self, "feature_names_in_", None))
            start = self._make_start(units, n_classes, generator, dtype)
        if scipy.sparse.issparse(X) and start.mean.any():
            start = start.move_center()
        if resume:
            self._check_resumed_link()
        features = as_features(start.transform(X), dtype, device)
        rows = data.rows
        before = generator.get_state()
        # a copy: if training fails, the fitted link must be unchanged
        link = copy.deepcopy(self.link_) if resume else self._make_link(n_classes, generator, dtype, len(rows))
        if fixed is not None:  # W and b are trained as those of logistic regression are, by another convex loss
            link = SoftmaxLink(n_classes)
        strengths, tuning = self._strengths(), choice
        tuned = choice is not None or not (strengths.fixed or resume or online)
        noise, found = self._initial_noise(n_classes, resume, online, tuned)
        saved_choice = ChosenStrengths(None)
        if tuned and choice is None:
            trial_features, trial_link = features, fixed
            if fixed is not None:  # single precision is enough to compare strengths, and faster
                trial_features, trial_link = features.single(), copy.deepcopy(fixed).float()
            problem = self._make_problem(trial_features, data, seed, noise, trial_link)
            if find_noise is not None:
                problem = replace(problem, find_noise=find_noise)
            if path is not None:
                folds = [part for fold in problem.folds for part in fold]
                saved_choice = ChosenStrengths(path, fingerprint(self, (X, data.y, weight, [seed], *folds)))
            tuning = saved_choice.load_or(lambda: self._choose(problem, strengths))
        chosen: tuple[float, float]
        if tuning is not None:
            chosen = tuning.chosen
        elif resume:
            chosen = strengths.pair(self.alpha_, self.link_alpha_)
        else:
            chosen = strengths.pair(_ONLINE_ALPHA, _ONLINE_ALPHA)
        usual = self._protocol().schedule == "cosine" and self._protocol().init != "paper"
        # continue from the model scored on held-out rows
        scored = tuning.start if usual and tuning is not None else None
        if scored is not None:
            link = scored.link
        plan = self._make_plan(link, chosen, tuning, noise, found, dtype, fresh=not (resume or online))
        if plan.is_softmax and not isinstance(link, SoftmaxLink):
            generator.set_state(before)
        if plan.precision != dtype:
            features = features.single()
        if resume:
            start = start.rescale(1.0 / plan.temperature)

        def sample(rows: np.ndarray) -> Sample:
            def on_device(values: np.ndarray, kind: torch.dtype) -> torch.Tensor:
                return torch.as_tensor(values[rows], dtype=kind, device=device).unsqueeze(0)

            return Sample(
                features,
                torch.as_tensor(rows, device=device).unsqueeze(0),
                on_device(labels, torch.int64),
                on_device(weight, plan.precision),
                normalize=not online,
            )

        first_weight, first_bias = (start.weight, start.bias) if scored is None else (scored.weight, scored.bias)
        model = LinearModel(
            first_weight.to(device, plan.precision).unsqueeze(0),
            first_bias.to(device, plan.precision).unsqueeze(0),
            [plan.link.to(plan.precision)],
        )
        validation = None
        if self.early_stopping and not online:
            rows, held_out = validation_split(rows, labels[rows], self._held_out_share(), seed, data.copies)
            validation = sample(held_out)
        identity = (X, data.y, weight, model.flat, [seed, *plan.strengths])
        settings = self._training_settings(identity, generator, len(rows), n_classes, plan.strengths, online)
        if fixed is not None or (plan.is_softmax and self._by_convex_solver(online) and has_convex_solver(plan.noise)):
            guess = None if tuning is None else tuning.logistic
            most = _FIXED_ITERATIONS if fixed is not None else MOST_ITERATIONS
            if self.max_epochs != "auto" and not strengths.has_link:  # passes that suit a link say nothing about them
                most = int(self.max_epochs)
            result = fit_convex(model, sample(rows), settings, guess, plan.noise, max_iter=most, fixed=fixed)
        else:
            result = train(model, sample(rows), settings, validation, start.moments if online else None)
        saved_choice.remove()
        observed = np.bincount(labels[rows], weight[rows], n_classes)
        moments = tuple(m.cpu() for m in result.moments) if online and result.moments is not None else None
        self._set_fitted(model, result, plan, data.classes, observed, len(rows), start, X.dtype, moments, fixed)
        if not (resume or online):
            self._set_tuning(tuning, plan)
        if not online:  # one pass over some rows need not converge
            self._warn_unless_converged(result)

    # --- choosing ---

    def _make_problem(
        self, features: Features, data: FitData, seed: int, noise: LabelNoise | None, fixed: Link | None
    ) -> TuningProblem:
        """The problem for which strengths are chosen: features as in training, folds, and how links are made and trained."""
        rows, groups, n_classes = data.rows, data.groups, data.n_classes
        folds = make_folds(self.cv, data.X, data.y, rows, groups, seed, data.copies)
        if not folds and (self.cv is not None or groups is not None):
            which = "groups" if groups is not None else f"cv={self.cv!r}"
            raise ValueError(
                f"{which} never holds out a row of a class that the training rows have, so penalties cannot be "
                f"chosen; leave it out, or give {spell('alpha')} and {spell('link_alpha')}."
            )
        if not folds and is_learned(self.label_noise):
            raise ParameterError(
                "label_noise",
                "needs held-out rows of classes that the other rows have too, and there are too few; give a rate, "
                f"or leave it out, got {self.label_noise!r}.",
            )
        batch = min(self._batch_size(len(rows)), len(rows))
        steps = steps_for(len(rows), n_classes)
        if self.max_epochs != "auto" and self.solver != "lbfgs":
            steps = int(self.max_epochs) * math.ceil(len(rows) / batch)
        return TuningProblem(
            features,
            torch.as_tensor(data.labels, device=check_device(self.device)),
            n_classes,
            data.weight,
            folds,
            groups is not None or not (self.cv is None or isinstance(self.cv, Integral)),
            lambda source, kind: self._make_link(n_classes, source, kind, len(rows)),
            seed=seed,
            standardized=bool(self.standardize),
            verbose=int(self.verbose),
            penalize_intercept=self._protocol().penalize_intercept,
            symmetric_logistic=self._protocol().symmetric,
            centred=self._is_centered(),
            link_folds=None if self.cv is not None or groups is not None else link_folds_for(len(rows)),
            known_noise=noise,
            find_noise="never" if fixed is not None else how_to_find_noise(self.label_noise, self.class_weight),
            fixed_link=fixed,
            batch_size=batch,
            steps=steps,
            learning_rate=LEARNING_RATE if self.learning_rate == "auto" else float(self.learning_rate),
        )

    def _batch_size(self, n_rows: int) -> int:
        return batch_size_for(n_rows) if self.batch_size == "auto" else int(self.batch_size)

    def _choose(self, problem: TuningProblem, strengths: Strengths) -> Tuning:
        """Try out what the parameters leave open."""
        links = link_candidates(strengths.alpha, strengths.link_alpha, strengths.tied) if strengths.has_link else []
        # a strength that is given asks for a learned link
        logistic = not strengths.has_link or (strengths.link_alpha is None and not strengths.tied)
        n_folds, n_rows = max(1, len(problem.folds)), problem.features.n_rows
        with threads_for(2.0 * n_folds * n_rows * problem.features.n_features * (problem.n_classes - 1)):
            return tune(problem, links, logistic=logistic, alpha=strengths.alpha)

    # --- what is trained ---

    def _make_plan(
        self,
        link: Link,
        strengths: tuple[float, float],
        tuning: Tuning | None,
        noise: LabelNoise | None,
        found: FittedNoise | None,
        dtype: torch.dtype,
        *,
        fresh: bool,
    ) -> Plan:
        """What is trained, given what was chosen; ``fresh`` if nothing was trained before."""
        n_classes, precision = link.n_classes, dtype
        if tuning is not None and not tuning.chosen.is_logistic and self.dtype is None and self.solver != "lbfgs":
            precision = torch.float32  # as it was tried out; noise of batches is far above that of rounding
        if tuning is not None and tuning.noise is not None:
            found = FittedNoise(n_classes, tuning.noise, known=False, matrix=tuning.noise_matrix)
            noise = found.make_training_noise()
        link = clean_link(link)  # one that was found by a search has the noise that it was trained with
        alpha, link_alpha = strengths
        if isinstance(link, SoftmaxLink):  # or a link of a user's own that derives from it
            link_alpha = math.inf
        elif fresh and math.isinf(link_alpha):
            link = SoftmaxLink(n_classes)
        return Plan(with_noise(link, noise), (alpha, link_alpha), noise, found, precision)

    def _set_fitted(
        self,
        model: LinearModel,
        result: TrainingResult,
        plan: Plan,
        classes: np.ndarray,
        observed: np.ndarray,
        n_rows: int,
        units: Standardizer,
        dtype: Any,
        moments: tuple[torch.Tensor, ...] | None = None,
        fixed: Link | None = None,
    ) -> None:
        """Set the fitted attributes; ``observed`` are the weights of the labels, ``dtype`` is that of the features."""
        w, b, trained = model.take(0)
        for name in ("gradient_norm_", "converged_", "n_skipped_rows_", "skipped_rows_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        if fixed is not None:
            assert result.largest_gradient is not None
            trained = fixed
            self.gradient_norm_, self.converged_ = float(result.largest_gradient[0]), bool(result.converged[0])
        found, noise = plan.found, plan.noise
        if found is None and noise is not None:
            learned = trained.noise if isinstance(trained, NoisyLink) and noise.learned else noise
            found = FittedNoise.from_noise(learned, observed / observed.sum(), known=not noise.learned, n_rows=n_rows)
        precision = torch.float32 if dtype == np.float32 else torch.float64
        w, b = ((part * plan.temperature).to("cpu", precision) for part in (w, b))
        self.classes_ = classes
        self._noise, self._sets = found, None
        self.link_ = clean_link(trained).to("cpu", precision).eval().requires_grad_(False)
        self._standardized = Standardized(units.mean, units.scale, w, b, moments)
        self.coef_, self.intercept_ = self._standardized.fold_weights(dtype)
        self.alpha_, self.link_alpha_ = map(float, plan.strengths)
        self.history_ = result.history
        self.n_iter_ = int(result.n_iter[0])

    def _set_tuning(self, tuning: Tuning | None, plan: Plan) -> None:
        """Keep what was tried, and calibrate prediction sets on what the chosen candidate has predicted for held-out rows."""
        self._tuning = tuning
        if tuning is None or tuning.held_out is None:
            return
        held_out, tuning.held_out = tuning.held_out, None
        log_p = torch.log_softmax(held_out.log_p.double() * plan.temperature, -1)
        self._calibrate_folds(*(part.cpu().numpy() for part in (log_p, held_out.labels, held_out.weight)))

    def _initial_noise(
        self, n_classes: int, resume: bool, online: bool, tuned: bool
    ) -> tuple[LabelNoise | None, FittedNoise | None]:
        """Label noise to train with, and what is known of it, before strengths are chosen."""
        known = read_label_noise(self.label_noise, n_classes)
        before = self._noise if resume else None
        in_training = is_learned(self.label_noise) and not tuned and not online and self._strengths().fixed
        if before is not None and not before.known and not in_training:
            if known is not None or self.label_noise is None:
                raise ValueError(
                    "training continues with the label noise that was found in the first fit, but label_noise has "
                    "been changed since; set warm_start=False, or clone the estimator, to start over."
                )
            return before.make_training_noise(), before
        if is_learned(self.label_noise) and online:
            raise ValueError(
                f"label_noise={self.label_noise!r} needs all data at once; call fit, or give partial_fit a known rate or "
                "matrix."
            )
        if in_training:
            return make_learned_noise(self.label_noise, n_classes, before), None
        return known, None

    def _make_start(
        self, units: Standardizer, n_classes: int, generator: torch.Generator, dtype: torch.dtype
    ) -> Standardized:
        """The initial linear predictor, in these units."""
        d = len(units.mean)
        w = torch.zeros(n_classes - 1, d, dtype=dtype)
        b = torch.zeros(n_classes - 1, dtype=dtype)
        if self._protocol().init == "paper":
            init_linear(d, generator, w, b)
        return Standardized(units.mean, units.scale, w.T.contiguous(), b)

    def _by_convex_solver(self, online: bool) -> bool:
        """Whether logistic regression is fitted to the minimum, by a solver of its own."""
        return self.solver == "auto" and not online and not self.early_stopping and self._protocol().init != "paper"

    def _checkpoint_path(self, online: bool) -> Path | None:
        path = None if self.checkpoint is None or online else Path(self.checkpoint)
        if path is not None and self.solver == "lbfgs":
            raise ParameterError("checkpoint", f"needs {spell('solver', 'adam')}, got {self.solver!r}.")
        if path is not None and self.random_state is None:
            raise ParameterError(
                "checkpoint", f"needs {spell('random_state')}, without which a fit cannot be resumed; got None."
            )
        if path is not None and path.is_dir():
            raise ParameterError("checkpoint", f"must be the path of a file, but {str(path)!r} is a folder.")
        return path

    def _training_settings(
        self,
        identity: tuple[Any, ...],
        generator: torch.Generator,
        n_rows: int,
        n_classes: int,
        strengths: tuple[float, float],
        online: bool,
    ) -> TrainingSettings:
        batch, path, protocol = self._batch_size(n_rows), self._checkpoint_path(online), self._protocol()
        alpha, link_alpha = strengths
        solver = "lbfgs" if self.solver == "lbfgs" and not online else "adam"
        rate = self.learning_rate
        if rate == "auto":
            rate = _ONLINE_RATE if online else LEARNING_RATE
        max_epochs, max_steps = 1 if online else self.max_epochs, None
        if max_epochs == "auto":
            steps = steps_for(n_rows, n_classes)
            max_epochs = MOST_ITERATIONS if solver == "lbfgs" else math.ceil(steps / math.ceil(n_rows / batch))
            if solver == "adam" and protocol.schedule == "cosine":
                max_steps = steps
        is_logistic = math.isinf(link_alpha)
        return TrainingSettings(
            alpha=torch.tensor([float(alpha)], dtype=torch.float64),
            link_alpha=torch.tensor([0.0 if is_logistic else float(link_alpha)], dtype=torch.float64),
            learning_rate=torch.tensor([float(rate)], dtype=torch.float64),
            generators=[generator],
            solver=solver,
            schedule="constant" if online else protocol.schedule,
            decay=protocol.decay,
            decay_every=protocol.decay_every,
            max_epochs=int(max_epochs),
            max_steps=max_steps,
            batch_size=batch,
            tol=float(self.tol),
            verbose=int(self.verbose),
            checkpoint=path,
            checkpoint_every=_CHECKPOINT_EPOCHS,
            fingerprint="" if path is None else fingerprint(self, identity),
            penalize_intercept=protocol.penalize_intercept,
            symmetric=is_logistic and protocol.symmetric,
            centred=self._is_centered(),
        )

    def _refit(self, X: Any, y: np.ndarray) -> LinearLinkClassifier:
        """See :meth:`LabelQuality._refit`."""
        copied = clone(self).set_params(warm_start=False, checkpoint=None, verbose=0, label_noise=None)
        choice = Tuning(Candidate(self.alpha_, self.link_alpha_))
        if self._noise is not None:
            choice.noise, choice.noise_matrix = self._noise.rates, self._noise.matrix
        weight = apply_class_weight(self.class_weight, y, np.ones(len(y)))
        with warnings.catch_warnings():  # the first fit has warned already
            warnings.simplefilter("ignore", ConvergenceWarning)
            copied._train(FitData(X, y, weight, np.unique(y)), draw_seed(self.random_state), False, choice=choice)
        return copied

    def _warn_unless_converged(self, result: TrainingResult) -> None:
        """Warn if training has diverged or has not converged."""
        if bool(result.diverged.any()):
            highest = np.nanmax(result.history["train_loss"])
            warnings.warn(
                f"Training has diverged: the loss has risen to {highest:.3g}, and the model is no better than one that "
                f"ignores the features. Lower {spell('learning_rate')}, got {self.learning_rate}.",
                ConvergenceWarning,
                stacklevel=4,
            )
        elif not bool(result.converged.all()):
            warnings.warn(
                f"Training has not converged in {int(result.n_iter.max())} iterations "
                f"({spell('max_epochs', self.max_epochs)}); raise {spell('max_epochs')} or {spell('alpha')}, or "
                "scale the features.",
                ConvergenceWarning,
                stacklevel=4,
            )

    # --- after the fit ---

    @property
    def link_test_(self) -> LinkTest:
        """Test whether softmax fits, with the noise that was found, on held-out rows of the best logistic regression."""
        test = None if self._tuning is None else self._tuning.link_test
        if test is None:
            raise AttributeError(
                f"this {type(self).__name__} has no link_test_: learned links were not compared with logistic regression, or "
                "a transition matrix of wrong labels was assumed; see legendretron.diagnostics.link_test."
            )
        return replace(test, classes=self.classes_)

    @property
    def tuning_(self) -> Any:
        """The candidates that were tried, as a pandas data frame, the chosen one first."""
        if self._tuning is None:
            raise AttributeError(
                f"this {type(self).__name__} has no tuning_: its penalties were given, or it is not fitted."
            )
        return self._tuning.to_frame()

    def _onnx_model(self, feature_names: np.ndarray | None) -> Any:
        """The ``onnx.ModelProto``, see :meth:`to_onnx`."""
        self._check_weights()
        module = LinearLink(self.coef_, self.intercept_, with_noise(self.link_, None, self._floor))
        example = torch.zeros(2, self.coef_.shape[1], dtype=module.coef.dtype)
        return predictor_model(module, example, self.classes_, feature_names)
