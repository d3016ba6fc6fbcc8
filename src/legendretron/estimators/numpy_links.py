"""Log-probabilities of the learned links in plain numpy, in double precision, for predictions without torch.

The formulas are those of :mod:`legendretron.links`; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from legendretron._internal.arguments import check_choice, check_integer

__all__ = ["LINKS", "LogProba"]

#: From predictors (n, C - 1) to log-probabilities (n, C).
LogProba = Callable[[np.ndarray], np.ndarray]


def _with_reference(z: np.ndarray) -> np.ndarray:
    return np.concatenate([z, np.zeros((len(z), 1))], axis=1)


def _log_sum_exp(x: np.ndarray, axis: int) -> np.ndarray:
    top = x.max(axis, keepdims=True)
    total: np.ndarray = top + np.log(np.exp(x - top).sum(axis, keepdims=True))
    return total


def _log_softmax_plus(z: np.ndarray) -> np.ndarray:
    x = _with_reference(z)
    x -= x.max(1, keepdims=True)  # first: beside large log-odds, the logarithm of the sum would be rounded away
    log_p: np.ndarray = x - np.log(np.exp(x).sum(1, keepdims=True))
    return log_p


def _softmax(take: Callable[..., np.ndarray], n_out: int) -> LogProba:
    return _log_softmax_plus


def _canonical(take: Callable[..., np.ndarray], n_out: int, n_nests: int) -> LogProba:
    """See :class:`~legendretron.potentials.NestedLogSumExp`."""
    check_integer("n_nests", n_nests, 1)
    mu, gate_bias = np.exp(take("nests.log_mu", n_nests), dtype=np.float64)[:, None], take("nests.gate_bias", n_nests)
    beta = np.exp(take("nests.log_beta", 1), dtype=np.float64)
    offsets = np.column_stack([take("nests.offsets", n_nests, n_out), take("nests.reference_offset", n_nests)])

    def log_proba(z: np.ndarray) -> np.ndarray:
        x = _with_reference(z)
        exponents = mu * (x - x.max(1, keepdims=True))[:, None] + offsets  # (n, M, C)
        inside = _log_sum_exp(exponents, 2)
        gate = beta / mu * inside + gate_bias[:, None]
        log_p: np.ndarray = _log_sum_exp(gate - _log_sum_exp(gate, 1) + exponents - inside, 1)[:, 0]
        return log_p

    return log_proba


def _composite(
    take: Callable[..., np.ndarray], n_out: int, n_blocks: int, hidden: int, depth: int, network: str
) -> LogProba:
    """See :class:`~legendretron.potentials.FICNN`, which is the only network here."""
    check_choice("network", network, ("ficnn",))
    for name, value in {"n_blocks": n_blocks, "hidden": hidden, "depth": depth}.items():
        check_integer(name, value, 1)
    rank, blocks = depth * hidden + 1, []
    for i in range(n_blocks):
        weight, bias = take(f"blocks.{i}.weight", rank, n_out), take(f"blocks.{i}.bias", rank)
        raw = take(f"blocks.{i}.raw_mixing", (depth - 1) * hidden + 1, hidden).astype(np.float64)
        mixing = np.split(np.logaddexp(0.0, raw) / hidden, range(hidden, len(raw), hidden))
        alpha, gamma = (np.logaddexp(0.0, take(f"blocks.{i}.raw_{name}", 1)) for name in ("alpha", "gamma"))
        blocks.append((weight, bias, mixing, alpha, gamma))

    def log_proba(z: np.ndarray) -> np.ndarray:
        for weight, bias, mixing, alpha, gamma in blocks:
            units = np.split(z @ weight.T + bias, range(hidden, rank, hidden), axis=1)
            for k, positive in enumerate(mixing):
                units[k + 1] = units[k + 1] + np.logaddexp(0.0, units[k]) @ positive.T
            slopes = [np.exp(-np.logaddexp(0.0, -unit)) for unit in units]
            for k in range(depth - 1, -1, -1):
                slopes[k] = slopes[k] * (slopes[k + 1] @ mixing[k])
            z = alpha * z + gamma * (np.concatenate(slopes, axis=1) @ weight)
        return _log_softmax_plus(z)

    return log_proba


#: Links by name: functions of a reader of tensors, the number of predictors and the settings.
LINKS: dict[str, Callable[..., LogProba]] = {"softmax": _softmax, "canonical": _canonical, "composite": _composite}
