"""Calibration of a finished classifier's probabilities, by a link learned on its scores."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_val_predict
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
    validate_data,
)

from legendretron._internal.chunks import chunks
from legendretron._internal.columns import quoted
from legendretron._internal.fields import BOOLEAN, OBJECT, array, check_fields, number, one_of, optional
from legendretron._internal.labels import check_labels
from legendretron._internal.parameters import ParameterError
from legendretron._internal.sklearn_compat import (
    HasMethods,
    Interval,
    StrOptions,
    check_sample_weight,
    restore_on_error,
    validates_parameters,
)
from legendretron.calibration.fitting import calibrate
from legendretron.calibration.map import CalibrationMap
from legendretron.datasets.noise import symmetric_transition
from legendretron.estimators.onnx import predictor_model, write_model
from legendretron.estimators.persistence import (
    SHARED_FIELDS,
    SavedModel,
    part_from_state,
    part_to_state,
    shared_from_state,
    shared_to_state,
)
from legendretron.estimators.prediction import ProbabilityClassifier
from legendretron.estimators.saved_classes import classes_from_state, classes_to_state
from legendretron.estimators.scores import ScoreForm, ScoreReader, as_columns, find_classes, score_form
from legendretron.estimators.table_classifier import ENCODED, TableClassifier
from legendretron.links.noise_models import replaced_share, wrong_share
from legendretron.preprocessing.drift import DriftWatch

#: Weights that count as more rows than this are scaled down.
_MOST_ROWS = 1e12

#: Estimators that can be saved inside.
CALIBRATED = (*ENCODED, TableClassifier)
_FIELDS = {
    **SHARED_FIELDS,
    "scores": OBJECT,
    "precision": one_of("float32", "float64"),
    "map": OBJECT,
    "noise_rate": number(0.0, 1.0),
    "cv_results": OBJECT,
    "estimator": optional(OBJECT),
    "estimator_is_frozen": BOOLEAN,
}


class LegendreCalibrator(SavedModel, ProbabilityClassifier):
    r"""Calibrated probabilities from the logits or probabilities of any classifier.

    With scores :math:`x` (logits, or logarithms of probabilities) of a row,

    .. math::

        s = \log\bigl((1 - \epsilon)\,\mathrm{softmax}(\tau x) + \epsilon / C\bigr), \qquad
        p = \mathrm{softmax}(A s + B e^s + b) .

    First the temperature :math:`1 / \tau` is fitted; the floor is :math:`\epsilon = 1 / (4 n + 4)`. One convex problem then
    fits the rest, each part shrunk towards the previous one: a scale and a shape shared by all classes,
    :math:`A = (1 + a) I`, :math:`B = \beta I`; class biases :math:`b` and scales, on the diagonals; and the dependence of a
    class on the scores of the others, off the diagonals. Without :math:`B`, this is structured matrix scaling (Berta and
    others, 2026). Candidates with different penalties, temperature scaling among them, are averaged with weights given by
    their held-out log-loss: the result is close to temperature scaling with 200 rows, and flexible with 5,000.

    As a function of the scores :math:`x`, temperature and floor alone form a canonical link, up to a factor: the gradient of
    :math:`\tfrac{1 - \epsilon}{\tau} \log \sum_k e^{\tau x_k} + \tfrac{\epsilon}{C} \sum_k x_k`. The whole map is canonical
    for two classes with ``order="preserved"``.

    Parameters
    ----------
    estimator : classifier or None, default=None
        Classifier to calibrate. None: ``X`` contains its scores. ``FrozenEstimator(model)``: the fitted model is used as it
        is, and ``X`` contains features of rows it was not trained on. Any other classifier is fitted to all rows, and
        calibrated on cross-validated predictions.
    order : {"any", "preserved"}, default="any"
        ``"any"`` is the most accurate. ``"preserved"`` never changes the ranking of the classes in a row: all classes share
        one increasing function of :math:`s`. Differences at the level of rounding, or far below the floor, may become ties.
    input : {"auto", "proba", "logits"}, default="auto"
        Kind of the scores. ``"auto"``: probabilities if no entry is negative and all rows sum to 1 within 0.02, or if a
        single column lies between 0 and 1; logits otherwise. Log-probabilities are logits.
    strength : float or "auto", default="auto"
        Strength of the penalty, in units of :math:`(1000 / n)^{3/4} (C / 10)^{1/2}` times that of structured matrix scaling.
        ``"auto"``: chosen by cross-validation. Infinite: only temperature, scale and shape are fitted.
    label_noise : {"symmetric"}, float or None, default=None
        Share of labels in the calibration set that were replaced by another class at random; predictions are for the true
        labels. ``"symmetric"``: estimated, which needs many predictions that are nearly certain.
    classes : array-like or None, default=None
        Labels of the score columns, sorted, if some do not occur in ``y``. None: the labels in ``y``, or 0 to
        ``n_classes - 1`` if ``y`` contains only some of these.
    cv : int, default=5
        Number of folds. The random assignment of rows to folds is the same in every fit. With many rows, only as many folds
        are fitted as are needed to hold out 3,000 rows (2,000 with more than 40 classes).

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, in the order of the score columns.
    map_ : CalibrationMap
        The fitted map from logits to log-probabilities, a torch module.
    temperature_ : float
        :math:`1 / \tau`.
    noise_rate_ : float
        Share of wrong labels, given or estimated; 0 without ``label_noise``.
    cv_results_ : dict of ndarray
        Candidates: ``strength`` (in multiples of that of structured matrix scaling), ``shape`` (whether the shared scale and
        shape are learned), held-out ``log_loss`` (NaN if ``strength`` is given), and ``weight`` in the average.
    set_calibration_ : SetCalibration
        The rows that :meth:`predict_set` is calibrated on, and the coverage that they guarantee.
    estimator_ : classifier
        The classifier whose probabilities are calibrated, if ``estimator`` is given.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    With more than 32 classes, a class depends on the scores of the others through the 32 directions of largest variance. A
    weight counts as a number of rows; weights that sum to less than the number of rows are scaled up to it.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=600)
    >>> logits = 5.0 * (np.eye(3)[y] + rng.normal(size=(600, 3)))  # five times too large
    >>> calibrator = LegendreCalibrator().fit(logits[:300], y[:300])
    >>> calibrator.predict_proba(logits[300:]).shape
    (300, 3)
    >>> calibrator.temperature_ > 2
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict_proba"]), HasMethods(["fit", "decision_function"]), None],
        "order": [StrOptions({"any", "preserved"})],
        "input": [StrOptions({"auto", "proba", "logits"})],
        "strength": [
            StrOptions({"auto"}),
            Interval(Real, 0, None, closed="neither"),
            Interval(Real, 0, None, closed="right"),
        ],
        "label_noise": [StrOptions({"symmetric"}), Interval(Real, 0, 1, closed="left"), None],
        "classes": ["array-like", None],
        "cv": [Interval(Integral, 2, None, closed="left")],
    }

    map_: CalibrationMap
    noise_rate_: float
    cv_results_: dict[str, np.ndarray]
    _form: ScoreForm
    _dtype: str  #: of the scores

    def __init__(
        self,
        estimator: Any = None,
        *,
        order: str = "any",
        input: str = "auto",
        strength: float | str = "auto",
        label_noise: float | str | None = None,
        classes: Any = None,
        cv: int = 5,
    ) -> None:
        self.estimator = estimator
        self.order = order
        self.input = input
        self.strength = strength
        self.label_noise = label_noise
        self.classes = classes
        self.cv = cv

    # --- fitting ---

    @validates_parameters
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the map on rows that the classifier was not trained on.

        Parameters
        ----------
        X : array of shape (n_samples, n_classes), (n_samples, 1) or (n_samples,)
            Scores; a single column contains those of the second of two classes. With ``estimator``, its features.
        y : array of shape (n_samples,)
            Class labels.
        sample_weight : array of shape (n_samples,), optional
            Weight of each row; non-negative, not all zero.

        Returns
        -------
        self
        """
        with restore_on_error(self):
            check_labels(y)
            if self.estimator is None:
                X, y = self._check_scores(X, y)
                check_classification_targets(y)
                weight = check_sample_weight(sample_weight, X)
                scores, kind, known = X, self.input, self.classes
            else:
                if self.classes is not None or self.input != "auto":
                    raise ValueError(
                        f"classes={self.classes!r} and input={self.input!r} are about scores in X; with an estimator, X "
                        "holds its features: leave classes and input out."
                    )
                scores, y, weight, kind, known = self._scores_of_estimator(X, y, sample_weight)
            self._fit_scores(scores, y, weight, kind, known)
        return self

    def _check_scores(self, X: Any, *y: Any, **options: Any) -> Any:
        """Return what scikit-learn's ``validate_data`` does; where a score is infinite, say what to do."""
        try:
            return validate_data(self, as_columns(X), *y, dtype=[np.float64, np.float32], **options)
        except ValueError as error:
            if "infinity" not in str(error):
                raise
            raise ValueError(
                f"{error} If X holds logarithms of probabilities, of which some are zero, give the probabilities, np.exp(X)."
            ) from error

    def _scores_of_estimator(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, str, Any]:
        """Scores of rows that the estimator was not trained on, which is trained here if it is not frozen."""
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_consistent_length(X, y)
        check_classification_targets(y)
        weight = check_sample_weight(
            sample_weight, y.reshape(-1, 1) if y.dtype.kind in "fiub" else np.zeros((len(y), 1))
        )
        method = self._score_method(self.estimator)
        if isinstance(self.estimator, FrozenEstimator):
            check_is_fitted(self.estimator.estimator)
            self.estimator_ = self.estimator
            scores = getattr(self.estimator, method)(X)
        else:
            weighted = sample_weight is not None and has_fit_parameter(self.estimator, "sample_weight")
            params = {"sample_weight": weight} if weighted else {}

            with DriftWatch():  # rows of a fold need not be like the others
                scores = cross_val_predict(clone(self.estimator), X, y, method=method, params=params or None)
            self.estimator_ = clone(self.estimator).fit(X, y, **params)
        self._take_names()
        kind = "proba" if method == "predict_proba" else "logits"
        return np.asarray(as_columns(scores), dtype=np.float64), y, weight, kind, self.estimator_.classes_

    def _take_names(self) -> None:
        """Features are those of the estimator."""
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))

    @staticmethod
    def _score_method(estimator: Any) -> str:
        return "predict_proba" if hasattr(estimator, "predict_proba") else "decision_function"

    def _fit_scores(self, scores: np.ndarray, y: np.ndarray, weight: np.ndarray, kind: str, known: Any) -> None:
        form = score_form(scores, kind)
        n_classes = max(2, form.columns)
        classes = find_classes(y, n_classes, known)
        absent = np.setdiff1d(classes, y)
        if known is None and len(absent):
            warnings.warn(
                f"y has no row of {quoted(absent)}; the score columns are assumed to be {quoted(classes)}. For "
                "classes without rows, only temperature and shared shape are fitted. Pass classes= if the columns are "
                "others, or add rows.",
                stacklevel=3,
            )
        kept = np.flatnonzero(weight > 0)
        labels = torch.from_numpy(np.searchsorted(classes, y[kept]))
        weight = weight[kept]
        total = float(weight.sum())
        if not np.isfinite(total):
            raise ValueError(f"sample_weight must have a finite sum, got {total}.")
        counted = min(max(total, float(len(kept))), _MOST_ROWS)
        weight = weight / weight.max()  # first, so that sums neither underflow nor overflow
        weight = weight * (counted / weight.sum())
        replaced: float | None = 0.0
        if self.label_noise is not None:
            replaced = None if self.label_noise == "symmetric" else replaced_share(float(self.label_noise), n_classes)
            if replaced is not None and replaced >= 1.0:
                raise ParameterError(
                    "label_noise",
                    f"must be below {(n_classes - 1) / n_classes:.3g}, at which labels of {n_classes} classes carry "
                    f"no information, got {self.label_noise!r}.",
                )
        read = ScoreReader(form)(torch.as_tensor(scores[kept]))
        found = calibrate(
            read,
            labels,
            torch.from_numpy(weight),
            strength=None if self.strength == "auto" else float(self.strength),
            ordered=self.order == "preserved",
            n_folds=int(self.cv),
            replaced=replaced,
        )
        self.classes_, self._form, self._dtype = classes, form, str(np.asarray(scores).dtype)
        self.map_ = found.map
        self.noise_rate_ = wrong_share(found.replaced, n_classes)
        self.cv_results_ = {
            "strength": found.strengths,
            "shape": found.shaped,
            "log_loss": np.full(len(found.strengths), np.nan) if found.held_out is None else found.held_out,
            "weight": found.weights,
        }
        self._sets = None
        if found.fold_maps:
            tested = np.flatnonzero(found.fold < len(found.fold_maps))
            p = found.cross_fit(read)[tested].exp().numpy()
            self._calibrate(p, labels.numpy()[tested], weight[tested], out_of_fold=True)

    @property
    def temperature_(self) -> float:
        """Temperature by which logits are divided."""
        check_is_fitted(self)
        return 1.0 / float(self.map_.inverse_temperature)

    # --- predicting ---

    def _check_features(self, X: Any) -> np.ndarray:
        """The scores: of the estimator, or given."""
        check_is_fitted(self)
        if self.estimator is not None:
            method = self._score_method(self.estimator_)
            return np.asarray(as_columns(getattr(self.estimator_, method)(X)), dtype=np.float64)
        scores: np.ndarray = self._check_scores(X, reset=False)
        self._form.check(scores)
        return scores

    def _precision(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    def _predict_parts(self, X: Any, *, log: bool, out: np.ndarray | None = None) -> Iterator[tuple[slice, np.ndarray]]:
        reader = ScoreReader(self._form)
        for rows in chunks(len(X), len(self.classes_)):
            with torch.no_grad():
                log_p = self.map_(reader(torch.from_numpy(np.array(X[rows]))))
            yield rows, (log_p if log else log_p.exp()).numpy()

    # --- prediction sets ---

    def _held_out_proba(self, X: Any, y: np.ndarray, weight: np.ndarray, cv: Any, groups: Any) -> np.ndarray:
        """See :meth:`ProbabilityClassifier._held_out_proba`."""
        if cv is not None or groups is not None:
            raise ValueError(f"cv={cv!r}: a calibrator takes rows that it was not fitted to; leave cv and groups out.")
        return self.predict_proba(X)

    def _noise_matrices(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """See :meth:`ProbabilityClassifier._noise_matrices`; the share of wrong labels has no interval."""
        if self.noise_rate_ == 0.0:
            return None, None
        return symmetric_transition(len(self.classes_), self.noise_rate_), None

    # --- elsewhere ---

    def to_torch(self) -> CalibrationMap:
        """Return a copy of the map as a torch module, to be placed after a network.

        It maps logits, or log-probabilities, of shape ``(..., C)`` to log-probabilities, with classes in the order of
        ``classes_``. It computes in double precision unless converted, for example by ``.float()``.
        """
        check_is_fitted(self)
        return copy.deepcopy(self.map_)

    def to_onnx(self, path: Any) -> None:
        """Export the map to an ONNX file, which can be served without torch or scikit-learn.

        The ONNX model takes ``"X"``, scores of the same kind and dtype as in ``fit``, for any number of rows. It returns
        ``"label"``, the most probable class of each row, and ``"probabilities"`` in the order of ``classes_``. An
        ``estimator`` is not included: export it separately. The file is written atomically. Needs the extra ``export``.
        """
        check_is_fitted(self)
        example = torch.full(
            (2, self._form.columns), 1.0 / max(2, self._form.columns), dtype=getattr(torch, self._dtype)
        )
        names = getattr(self, "feature_names_in_", None) if self.estimator is None else None
        scores_to_log_proba = torch.nn.Sequential(ScoreReader(self._form), self.to_torch())
        write_model(path, predictor_model(scores_to_log_proba, example, self.classes_, names))

    # --- saving ---

    def to_state(self) -> dict[str, Any]:
        """See :meth:`SavedModel.to_state`."""
        # what is inside is no parameter in a file, but the fitted estimator
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name != "estimator"}
        if self.classes is not None:
            parameters["classes"] = classes_to_state(np.asarray(self.classes))
        inner, frozen = getattr(self, "estimator_", None), False
        if isinstance(inner, FrozenEstimator):
            inner, frozen = inner.estimator, True
        shared = shared_to_state(self, parameters)
        return {
            **shared,
            "feature_names_in": shared["feature_names_in"] if inner is None else None,  # else those of the estimator
            "scores": self._form._asdict(),
            "precision": self._dtype,
            "map": dict(self.map_.state_dict()),
            "noise_rate": float(self.noise_rate_),
            "cv_results": {name: np.asarray(values) for name, values in self.cv_results_.items()},
            "estimator": None if inner is None else part_to_state(inner, *CALIBRATED),
            "estimator_is_frozen": frozen,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """See :meth:`SavedModel.from_state`."""
        check_fields("the state", state, _FIELDS)
        classes, form = classes_from_state(state["classes"]), ScoreForm.from_state(state["scores"])
        objects: dict[str, Any] = {}
        inner: Any = None
        if state["parameters"].get("classes") is not None:
            objects["classes"] = classes_from_state(state["parameters"]["classes"])
        if state["estimator"] is not None:
            inner = part_from_state(state["estimator"], *CALIBRATED)
            if not (form.is_proba and form.columns == len(classes) and state["feature_names_in"] is None):
                raise ValueError("scores and feature_names_in must be those of the probabilities of estimator.")
            if inner.classes_.dtype != classes.dtype or not np.array_equal(inner.classes_, classes):
                raise ValueError(f"classes must be those of estimator, {inner.classes_}, got {classes}.")
            objects["estimator"] = FrozenEstimator(inner) if state["estimator_is_frozen"] else clone(inner)
        elif state["estimator_is_frozen"]:
            raise ValueError("estimator must be present if estimator_is_frozen is true.")
        if max(2, form.columns) != len(classes):
            raise ValueError(
                f"columns must be {len(classes)}, the number of classes, or 1 for two, got {form.columns}."
            )
        calibrator: Self = shared_from_state(cls, state, form.columns, **objects)
        calibrator._form, calibrator._dtype = form, state["precision"]
        calibrator.map_ = CalibrationMap.from_state(state["map"], len(classes), ordered=calibrator.order == "preserved")
        calibrator.noise_rate_, results = float(state["noise_rate"]), state["cv_results"]
        n = len(results["weight"]) if hasattr(results.get("weight"), "__len__") else 0
        columns = dict.fromkeys(("strength", "log_loss", "weight"), array(n, finite=False))
        check_fields("cv_results", results, {**columns, "shape": array(n, dtype="bool")})
        calibrator.cv_results_ = {name: results[name].numpy() for name in ("strength", "shape", "log_loss", "weight")}
        if inner is not None:
            calibrator.estimator_ = calibrator.estimator if state["estimator_is_frozen"] else inner
            calibrator._take_names()
        return calibrator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is not None:
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags
