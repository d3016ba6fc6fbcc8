"""Checks of scikit-learn about the form of the data, of which nothing is left when training begins."""

import pytest


def skip_repeated_forms(check, any_format=True):
    """Skip a check for an estimator that takes long to train, and is like another for which the check is run.

    Formats of sparse matrices are those of sparse arrays: ten of them, with a fit for each. They are all left out unless
    ``any_format``.
    """
    name, options = check.func.__name__, check.keywords
    if name == "check_estimator_sparse_matrix" or (name == "check_estimator_sparse_array" and not any_format):
        pytest.skip("formats of sparse data are checked with quicker estimators")
    if options.get("readonly_memmap") and "X_dtype" not in options:
        pytest.skip("read-only data are checked in single precision, and with quicker estimators in double")
