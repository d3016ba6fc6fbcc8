r"""Probabilities of the true classes of rows whose labels are known, from predictions for rows that a model has not seen.

By Bayes' rule, with the transition matrix :math:`T` of the labels and true probabilities :math:`p`,

.. math:: P(\text{true} = i \mid x, y) = p_i T_{iy} / \sum_k p_k T_{ky}

Here, ``p`` are probabilities of the link, without noise, also where predictions are of recorded labels.

This is right only as far as ``p`` is. For labels that look wrong, it depends on how small the least probabilities are, which
is where models are worst: penalties make them too timid, and where a model does not fit it is much too bold. So ``p`` is
calibrated first, on the labels of the rows as they are:

.. math:: p \to (1 - \delta)\, p^\tau + \delta\, p^{0.15 \tau}

each power divided by its sum. The temperature :math:`\tau` and the share :math:`\delta` of predictions that are to be doubted
have the greatest likelihood of the labels, :math:`\sum_k p_k T_{ky}`. The tail still falls with ``p``, so rows with different
predictions keep different posteriors.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import softmax

from legendretron.calibration.prediction_sets import some_rows
from legendretron.tuning.noise import TEMPERATURES, best_share

#: Power of the predictions in the tail, relative to the temperature.
_TAIL = 0.15
#: Prior: standard deviation of the logarithm of a temperature, and pseudo-count of rows without doubt.
_SPREAD, _IMAGINED = 0.5, 1.0


def label_posterior(log_p: np.ndarray, labels: np.ndarray, matrix: np.ndarray, *, doubts: bool = True) -> np.ndarray:
    """Probabilities of the true classes, ``(n, C)``, from log-probabilities by a model that has not seen the rows.

    Labels are numbers from 0, ``matrix`` has the probabilities of observed labels (columns) for each true class (rows).
    Without ``doubts``, temperature alone is calibrated.

    Examples
    --------
    >>> log_p = np.log([[0.9, 0.1], [0.9, 0.1]])
    >>> posterior = label_posterior(log_p, np.array([0, 1]), np.array([[0.8, 0.2], [0.2, 0.8]]))
    >>> bool(posterior[0, 0] > 0.9 > posterior[1, 1])
    True
    """
    joint = calibrate_on_labels(log_p, labels, matrix, doubts=doubts) * matrix.T[labels]
    posterior: np.ndarray = joint / np.maximum(joint.sum(1, keepdims=True), np.finfo(float).tiny)
    return posterior


def calibrate_on_labels(
    log_p: np.ndarray, labels: np.ndarray, matrix: np.ndarray, *, doubts: bool = True
) -> np.ndarray:
    """Calibrated probabilities of the true classes, ``(n, C)``; arguments as in :func:`label_posterior`."""
    log_p = log_p - log_p.max(1, keepdims=True).astype(np.float64)
    some = some_rows(*log_p.shape)
    part, of_label = log_p[some], matrix.T[labels[some]]
    weight = np.append(np.ones(len(part)), _IMAGINED)

    def likelihoods(power: float, imagined: float) -> np.ndarray:
        p = np.exp(part * power)
        return np.append(np.einsum("ij,ij->i", p, of_label) / p.sum(1), imagined)

    best, found = math.inf, (1.0, 0.0)
    for power in TEMPERATURES:
        # the pseudo-row is predicted right, but not by the tail
        own, share = likelihoods(power, 1.0), 0.0
        tail = np.zeros_like(own)
        if doubts:
            tail = likelihoods(power * _TAIL, 0.0)
            share = best_share(own, tail, weight)
        likelihood = np.maximum((1.0 - share) * own + share * tail, np.finfo(float).tiny)
        loss = -float(weight @ np.log(likelihood)) + (math.log(power) / _SPREAD) ** 2 / 2
        if loss < best:
            best, found = loss, (power, share)
    power, share = found
    p: np.ndarray = (1.0 - share) * softmax(log_p * power, axis=1)
    if share > 0.0:
        p += share * softmax(log_p * (power * _TAIL), axis=1)
    return p
