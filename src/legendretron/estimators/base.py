"""What the linear estimators share: data in, the engine, probabilities out."""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from legendretron._internal.chunks import chunks
from legendretron._internal.init_linear import init_linear
from legendretron._internal.sklearn_compat import check_sample_weight, validates_parameters
from legendretron._internal.validation import check_device
from legendretron.estimators.class_order import swap_classes, swap_labels
from legendretron.estimators.class_weights import with_class_weight
from legendretron.estimators.fingerprint import fingerprint
from legendretron.estimators.restore_on_error import restore_on_error
from legendretron.estimators.standardization import Standardized, Standardizer
from legendretron.estimators.validation_split import validation_split
from legendretron.links import Link
from legendretron.losses import CanonicalLoss
from legendretron.training import History, LinearModel, Sample, TrainingResult, TrainingSettings, as_features, train

__all__ = ["LinearLinkClassifier"]


def _auto_batch(n_rows: int) -> int:
    """Rows a step: all of up to 64, then 64, and for large data a sixteenth of it up to 256."""
    return min(n_rows, max(64, min(256, n_rows // 16)))


class LinearLinkClassifier(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the classifiers that put a link on a linear predictor; not for direct use."""

    classes_: np.ndarray
    coef_: np.ndarray
    intercept_: np.ndarray
    link_: Link
    history_: History
    n_iter_: int
    _standardized: Standardized

    # the title in the HTML display leads to the paper
    _doc_link_module = "legendretron"
    _doc_link_template = "https://arxiv.org/abs/2301.11695"

    # --- what subclasses say ---

    @abstractmethod
    def _make_link(self, n_classes: int, generator: torch.Generator, dtype: torch.dtype) -> Link: ...

    @abstractmethod
    def _settings(self) -> dict[str, Any]:
        """Entries of TrainingSettings that only one of the estimators has."""

    # --- fitting ---

    @validates_parameters
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features)
            Features. Sparse matrices are never made dense.
        y : array of shape (n_samples,)
            Class labels, numbers or strings; at least two classes.
        sample_weight : array of shape (n_samples,), optional
            What each row counts; non-negative, not all zero. In minibatches weights equal repetitions in expectation
            only; with all rows in one batch, or with ``solver="lbfgs"``, exactly.

        Returns
        -------
        self
        """
        with restore_on_error(self):
            resume = self.warm_start and hasattr(self, "_standardized")
            X, y, weight = self._check_data(X, y, sample_weight, reset=not resume)
            classes = np.unique(y)
            if len(classes) < 2:
                raise ValueError(
                    f"fit needs samples of at least 2 classes, but the data contains only one class: {classes[0]!r}."
                )
            if resume and not np.array_equal(classes, self.classes_):
                raise ValueError(
                    f"warm_start needs the classes of the first fit, {self.classes_}, got {classes}; "
                    "set warm_start=False to start anew."
                )
            self._train(X, y, weight, classes, self._seed(), resume, int(self.max_epochs))
        return self

    @validates_parameters
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Go through the data once, by minibatches at a constant rate, from where the model stands.

        Features are standardised by the first call's means and deviations.

        Parameters
        ----------
        X, y
            As in :meth:`fit`; not all classes need be there.
        sample_weight : array of shape (n_samples,), optional
            What each row counts beside one of weight 1 in this or any other call.
        classes : array, optional
            All classes; needed in the first call.

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
            X, y, weight = self._check_data(X, y, sample_weight, reset=first)
            known = np.unique(classes) if first else self.classes_
            if not first and classes is not None and not np.array_equal(np.unique(classes), known):
                raise ValueError(f"classes must be those of the first call, {known}, got {np.unique(classes)}.")
            unknown = np.setdiff1d(y, known)
            if len(unknown):
                raise ValueError(f"y holds labels that are not in classes: {unknown}; classes are {known}.")
            if len(known) < 2:
                raise ValueError(f"classes must hold at least 2 classes, got only one class: {known[0]!r}.")
            calls = 0 if first else int(getattr(self, "n_iter_", 0))
            seed = int(check_random_state(self.random_state).randint(2**31 - 1 - calls)) + calls
            self._train(X, y, weight, known, seed, not first, 1, online=True)
            self.n_iter_ = calls + 1
        return self

    def _seed(self) -> int:
        if isinstance(self.random_state, Integral):  # as it is: what torch.manual_seed(random_state) gives
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _numpy_dtype(self) -> Any:
        return [np.float64, np.float32] if self.dtype is None else np.dtype(self.dtype)

    def _check_data(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> tuple[Any, np.ndarray, np.ndarray]:
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=self._numpy_dtype(), order="C", reset=reset)
        check_classification_targets(y)
        weight = check_sample_weight(sample_weight, X)
        return X, y, with_class_weight(self.class_weight, y, weight)

    def _train(
        self,
        X: Any,
        y: np.ndarray,
        weight: np.ndarray,
        classes: np.ndarray,
        seed: int,
        resume: bool,
        max_epochs: int,
        online: bool = False,
    ) -> None:
        device = check_device(self.device)
        dtype = torch.float32 if X.dtype == np.float32 else torch.float64
        n_classes = len(classes)
        if not online:
            weight = weight / weight.max()  # only ratios matter, and nothing should overflow
        labels = swap_labels(np.searchsorted(classes, y), n_classes)
        generator = torch.Generator().manual_seed(seed)
        start = self._standardized if resume else self._fresh(X, weight, n_classes, generator, dtype)
        if scipy.sparse.issparse(X) and start.mean.any():
            start = start.uncentred()
        # a copy: should training fail, the fitted link must be as it was
        link = copy.deepcopy(self.link_) if resume else self._make_link(n_classes, generator, dtype)
        model = LinearModel(
            start.weight.to(device, dtype).unsqueeze(0), start.bias.to(device, dtype).unsqueeze(0), [link.to(dtype)]
        )
        features = as_features(start.transform(X), dtype, device)

        def sample(rows: np.ndarray) -> Sample:
            def on_device(values: np.ndarray, kind: torch.dtype) -> torch.Tensor:
                return torch.as_tensor(values[rows], dtype=kind, device=device).unsqueeze(0)

            return Sample(
                features,
                torch.as_tensor(rows, device=device).unsqueeze(0),
                on_device(labels, torch.int64),
                on_device(weight, dtype),
                normalise=not online,
            )

        rows = np.flatnonzero(weight > 0)  # a row that counts nothing is not there
        validation = None
        if self.early_stopping and not online:
            rows, held_out = validation_split(rows, labels[rows], self.validation_fraction, seed)
            validation = sample(held_out)
        identity = () if self.checkpoint is None else (X, y, weight, model.flat, [seed])
        settings = self._training_settings(identity, generator, len(rows), max_epochs, online)
        moments = start.moments if online else None
        result = train(model, sample(rows), settings, validation, moments)
        w, b, trained = model.take(0)
        self.classes_ = classes
        self.link_ = trained.cpu().eval().requires_grad_(False)
        kept = tuple(m.cpu() for m in result.moments) if online and result.moments is not None else None
        self._standardized = Standardized(start.mean, start.scale, w.cpu(), b.cpu(), kept)
        coef, intercept = self._standardized.folded()
        self.coef_, self.intercept_ = coef.astype(X.dtype), intercept.astype(X.dtype)
        if not (np.isfinite(self.coef_).all() and np.isfinite(self.intercept_).all()):
            raise ValueError(f"X has features of a size that {X.dtype} cannot hold the coefficients of; scale X first.")
        self.history_ = result.history
        self.n_iter_ = int(result.n_iter[0])
        if result.interrupted or not online:  # one pass over some rows need not converge
            self._report(result)

    def _fresh(
        self, X: Any, weight: np.ndarray, n_classes: int, generator: torch.Generator, dtype: torch.dtype
    ) -> Standardized:
        d = X.shape[1]
        units = Standardizer.fit(X, weight, self.standardize)
        w = torch.zeros(n_classes - 1, d, dtype=dtype)
        b = torch.zeros(n_classes - 1, dtype=dtype)
        if self.init == "paper":
            init_linear(d, generator, w, b)
        return Standardized(units.mean, units.scale, w.T.contiguous(), b)

    def _training_settings(
        self, identity: tuple[Any, ...], generator: torch.Generator, n_rows: int, max_epochs: int, online: bool
    ) -> TrainingSettings:
        batch = _auto_batch(n_rows) if self.batch_size == "auto" else int(self.batch_size)
        path = None if self.checkpoint is None or online else Path(self.checkpoint)
        if path is not None and self.solver != "adam":
            raise ValueError(f"checkpoint needs solver='adam', got solver={self.solver!r}.")
        if path is not None and self.random_state is None:
            raise ValueError("checkpoint needs a random_state, without which a fit cannot be resumed; got None.")
        if path is not None and path.is_dir():
            raise ValueError(f"checkpoint must be the path of a file, but {str(path)!r} is a folder.")
        return TrainingSettings(
            alpha=torch.tensor([float(self.alpha)], dtype=torch.float64),
            learning_rate=torch.tensor([float(self.learning_rate)], dtype=torch.float64),
            generators=[generator],
            solver="adam" if online else self.solver,
            schedule="constant" if online else self.schedule,
            decay=float(self.decay),
            decay_every=int(self.decay_every),
            max_epochs=max_epochs,
            batch_size=batch,
            n_iter_no_change=int(self.n_iter_no_change),
            tol=float(self.tol),
            verbose=int(self.verbose),
            checkpoint=path,
            checkpoint_every=int(self.checkpoint_every),
            keep_interrupted=bool(self.keep_interrupted),
            fingerprint="" if path is None else fingerprint(self, identity),
            **self._settings(),
        )

    def _report(self, result: TrainingResult) -> None:
        if result.interrupted:
            warnings.warn("Training was interrupted; the weights reached so far are kept.", stacklevel=4)
            return
        if bool(result.diverged.any()):
            highest = np.nanmax(result.history["train_loss"])
            warnings.warn(
                f"Training has diverged: the loss has risen to {highest:.3g}, and the model is no better than one that looks "
                f"at no feature. Lower learning_rate, got {self.learning_rate}.",
                ConvergenceWarning,
                stacklevel=4,
            )
        elif not bool(result.converged.all()):
            warnings.warn(
                f"L-BFGS has not converged in {int(result.n_iter.max())} iterations (max_epochs={self.max_epochs}); raise "
                "max_epochs or alpha, or scale the features.",
                ConvergenceWarning,
                stacklevel=4,
            )

    # --- predicting ---

    def linear_predictor(self, X: Any) -> np.ndarray:
        """Predictors ``z`` of shape (n_samples, n_classes - 1), which the link maps to probabilities.

        They belong to the first ``n_classes - 1`` classes against the last one; for two classes, to the second.
        """
        return self._predictor(self._check_features(X))

    def _check_features(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", dtype=self.coef_.dtype, order="C", reset=False)

    def _predictor(self, X: Any) -> np.ndarray:
        z: np.ndarray = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        return z

    def _log_proba_in_parts(self, X: Any) -> Iterator[tuple[slice, np.ndarray]]:
        """Log-probabilities of some rows after others, so that what they take on the way does not grow with the data."""
        # A parameter of the link that is infinite need not show in the probabilities, nor a coefficient in those of sparse
        # rows; all else that is not finite does.
        self._check_weights(only_link=not scipy.sparse.issparse(X))
        for rows in chunks(X.shape[0], len(self.classes_)):
            with torch.no_grad(), np.errstate(over="ignore", invalid="ignore"):  # what comes of it is looked at below
                log_p: np.ndarray = self.link_(torch.as_tensor(self._predictor(X[rows]))).numpy()
            if not np.isfinite(log_p).all():
                self._check_weights()
                row = rows.start + int(np.flatnonzero(~np.isfinite(log_p).all(axis=1))[0])
                raise ValueError(
                    f"row {row} of X has features so large that its probabilities are not finite in {log_p.dtype}; scale X "
                    "as the data of the fit were, or fit again with a lower learning_rate if they were as large."
                )
            yield rows, swap_classes(log_p)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Log-probabilities of shape (n_samples, n_classes), in the order of ``classes_``.

        As all predictions, they are refused with a ``ValueError`` where they would not be finite.
        """
        X = self._check_features(X)
        log_p = np.empty((X.shape[0], len(self.classes_)), dtype=self.coef_.dtype)
        for rows, part in self._log_proba_in_parts(X):
            log_p[rows] = part
        return log_p

    def _check_weights(self, *, only_link: bool = False) -> None:
        of_link = [p.detach().reshape(-1) for p in self.link_.parameters()]
        weights = [torch.cat(of_link).numpy()] if of_link else []  # one small look instead of many
        if not only_link:
            weights += [self.coef_, self.intercept_]
        if not all(np.isfinite(values).all() for values in weights):
            raise ValueError(
                "coef_, intercept_ or the parameters of link_ are not finite, so the fit has diverged; fit again with a "
                "lower learning_rate, or with scaled features."
            )

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of shape (n_samples, n_classes), in the order of ``classes_``."""
        log_p = self.predict_log_proba(X)
        p: np.ndarray = np.exp(log_p, out=log_p)
        return p

    def predict(self, X: Any) -> np.ndarray:
        """Most probable class of each sample."""
        X = self._check_features(X)
        places = np.empty(X.shape[0], dtype=np.intp)
        for rows, part in self._log_proba_in_parts(X):
            places[rows] = part.argmax(axis=1)
        labels: np.ndarray = self.classes_[places]
        return labels

    def decision_function(self, X: Any) -> np.ndarray:
        """Confidence in each class: log-probabilities (n_samples, n_classes), or log-odds (n_samples,) for two classes."""
        log_p = self.predict_log_proba(X)
        return log_p if log_p.shape[1] > 2 else log_p[:, 1] - log_p[:, 0]

    @property
    def link_classes_(self) -> np.ndarray:
        """Classes in the order of ``link_`` and ``loss_``: that of ``classes_``, but for two classes the second first."""
        check_is_fitted(self)
        classes: np.ndarray = swap_classes(self.classes_)
        return classes

    @property
    def loss_(self) -> CanonicalLoss:
        """The learned loss, if the learned link is canonical."""
        check_is_fitted(self)
        try:
            return CanonicalLoss(self.link_)
        except ValueError as error:
            raise AttributeError(str(error)) from error

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # --- saving ---

    def save(self, path: Any) -> None:
        """Write the fitted estimator to one file, safetensors with a JSON header; whole or not at all.

        A model whose weights are not finite is refused with a ``ValueError``.
        """
        from legendretron.estimators.persistence import save_estimator

        save_estimator(self, path)

    def to_onnx(self, path: Any) -> None:
        """Write the fitted estimator as an ONNX file, to be served without torch or scikit-learn; whole or not at all.

        The file takes ``"X"`` of shape (n, n_features), any ``n >= 1``, in the dtype of ``coef_``, and gives ``"label"``, the
        likeliest class of each row, and ``"probabilities"`` in the order of ``classes_``. Classes and feature names are
        also in its metadata. Needs the extra ``export``.
        """
        from legendretron.estimators.onnx import export_estimator

        check_is_fitted(self)
        self._check_weights()
        export_estimator(self, path)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Read what :meth:`save` wrote; anything else, or anything changed since, is refused with a ``ValueError``.

        Files are safe to load wherever they come from: nothing in them is run, and none takes more memory than its own size
        justifies. A file in the format of another version is refused with the name of the version that wrote it.
        """
        from legendretron.estimators.persistence import load_estimator

        return load_estimator(cls, path)
