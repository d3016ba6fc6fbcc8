"""A classifier of tables with text, dates and gaps: an encoder and an estimator, in one file."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from legendretron._internal.extras import import_extra
from legendretron._internal.fields import OBJECT, check_fields
from legendretron._internal.labels import check_labels, similar_words
from legendretron._internal.sklearn_compat import Classifier, HasMethods, validates_parameters
from legendretron.estimators.legendretron import LegendreTronClassifier, PaperLegendreTronClassifier
from legendretron.estimators.multinomial import MultinomialLogisticClassifier
from legendretron.estimators.network import LegendreNetClassifier
from legendretron.estimators.onnx import write_model
from legendretron.estimators.persistence import SavedModel, part_from_state, part_to_state
from legendretron.preprocessing import TableEncoder
from legendretron.preprocessing.onnx_nodes import prepend_columns


def _forward(name: str) -> Any:
    """A method that encodes the table and calls that of the estimator; it is there only if the estimator has it."""

    def has(classifier: Any) -> bool:
        getattr(classifier._estimator(), name)  # an error names the estimator
        return True

    @functools.wraps(getattr(LegendreTronClassifier, name))
    def method(self: TableClassifier, X: Any, *more: Any, **options: Any) -> Any:
        encoded = self.encode(X)  # raises an error if nothing is fitted
        answer = getattr(self.estimator_, name)(encoded, *more, **options)
        return self if answer is self.estimator_ else answer

    return available_if(has)(method)


class TableClassifier(SavedModel, Classifier, BaseEstimator):  # type: ignore[misc]
    """Classifier for data frames with text, dates and missing values.

    It works as ``make_pipeline(TableEncoder(), LegendreTronClassifier())``. In addition, it has the attributes and methods of
    the fitted classifier, and is saved to one file, or exported to ONNX, together with the encoder. ``legendretron fit``
    writes it for tables with columns that are not numeric.

    Parameters
    ----------
    estimator : classifier, default=None
        Classifier for the encoded table; ``LegendreTronClassifier()`` if None. Any scikit-learn classifier works, but only
        ``LegendreTronClassifier``, ``LegendreNetClassifier`` and ``MultinomialLogisticClassifier`` can be saved and exported.
    encoder : TableEncoder, default=None
        Encoder of the table; ``TableEncoder()`` if None.

    Attributes
    ----------
    estimator_ : classifier
        The fitted estimator.
    encoder_ : TableEncoder
        The fitted encoder.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    coef_, intercept_, alpha_, link_alpha_, link_, link_classes_, loss_, history_, tuning_, n_iter_
        Those of ``estimator_``, if it has them. ``get_feature_names_out()`` names the columns of ``coef_``.
    noise_rate_, noise_rate_interval_, noise_matrix_, predicts_recorded_, set_calibration_
        Those of ``estimator_``, if it has them.
    n_features_in_, feature_names_in_
        Those of the table.

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"age": [30, None, 50, 20] * 10, "city": ["Rome", "Bern", "Rome", None] * 10})
    >>> clf = TableClassifier(LegendreTronClassifier("softmax", alpha=0.01)).fit(frame, [0, 1, 0, 1] * 10)
    >>> clf.predict(pandas.DataFrame({"age": [None], "city": ["Bern"]})).tolist()
    [1]
    >>> clf.get_feature_names_out().tolist()
    ['age', 'age is missing', 'city=Bern', 'city=Rome', 'city is missing']
    >>> clf.coef_.shape
    (1, 5)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "encoder": [HasMethods(["fit", "transform", "get_feature_names_out"]), None],
    }

    estimator_: Any
    encoder_: TableEncoder
    classes_: np.ndarray
    n_features_in_: int
    feature_names_in_: np.ndarray

    def __init__(self, estimator: Any = None, encoder: Any = None) -> None:
        self.estimator = estimator
        self.encoder = encoder

    def __getattr__(self, name: str) -> Any:
        """Attributes of the fitted estimator, such as ``coef_``; for names that this object does not have."""
        if not name.endswith("_") or name.startswith("_") or name in ("n_features_in_", "feature_names_in_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if "estimator_" not in vars(self):
            raise AttributeError(f"this {type(self).__name__} has no {name}: it is not fitted.")
        return getattr(self.estimator_, name)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with ``deep``, also those of estimator and encoder, even if these are None."""
        params: dict[str, Any] = super().get_params(deep)
        for name, make in _DEFAULTS.items():
            if deep and params[name] is None:
                params |= {f"{name}__{key}": value for key, value in make().get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also those of estimator and encoder, as in ``encoder__max_categories=20``."""
        for name, make in _DEFAULTS.items():
            if params.get(name, getattr(self, name)) is None and any(key.startswith(f"{name}__") for key in params):
                params[name] = make()
        return super().set_params(**params)

    @validates_parameters
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the encoder, then the estimator to the encoded table.

        Parameters
        ----------
        X : data frame, pyarrow table, or array of shape (n_samples, n_features)
            The table.
        y : array of shape (n_samples,)
            Class labels. Labels that differ only by case or white space are different classes; this gives a warning.
        sample_weight, groups : arrays of shape (n_samples,), optional
            Passed to the ``fit`` of the estimator. The encoder ignores weights.

        Returns
        -------
        self
        """
        check_labels(y)
        if not is_classifier(self._estimator()):
            raise ValueError(f"estimator must be a classifier, got {self._estimator()!r}.")
        encoder = TableEncoder() if self.encoder is None else clone(self.encoder)
        estimator = LegendreTronClassifier() if self.estimator is None else clone(self.estimator)
        given = {"sample_weight": sample_weight, "groups": groups}
        given = {name: value for name, value in given.items() if value is not None}
        if unknown := [name for name in given if not has_fit_parameter(estimator, name)]:
            raise ValueError(f"{unknown[0]} is given, but fit of {type(estimator).__name__} takes none; leave it out.")
        encoder.fit(X)
        estimator.fit(_encode(encoder, X), y, **given)
        if words := similar_words(estimator.classes_, "y has labels"):
            warnings.warn(words, stacklevel=2)
        self._set_fitted(estimator, encoder)
        return self

    @classmethod
    def from_fitted(cls, estimator: Any, encoder: TableEncoder) -> Self:
        """Return a fitted classifier from a fitted encoder and an estimator that was fitted to what it returns."""
        check_is_fitted(estimator)
        if estimator.n_features_in_ != len(names := encoder.get_feature_names_out()):
            raise ValueError(
                f"estimator was fitted to {estimator.n_features_in_} features, but encoder returns {len(names)}; fit one to "
                "what the other returns."
            )
        classifier = cls(clone(estimator), clone(encoder))
        classifier._set_fitted(estimator, encoder)
        return classifier

    def _set_fitted(self, estimator: Any, encoder: TableEncoder) -> None:
        self.estimator_, self.encoder_ = estimator, encoder
        self.classes_, self.n_features_in_ = estimator.classes_, encoder.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(encoder, "feature_names_in_"):
            self.feature_names_in_ = encoder.feature_names_in_

    def _estimator(self) -> Any:
        """The fitted estimator, or before that the one to be fitted."""
        if "estimator_" in vars(self):
            return self.estimator_
        return LegendreTronClassifier() if self.estimator is None else self.estimator

    def encode(self, X: Any) -> Any:
        """Return the encoded table as a data frame, whose columns are those of ``coef_``."""
        check_is_fitted(self)
        return _encode(self.encoder_, X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the encoded columns, in the order of ``coef_``; see the method of :class:`TableEncoder`."""
        check_is_fitted(self)
        return self.encoder_.get_feature_names_out(input_features)

    # of a table that is encoded first; to calibrate sets or judge labels, the encoder is not fitted again
    _check_features = _forward("_check_features")
    predict = _forward("predict")
    predict_proba = _forward("predict_proba")
    predict_log_proba = _forward("predict_log_proba")
    decision_function = _forward("decision_function")
    linear_predictor = _forward("linear_predictor")
    predict_set = _forward("predict_set")
    calibrate_sets = _forward("calibrate_sets")
    predict_proba_observed = _forward("predict_proba_observed")
    label_quality = _forward("label_quality")
    label_posterior = _forward("label_posterior")
    find_label_issues = _forward("find_label_issues")

    # --- saving ---

    def to_state(self) -> dict[str, Any]:
        """See :meth:`SavedModel.to_state`."""
        if type(self.encoder_) is not TableEncoder:
            raise ValueError(f"encoder must be a TableEncoder to be saved, got a {type(self.encoder_).__name__}.")
        return {"encoder": self.encoder_.to_state(), "estimator": part_to_state(self.estimator_, *ENCODED)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """See :meth:`SavedModel.from_state`."""
        check_fields("the state", state, {"encoder": OBJECT, "estimator": OBJECT})
        encoder = TableEncoder.from_state(state["encoder"])
        estimator: Any = part_from_state(state["estimator"], *ENCODED)
        names = encoder.get_feature_names_out()
        if not np.array_equal(getattr(estimator, "feature_names_in_", ()), names):
            raise ValueError(f"the features of the estimator must be what the encoder returns, {', '.join(names[:8])}.")
        classifier = cls.from_fitted(estimator, encoder)
        if not encoder.categorical and encoder.max_categories == TableEncoder().max_categories:
            classifier.encoder = None  # as it was, or just the same
        return classifier

    @available_if(lambda self: hasattr(self._estimator(), "to_onnx"))
    def to_onnx(self, path: Any) -> None:
        """Export encoder and estimator to one ONNX file, which can be served without torch or pandas.

        The ONNX model has one input of shape (n, 1) for each column that is used, with the name of the column. Categories are
        strings, empty if missing. All other columns are numbers in the dtype of the encoded table, NaN if missing: dates are
        days since 1970-01-01, booleans 1 and 0. The outputs are ``"label"`` and ``"probabilities"``, in the order of
        ``classes_``. The file is written atomically. Needs the extra ``export``.
        """
        check_is_fitted(self)
        names = np.array([column.name for column in self.encoder_.columns_], dtype=object)
        model = self.estimator_._onnx_model(names)
        prepend_columns(model, self.encoder_.columns_, self.estimator_._precision(), entry="X")
        write_model(path, model)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags


#: Estimators that can be saved inside.
ENCODED = (LegendreTronClassifier, PaperLegendreTronClassifier, MultinomialLogisticClassifier, LegendreNetClassifier)
#: What stands for a parameter that is None.
_DEFAULTS: dict[str, Callable[[], BaseEstimator]] = {"estimator": LegendreTronClassifier, "encoder": TableEncoder}


def _encode(encoder: TableEncoder, X: Any) -> Any:
    """The encoded table with its names."""
    pandas = import_extra("pandas", "encoding a table", "tables")
    return pandas.DataFrame(np.asarray(encoder.transform(X)), columns=encoder.get_feature_names_out(), copy=False)
