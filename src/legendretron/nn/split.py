"""Log-probabilities and log-loss of a head whose predictors are split by class over processes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributed.tensor import Shard

from legendretron._internal.process_groups import replicate, whole
from legendretron.links import LabelNoise, Link
from legendretron.nn.link_module import observe

__all__ = ["gather_log_proba", "sharded_nll", "sharded_nll_and_hits"]


def gather_log_proba(link: Link, z: Tensor) -> Tensor:
    """Log-probabilities ``(..., C)`` as a plain tensor on each process, from predictors split by class."""
    of_classes, of_reference = _log_proba(link, z)
    return link._shaped(torch.cat([whole(of_classes), whole(of_reference)], dim=-1), z)


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
    of_classes, of_reference = _log_proba(link, z)
    labels = labels.reshape(-1, 1)
    counts = labels != ignore_index
    picked = observe(noise, _of_labels(of_classes, of_reference, torch.where(counts, labels, -1)))
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
    of_classes, of_reference = _log_proba(link, z)
    picked = _of_labels(of_classes, of_reference, labels.unsqueeze(-1))
    log_p = of_classes.detach()
    highest = torch.maximum(whole(log_p.amax(-1, keepdim=True)), whole(of_reference.detach()))
    is_highest = log_p >= replicate(highest, log_p)
    first = whole(torch.where(is_highest, _columns(log_p, labels.device), log_p.shape[-1]).amin(-1))
    return -observe(noise, picked).squeeze(-1), first == labels


def _columns(of_classes: Tensor, device: torch.device) -> Tensor:
    """Numbers of the classes, split as these are."""
    columns = replicate(torch.arange(of_classes.shape[-1], device=device), of_classes)
    return columns.redistribute(placements=[Shard(0)])  # type: ignore[attr-defined]


def _of_labels(of_classes: Tensor, of_reference: Tensor, labels: Tensor) -> Tensor:
    """Log-probabilities ``(n, 1)`` of labels ``(n, 1)``; those of no class are 0."""
    n_outputs = of_classes.shape[-1]
    columns = _columns(of_classes, labels.device)
    picked = torch.where(columns == replicate(labels, of_classes), of_classes, 0.0).sum(-1, keepdim=True)
    return whole(picked) + torch.where(labels == n_outputs, whole(of_reference), 0.0)


def _log_proba(link: Link, z: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the first ``K`` classes, split as ``z`` is, and of the reference class, as rows."""
    rows = link._rows("z", z, link.n_classes - 1)
    with torch.autocast(z.device.type, enabled=False):
        link._initialize_once(rows)
        return link._split_log_proba(rows)
