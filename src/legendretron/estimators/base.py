"""What the linear estimators share: parameters, and their methods for fitting."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from torch import nn

from legendretron._internal.sklearn_compat import restore_on_error, validates_parameters
from legendretron._internal.validation import check_integer
from legendretron.diagnostics.softmax_test import LinkTest
from legendretron.estimators.convex import is_fixed
from legendretron.estimators.fit_data import FitData, apply_class_weight, check_rows
from legendretron.estimators.label_noise import is_learned, tell_noise
from legendretron.estimators.linear import LinearPredictor
from legendretron.estimators.linear_fit import fit_rows
from legendretron.estimators.onnx import LinearLink
from legendretron.estimators.settings import Protocol, Strengths, draw_seed
from legendretron.estimators.stream_fit import SAMPLE_ROWS, fit_source
from legendretron.estimators.votes import fit_votes
from legendretron.links import Link, with_noise
from legendretron.tuning.problem import Candidate
from legendretron.tuning.table import Tuning


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

        Soft labels are fitted as they are, unless they can be votes of annotators and ``label_noise`` is ``"symmetric"`` or
        ``"class-conditional"``: then votes are combined, to predict true labels.

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
            Group of each row, such as a patient. Rows of a group are held out together, when penalties are chosen and for
            early stopping.

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

            def fit(data: FitData) -> None:
                fit_rows(self, data, seed, resume=resume)

            def predict() -> np.ndarray:
                p: np.ndarray = self._predict_all(data.X, log=False)[np.arange(len(data.y)), data.places]
                return p

            if data.copies is None:
                fit(data)
            else:
                combine = is_learned(self.label_noise) and not (self._has_fixed_link or self._strengths().fixed)
                fit_votes(data, data.copies, fit, predict, combine=combine, resume=resume)
        tell_noise(self._noise, stacklevel=3)
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
            fit_rows(self, data._replace(classes=known), seed, resume=not first, online=True)
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
        with (
            restore_on_error(self),
            open_rows(source, **columns, skip_bad_rows=skip_bad_rows, dtype=self.dtype) as rows,
        ):
            fit_source(self, rows, skip_bad_rows=skip_bad_rows, buffer_rows=buffer_rows, sample_rows=sample_rows)
        tell_noise(self._noise, stacklevel=3)
        return self

    @property
    def _has_fixed_link(self) -> bool:
        return is_fixed(getattr(self, "link", None))

    def _options(self) -> dict[str, Any]:
        """What features may be, for scikit-learn's checks."""
        dtype = [np.float64, np.float32] if self.dtype is None else np.dtype(self.dtype)
        return {"accept_sparse": "csr", "dtype": dtype}

    def _refit(self, X: Any, y: np.ndarray, weight: np.ndarray, groups: np.ndarray | None) -> LinearLinkClassifier:
        """See :meth:`LabelQuality._refit`."""
        copied = clone(self).set_params(warm_start=False, checkpoint=None, verbose=0, label_noise=None)
        noise = None if self._noise is None else replace(self._noise, n_classes=len(np.unique(y)))
        choice = Tuning(Candidate(self.alpha_, self.link_alpha_), noise=noise)
        data = FitData(X, y, apply_class_weight(self.class_weight, y, weight), np.unique(y), groups)
        with warnings.catch_warnings():  # the first fit has warned already
            warnings.simplefilter("ignore", ConvergenceWarning)
            fit_rows(copied, data, draw_seed(self.random_state), choice=choice)
        return copied

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

    def _to_module(self) -> nn.Module:
        """See :meth:`LabelQuality._to_module`."""
        self._check_weights()
        noise = None if self._noise is None else self._noise.make_prediction_noise()
        return LinearLink(self.coef_, self.intercept_, with_noise(self.link_, noise))
