"""The log-loss of rows as part of Triton kernels, with symmetric label noise."""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["activate", "load_noise_rate", "observed_loss", "sigmoid"]


@triton.jit
def activate(x):
    """The softplus ``log(1 + exp(x))``, its derivative ``s(x)``, and ``s(-x) = 1 - s(x)``, with one exponential."""
    e = tl.exp(-tl.abs(x))
    u = 1.0 + e
    high = 1.0 / u
    low = e * high
    # log(1 + e) to full relative accuracy, also where 1 + e has rounded
    log1p = tl.where(u == 1.0, e, tl.log(u) * (e / tl.where(u == 1.0, 1.0, u - 1.0)))
    positive = tl.where(x > 0.0, x, 0.0) + log1p
    return positive, tl.where(x >= 0.0, high, low), tl.where(x >= 0.0, low, high)


@triton.jit
def sigmoid(x):
    """``1 / (1 + exp(-x))``."""
    return activate(x)[1]


@triton.jit
def load_noise_rate(flat, run, P, known, LEARNED: tl.constexpr, NOISY: tl.constexpr):
    """The noise rate, whose logit is the last parameter if it is learned; None without noise."""
    rate = None
    if LEARNED:
        rate = sigmoid(tl.load(flat + run * P + P - 1))
    elif NOISY:
        rate = tl.load(known)
    return rate


@triton.jit
def observed_loss(nll, rate, weight, n_classes):
    """Log-loss of an observed label, its gradient in the rate's logit, and the weight of the gradient in the log-odds.

    With symmetric noise ``q = (1 - rate) p + rate / C``.
    """
    p = tl.exp(-nll)
    uniform = (1.0 + 0.0 * weight) / n_classes  # in the precision of the weight
    q = (1.0 - rate) * p + rate * uniform
    return -tl.log(q), weight * rate * (1.0 - rate) * (p - uniform) / q, weight * (1.0 - rate) * p / q
