"""What the linear estimators share: validating data, training, saving."""

from __future__ import annotations

import copy
import hashlib
import json
import warnings
from abc import ABC, abstractmethod
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from legendretron._internal.init_linear import init_linear
from legendretron._internal.sklearn_compat import check_sample_weight, validates_parameters
from legendretron._internal.validation import check_device
from legendretron.estimators.classes import swap_labels, with_class_weight
from legendretron.estimators.onnx import export_estimator
from legendretron.estimators.persistence import load_estimator, save_estimator
from legendretron.estimators.prediction import LinkPredictor
from legendretron.estimators.restore_on_error import restore_on_error
from legendretron.estimators.standardization import Standardized, Standardizer
from legendretron.estimators.validation_split import validation_split
from legendretron.links import Link
from legendretron.training import History, LinearModel, Sample, TrainingResult, TrainingSettings, as_features, train
from legendretron.training.interrupt import INTERRUPTED

__all__ = ["LinearLinkClassifier"]

#: Parameters that do not change the result; of random_state, the seeds drawn from it count.
_NOT_IDENTIFYING = ("verbose", "checkpoint", "keep_interrupted", "random_state")


def _auto_batch(n_rows: int) -> int:
    """Rows per step: all of up to 64, then 64, and for large data a sixteenth of it up to 256."""
    return min(n_rows, max(64, min(256, n_rows // 16)))


class LinearLinkClassifier(LinkPredictor, ABC):
    """Base of the classifiers that put a link on a linear predictor; not for direct use."""

    history_: History
    n_iter_: int
    _standardized: Standardized

    # the title in the HTML display links to the paper
    _doc_link_module = "legendretron"
    _doc_link_template = "https://arxiv.org/abs/2301.11695"

    # --- for subclasses ---

    @abstractmethod
    def _make_link(self, n_classes: int, generator: torch.Generator, dtype: torch.dtype) -> Link: ...

    def _check_resumed_link(self) -> None:
        """Raise a ``ValueError`` if the parameters now ask for another link than the one that was fitted."""

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
            Weight of each row; non-negative, not all zero. In minibatches weights equal repetitions in expectation
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
                    "set warm_start=False to start again."
                )
            self._train(X, y, weight, classes, self._seed(), resume, int(self.max_epochs))
        return self

    @validates_parameters
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train for one pass over the data, by minibatches at a constant learning rate, from the current weights.

        Features are standardised by the first call's means and deviations.

        Parameters
        ----------
        X, y
            As in :meth:`fit`; not all classes need occur.
        sample_weight : array of shape (n_samples,), optional
            Weight of each row, relative to rows of weight 1 in this or any other call.
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
        if isinstance(self.random_state, Integral):  # used unchanged, as in torch.manual_seed(random_state)
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
            weight = weight / weight.max()  # only ratios matter, and sums must not overflow
        labels = swap_labels(np.searchsorted(classes, y), n_classes)
        generator = torch.Generator().manual_seed(seed)
        start = self._standardized if resume else self._fresh(X, weight, n_classes, generator, dtype)
        if scipy.sparse.issparse(X) and start.mean.any():
            start = start.uncentred()
        if resume:
            self._check_resumed_link()
        # a copy: if training fails, the fitted link must be unchanged
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

        rows = np.flatnonzero(weight > 0)  # rows of weight zero are left out
        validation = None
        if self.early_stopping and not online:
            rows, held_out = validation_split(rows, labels[rows], self.validation_fraction, seed)
            validation = sample(held_out)
        identity = () if self.checkpoint is None else (X, y, weight, model.flat, [seed])
        settings = self._training_settings(identity, generator, len(rows), max_epochs, online)
        result = train(model, sample(rows), settings, validation, start.moments if online else None)
        self.classes_ = classes
        kept = tuple(m.cpu() for m in result.moments) if online and result.moments is not None else None
        w, b, trained = model.take(0)
        self.link_ = trained.cpu().eval().requires_grad_(False)
        self._standardized = Standardized(start.mean, start.scale, w.cpu(), b.cpu(), kept)
        self.coef_, self.intercept_ = self._standardized.folded(X.dtype)
        self.history_ = result.history
        self.n_iter_ = int(result.n_iter[0])
        if result.interrupted or not online:  # one pass over some rows need not converge
            self._report(result)

    def _fresh(
        self, X: Any, weight: np.ndarray, n_classes: int, generator: torch.Generator, dtype: torch.dtype
    ) -> Standardized:
        """The initial linear predictor."""
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
            fingerprint="" if path is None else _fingerprint(self, identity),
            **self._settings(),
        )

    def _report(self, result: TrainingResult) -> None:
        if result.interrupted:
            warnings.warn(INTERRUPTED, stacklevel=4)
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

    # --- saving ---

    def save(self, path: Any) -> None:
        """Write the fitted estimator to one file, safetensors with a JSON header; the write is atomic.

        A model whose weights are not finite raises a ``ValueError``.
        """
        save_estimator(self, path)

    def to_onnx(self, path: Any) -> None:
        """Write the fitted estimator as an ONNX file, to be served without torch or scikit-learn; the write is atomic.

        The model takes ``"X"`` of shape (n, n_features), any ``n >= 1``, in the dtype of ``coef_``, and returns ``"label"``,
        the most probable class of each row, and ``"probabilities"`` in the order of ``classes_``. Classes and feature names
        are also in the metadata. Needs the extra ``export``.
        """
        check_is_fitted(self)
        self._check_weights()
        names = getattr(self, "feature_names_in_", None)
        export_estimator(path, self.coef_, self.intercept_, self.link_, self.classes_, names)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Read what :meth:`save` wrote; anything else, or anything changed since, raises a ``ValueError``.

        Files from any source are safe to load: no code in them is executed, and none takes memory out of proportion to its
        size. For a file in the format of another version, the error names the version that wrote it.
        """
        return load_estimator(path, cls)


def _fingerprint(estimator: BaseEstimator, identity: tuple[Any, ...]) -> str:
    """Digest of what a checkpoint must share with a fit to be resumed: parameters and ``identity`` (data, start, seeds)."""
    parameters = {k: repr(v) for k, v in estimator.get_params(deep=False).items() if k not in _NOT_IDENTIFYING}
    digest = hashlib.sha256(json.dumps(parameters, sort_keys=True).encode())
    for part in identity:
        arrays = (part.data, part.indices, part.indptr) if scipy.sparse.issparse(part) else (part,)
        for array in arrays:
            plain = array.detach().cpu().numpy() if isinstance(array, torch.Tensor) else np.asarray(array)
            plain = plain if plain.dtype.kind in "biuf" else plain.astype(str)
            digest.update(f"{plain.dtype}{plain.shape}".encode())
            digest.update(np.ascontiguousarray(plain).tobytes())
    return digest.hexdigest()
