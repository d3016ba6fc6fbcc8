"""A classifier of tables with text, dates and gaps: an encoder and an estimator, in one file."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from legendretron._internal.extras import import_extra
from legendretron._internal.labels import check_no_missing, similar_words
from legendretron._internal.sklearn_compat import HasMethods, validates_parameters
from legendretron.estimators.base import LinearLinkClassifier
from legendretron.estimators.legendretron import LegendreTronClassifier
from legendretron.estimators.onnx import estimator_model, write_model
from legendretron.estimators.saved_table_classifier import load_table_classifier, save_table_classifier
from legendretron.preprocessing import TableEncoder
from legendretron.preprocessing.onnx_nodes import prepend_columns

__all__ = ["TableClassifier"]


class TableClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of data frames with text, dates and gaps.

    It is ``make_pipeline(TableEncoder(), LegendreTronClassifier())``, and in addition it can be saved to one file and
    exported to ONNX, both with what the encoder has learned. ``legendretron fit`` writes it for tables that hold more than
    numbers.

    Parameters
    ----------
    estimator : LegendreTronClassifier or MultinomialLogisticClassifier, default=None
        What is fitted to the encoded table; ``LegendreTronClassifier()`` if None.
    encoder : TableEncoder, default=None
        What encodes it; ``TableEncoder()`` if None.

    Attributes
    ----------
    estimator_ : LegendreTronClassifier or MultinomialLogisticClassifier
        The fitted estimator. The names of its coefficients are ``estimator_.feature_names_in_``, such as ``"sex=female"``.
    encoder_ : TableEncoder
        The fitted encoder.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_features_in_, feature_names_in_
        Of the table.

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"age": [30, None, 50, 20] * 10, "city": ["Rome", "Bern", "Rome", None] * 10})
    >>> clf = TableClassifier(LegendreTronClassifier("softmax", alpha=0.01)).fit(frame, [0, 1, 0, 1] * 10)
    >>> clf.predict(pandas.DataFrame({"age": [None], "city": ["Bern"]})).tolist()
    [1]
    >>> clf.estimator_.feature_names_in_.tolist()
    ['age', 'age is missing', 'city=Bern', 'city=Rome', 'city is missing']
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict_proba", "to_onnx"]), None],
        "encoder": [HasMethods(["fit", "transform", "to_dict"]), None],
    }

    estimator_: LinearLinkClassifier
    encoder_: TableEncoder
    classes_: np.ndarray
    n_features_in_: int
    feature_names_in_: np.ndarray

    def __init__(self, estimator: Any = None, encoder: Any = None) -> None:
        self.estimator = estimator
        self.encoder = encoder

    @validates_parameters
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the encoder, and the estimator to what it returns.

        Parameters
        ----------
        X : data frame, pyarrow table, or array of shape (n_samples, n_features)
            The table.
        y : array of shape (n_samples,)
            Class labels. Those that differ only by case or white space are different, with a warning.
        sample_weight, groups : arrays of shape (n_samples,), optional
            As in the ``fit`` of the estimator. Means and frequent categories do not depend on weights.

        Returns
        -------
        self
        """
        check_no_missing(y)
        encoder = TableEncoder() if self.encoder is None else clone(self.encoder)
        estimator = LegendreTronClassifier() if self.estimator is None else clone(self.estimator)
        encoder.fit(X)
        estimator.fit(_named(encoder, X), y, sample_weight=sample_weight, groups=groups)
        if words := similar_words(estimator.classes_, "y has labels"):
            warnings.warn(words, stacklevel=2)
        self._take(estimator, encoder)
        return self

    @classmethod
    def from_fitted(cls, estimator: LinearLinkClassifier, encoder: TableEncoder) -> Self:
        """Return a fitted classifier from a fitted encoder and an estimator that was fitted to what it returns."""
        check_is_fitted(estimator)
        if estimator.n_features_in_ != len(names := encoder.get_feature_names_out()):
            raise ValueError(
                f"estimator was fitted to {estimator.n_features_in_} features, but encoder returns {len(names)}; fit one to "
                "what the other returns."
            )
        classifier = cls(clone(estimator), clone(encoder))
        classifier._take(estimator, encoder)
        return classifier

    def _take(self, estimator: LinearLinkClassifier, encoder: TableEncoder) -> None:
        self.estimator_, self.encoder_ = estimator, encoder
        self.classes_, self.n_features_in_ = estimator.classes_, encoder.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(encoder, "feature_names_in_"):
            self.feature_names_in_ = encoder.feature_names_in_

    def _check_features(self, X: Any) -> Any:
        """The encoded table, as the estimator takes it."""
        check_is_fitted(self)
        return self.estimator_._check_features(_named(self.encoder_, X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of shape (n_samples, n_classes), in the order of ``classes_``."""
        X = self._check_features(X)
        return self.estimator_._all_parts(X, log=False)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Log-probabilities of shape (n_samples, n_classes), in the order of ``classes_``."""
        X = self._check_features(X)
        return self.estimator_._all_parts(X, log=True)

    def predict(self, X: Any) -> np.ndarray:
        """Most probable class of each row."""
        indices = self.predict_log_proba(X).argmax(axis=1)
        labels: np.ndarray = self.classes_[indices]
        return labels

    def decision_function(self, X: Any) -> np.ndarray:
        """Confidence in each class: log-probabilities (n_samples, n_classes), or log-odds (n_samples,) for two classes."""
        log_p = self.predict_log_proba(X)
        return log_p if log_p.shape[1] > 2 else log_p[:, 1] - log_p[:, 0]

    def save(self, path: Any) -> None:
        """Write the fitted classifier to one file, safetensors with a JSON header; the write is atomic."""
        save_table_classifier(self, path)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Read what :meth:`save` wrote; anything else, or anything changed since, raises a ``ValueError``."""
        return load_table_classifier(path, cls)

    def to_onnx(self, path: Any) -> None:
        """Write encoder and estimator as one ONNX file, to be served without torch or pandas; the write is atomic.

        The model has an input for each column of the table that is not left out, of its name and of shape (n, 1): text for
        categories, the empty text where there is none; for all others numbers in the dtype of ``estimator_.coef_``, NaN
        where there is none, dates as days since 1970-01-01, true and false as 1 and 0. It returns ``"label"`` and
        ``"probabilities"`` in the order of ``classes_``. Needs the extra ``export``.
        """
        check_is_fitted(self)
        fitted = self.estimator_
        fitted._check_weights()
        names = np.array([column.name for column in self.encoder_.columns_], dtype=object)
        model = estimator_model(fitted.coef_, fitted.intercept_, fitted.link_, fitted.classes_, names)
        prepend_columns(model, self.encoder_.columns_, fitted.coef_.dtype, entry="X")
        write_model(path, model)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def _named(encoder: TableEncoder, X: Any) -> Any:
    """The encoded table with its names."""
    pandas = import_extra("pandas", "encoding a table", "cli")
    return pandas.DataFrame(np.asarray(encoder.transform(X)), columns=encoder.get_feature_names_out(), copy=False)
