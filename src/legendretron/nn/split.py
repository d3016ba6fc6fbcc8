"""Log-probabilities and log-loss of a head whose predictors are split by class over processes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import Shard

from legendretron._internal.process_groups import is_sharded, reduce_shards, replicate, whole
from legendretron._internal.validation import at_least_single
from legendretron.links import CanonicalLink, LabelNoise, Link
from legendretron.nn.link_module import observe
from legendretron.potentials import NestedLogSumExp


def gather_log_proba(link: Link, z: Tensor) -> Tensor:
    """Log-probabilities ``(..., C)`` as a plain tensor on each process, from predictors split by class."""
    class_log_p, reference_log_p = _log_proba(link, z)
    return link._reshape(torch.cat([whole(class_log_p), whole(reference_log_p)], dim=-1), z)


def sharded_nll(
    link: Link,
    z: Tensor,
    labels: Tensor,
    reduction: str = "mean",
    ignore_index: int = -100,
    noise: LabelNoise | None = None,
) -> Tensor:
    """Log-loss of labels ``(...)``, the same plain tensor on each process, from predictors ``(..., K)`` split by class.

    Noise must be symmetric: then the observed probability of a label depends on its true probability alone.
    """
    class_log_p, reference_log_p = _log_proba(link, z)
    labels = labels.reshape(-1, 1)
    counts = labels != ignore_index
    picked = observe(noise, _pick_labels(class_log_p, reference_log_p, torch.where(counts, labels, -1)))
    nll = -torch.where(counts, picked, 0.0).reshape(z.shape[:-1])
    if reduction == "none":
        return nll
    return nll.sum() if reduction == "sum" else nll.sum() / counts.sum()


def sharded_nll_and_hits(
    link: Link, z: Tensor, labels: Tensor, noise: LabelNoise | None = None
) -> tuple[Tensor, Tensor]:
    """Log-loss of labels ``(n,)`` as :func:`sharded_nll` gives it, and whether no class is likelier: both of shape (n,).

    Of classes that are equally likely the first counts, as everywhere.
    """
    class_log_p, reference_log_p = _log_proba(link, z)
    picked = _pick_labels(class_log_p, reference_log_p, labels.unsqueeze(-1))
    log_p = class_log_p.detach()
    highest = torch.maximum(whole(log_p.amax(-1, keepdim=True)), whole(reference_log_p.detach()))
    is_highest = log_p >= replicate(highest, log_p)
    first = whole(torch.where(is_highest, _columns(log_p, labels.device), log_p.shape[-1]).amin(-1))
    return -observe(noise, picked).squeeze(-1), first == labels


def _columns(class_log_p: Tensor, device: torch.device) -> Tensor:
    """Numbers of the classes, split as these are."""
    columns = replicate(torch.arange(class_log_p.shape[-1], device=device), class_log_p)
    return columns.redistribute(placements=[Shard(0)])  # type: ignore[attr-defined]


def _pick_labels(class_log_p: Tensor, reference_log_p: Tensor, labels: Tensor) -> Tensor:
    """Log-probabilities ``(n, 1)`` of labels ``(n, 1)``; those of no class are 0."""
    n_outputs = class_log_p.shape[-1]
    columns = _columns(class_log_p, labels.device)
    picked = torch.where(columns == replicate(labels, class_log_p), class_log_p, 0.0).sum(-1, keepdim=True)
    return whole(picked) + torch.where(labels == n_outputs, whole(reference_log_p), 0.0)


def _log_proba(link: Link, z: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the first ``K`` classes, split as ``z`` is, and of the reference class, as rows."""
    rows = link._rows("z", z, link.n_classes - 1)
    with torch.autocast(z.device.type, enabled=False):
        link._initialize_once(rows)
        return (
            _split_nests(link.nests, rows) if isinstance(link, CanonicalLink) else _split_softmax(link._log_odds(rows))
        )


def _split_softmax(log_odds: Tensor) -> tuple[Tensor, Tensor]:
    reference = replicate(torch.zeros(1, 1, dtype=log_odds.dtype, device=log_odds.device), log_odds)
    total = _split_logsumexp(log_odds, reference)
    return log_odds - total, -total


def _split_nests(nests: NestedLogSumExp, z: Tensor) -> tuple[Tensor, Tensor]:
    """The formulas of NestedLogSumExp with the reference class apart."""
    mu, beta = torch.exp(at_least_single(nests.log_mu)).unsqueeze(-1), torch.exp(at_least_single(nests.log_beta))
    # of all classes, as in one process
    top = reduce_shards(z.detach().amax(-1, keepdim=True)).clamp_min(0.0).unsqueeze(-2)
    logits = mu * (z.unsqueeze(-2) - top) + at_least_single(nests.offsets)  # (n, M, K)
    reference = at_least_single(nests.reference_offset).unsqueeze(-1) - mu * top  # (n, M, 1)
    total = _split_logsumexp(logits, reference)  # (n, M, 1)
    gate = beta / mu * total + nests.gate_bias.unsqueeze(-1)
    log_pi = torch.log_softmax(gate, dim=-2) - total
    return torch.logsumexp(log_pi + logits, dim=-2), torch.logsumexp(log_pi + reference, dim=-2)


def _split_logsumexp(logits: Tensor, reference: Tensor) -> Tensor:
    """Log-sum-exp over classes that may be split and a reference, ``(..., 1)``, the same on all processes."""
    top = torch.maximum(reduce_shards(logits.detach().amax(-1, keepdim=True)), reference.detach())
    total = reduce_shards(torch.exp(logits - top).sum(-1, keepdim=True)) + torch.exp(reference - top)
    found = top + torch.log(total)
    return _WithSummedGradient.apply(found) if is_sharded(found) else found  # type: ignore[no-untyped-call]


class _WithSummedGradient(torch.autograd.Function):
    """The same, with a gradient that is added up over processes here.

    Each process has a part of it, from its classes. Left to itself, it would be added up only where it meets the classes
    again: in a message of an entry for each row and class, instead of one for each row.
    """

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return reduce_shards(gradients[0])
