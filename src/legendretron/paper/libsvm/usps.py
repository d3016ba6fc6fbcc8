"""USPS digits as LIBSVM distributes them: smoothed."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter

#: Width of the Gaussian in pixels: the images of LIBSVM's file, brought to 0 .. 1 and to 8 bits, are widely quoted to have a
#: mean of 0.2469 and a standard deviation of 0.2989. Smoothing the original ones gives both figures with 0.75, not with 0.74
#: or 0.76.
WIDTH = 0.75
#: Steps from a pixel to the next beyond which images are not smoothed: the Gaussian leaves at most 1.07 of a step of 2.
_LARGEST_STEP = 1.2


def smoothed_digits(X: np.ndarray) -> tuple[np.ndarray, bool]:
    """Smooth images that are not smooth yet, and return whether that was done.

    Parameters
    ----------
    X : ndarray of shape (n, 256)
        Images of 16 x 16 pixels from -1 (background) to 1. Other values raise a ``ValueError``.

    Returns
    -------
    ndarray of shape (n, 256), bool
        The images convolved with a Gaussian of 0.75 pixels, with background beyond their edges; or ``X`` itself, if it is
        smooth already.

    Examples
    --------
    >>> stroke = np.full((1, 256), -1.0)
    >>> stroke[0, 100:200] = 1.0
    >>> smooth, changed = smoothed_digits(stroke)
    >>> changed, bool(np.abs(smooth).max() < 1.0 + 1e-12)
    (True, True)
    """
    if X.min() < -1.0 - 1e-6 or X.max() > 1.0 + 1e-6 or X.min() > -0.5:
        raise ValueError(
            f"usps has pixels from -1, the background, to 1, but here they are from {X.min():g} to {X.max():g}. Bring them "
            "to that range, or get the published file."
        )
    ink = (X + 1.0).reshape(-1, 16, 16)
    if np.abs(np.diff(ink, axis=2)).max() < _LARGEST_STEP:
        return X, False
    smooth = gaussian_filter(ink, (0.0, WIDTH, WIDTH), mode="constant", truncate=8.0)
    return smooth.reshape(X.shape) - 1.0, True
