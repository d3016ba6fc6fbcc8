"""Expected log-likelihoods under trigonometric links, and their derivatives, in one compiled function."""

from __future__ import annotations

import math

import numpy as np

from legendretron.accelerate.cpu.compiling import at, cached, put
from legendretron.accelerate.cpu.products import add_product
from legendretron.accelerate.cpu.vectors import activate, fill

_WIDTH = 64  # rows that are computed together


@cached
def expected_log_likelihood(z, y, counts, c, n_links, waves, sine, low, high, totals, slopes):
    """Add the log-likelihoods of all links to ``totals`` (S,), and write the mean's derivatives in ``z`` (n,) to ``slopes``.

    A link has coefficients ``c`` (S, 2 + waves) of the features of :mod:`legendretron.trons.link_prior`, which are sines or
    cosines. No derivatives are computed if ``slopes`` is empty.
    """
    n, size, width = z.shape[0], 2 + waves, _WIDTH
    of_links = n_links * width
    middle, rate = 0.5 * (low + high), math.pi / (high - low)
    phi, d_phi, t, d_t = np.zeros(size * width), np.zeros(size * width), np.empty(of_links), np.empty(of_links)
    positive, share, inside = np.empty(of_links), np.empty(of_links), np.empty(width)
    cosine, sines, real, imag = np.empty(width), np.empty(width), np.empty(width), np.empty(width)
    fill(phi, 0, width, 1.0)
    fill(d_phi, width, width, 1.0)
    for begin in range(0, n, width):
        rows = min(width, n - begin)
        for j in range(width):
            own = at(z, begin + j) if j < rows else middle
            put(phi, width + j, own - middle)
            put(inside, j, rate if low <= own <= high else 0.0)
            theta = rate * (min(max(own, low), high) - low)
            put(cosine, j, math.cos(theta))
            put(sines, j, math.sin(theta))
            put(real, j, 1.0)
            put(imag, j, 0.0)
        for m in range(waves):
            place = (2 + m) * width
            for j in range(width):
                a, b = at(real, j), at(imag, j)
                p, q = at(cosine, j), at(sines, j)
                a, b = a * p - b * q, a * q + b * p
                put(real, j, a)
                put(imag, j, b)
                steepness = (m + 1) * at(inside, j)
                put(phi, place + j, b if sine else a)
                put(d_phi, place + j, steepness * a if sine else -steepness * b)
        fill(t, 0, of_links, 0.0)
        add_product(c, 0, size, 1, n_links, size, phi, 0, t, 0, width)
        activate(t, 0, positive, share, 0, of_links)
        for s in range(n_links):
            total = 0.0
            for j in range(rows):
                place = s * width + j
                total += at(counts, begin + j) * (at(y, begin + j) * at(t, place) - at(positive, place))
            totals[s] += total
        if slopes.shape[0] == 0:
            continue
        fill(d_t, 0, of_links, 0.0)
        add_product(c, 0, size, 1, n_links, size, d_phi, 0, d_t, 0, width)
        for j in range(rows):
            put(slopes, begin + j, 0.0)
        for s in range(n_links):
            for j in range(rows):
                place = s * width + j
                slope = (at(y, begin + j) - at(share, place)) * at(d_t, place)
                put(slopes, begin + j, at(slopes, begin + j) + slope)
        for j in range(rows):
            put(slopes, begin + j, at(slopes, begin + j) * at(counts, begin + j) / n_links)
