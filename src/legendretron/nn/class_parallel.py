r"""A head for very many classes, split by class over processes, on torch's own tensor parallelism.

With ``K = C - 1`` predictors split over processes, each holds its rows of ``W`` and ``b``, its columns of the blocks'
``A`` or of the nests' offsets, and computes its part of everything. A composite link sees the classes through
:math:`A x` alone, which has ``r`` entries a row of data however many classes there are, and the softmax through one
log-sum-exp a row; a canonical link through one log-sum-exp a nest. Only these travel, and, on the way back, the
gradient of the features. The numbers are those of the head in one piece, up to rounding.

All communication is that of ``DTensor``: parameters are distributed tensors, and the same formulas run on them.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ParallelStyle

from legendretron._internal.process_groups import summed_up, whole
from legendretron._internal.validation import at_least_single
from legendretron.links import CanonicalLink, CompositeLink, Link, SoftmaxLink
from legendretron.nn.head import LegendreHead

__all__ = ["ClassParallel", "gathered_log_proba", "same_on_all_ranks", "sharded_nll"]


class ClassParallel(ParallelStyle):
    """Split a :class:`LegendreHead` by class, for ``torch.distributed.tensor.parallel.parallelize_module``.

    Features must be the same on all processes of the mesh, as after the layers of a tensor-parallel network. Train with
    ``head.loss(features, labels)``; ``head(features)`` gathers the log-probabilities of all classes on each process.
    The number of classes need not be a multiple of the number of processes, but at least one more than it.

    Examples
    --------
    In a program started by ``torchrun --nproc-per-node 2``::

        mesh = init_device_mesh("cuda", (2,))
        parallelize_module(model, mesh, {"head": ClassParallel()})
        loss = model.head.loss(model.backbone(x), y)
    """

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        if not isinstance(module, LegendreHead):
            raise ValueError(f"ClassParallel splits a LegendreHead, got {type(module).__name__}.")
        if type(module.link) not in (SoftmaxLink, CompositeLink, CanonicalLink):
            raise ValueError(f"link must be one of the library's kinds to be split, got {type(module.link).__name__}.")
        if device_mesh.ndim != 1:
            raise ValueError(f"device_mesh must have one dimension, got {device_mesh}; take one of its dimensions.")
        if module.n_classes - 1 < device_mesh.size():
            raise ValueError(
                f"n_classes={module.n_classes} cannot be split over {device_mesh.size()} processes: each needs at least "
                "one class beside the reference class."
            )
        for name, parameter in list(module.named_parameters()):
            owner, _, last = name.rpartition(".")
            placement = _placement(module.get_submodule(owner), last)
            shard = distribute_tensor(parameter.detach(), device_mesh, [placement])
            setattr(module.get_submodule(owner), last, nn.Parameter(shard, requires_grad=parameter.requires_grad))
        return module


def _placement(owner: nn.Module, name: str) -> Shard | Replicate:
    if isinstance(owner, nn.Linear):
        return Shard(0)
    return Shard(1) if name in ("weight", "offsets") else Replicate()


def same_on_all_ranks(tensor: Tensor, like: Tensor) -> DTensor:
    """A plain tensor that all processes hold, beside distributed ones."""
    mesh = cast(DTensor, like).device_mesh
    return DTensor.from_local(tensor, mesh, [Replicate()] * mesh.ndim, run_check=False)


def gathered_log_proba(link: Link, z: Tensor) -> Tensor:
    """Log-probabilities ``(..., C)`` as a plain tensor on each process, from predictors split by class."""
    of_classes, of_reference = _log_proba(link, z)
    return link._shaped(torch.cat([whole(of_classes), whole(of_reference)], dim=-1), z)


def sharded_nll(link: Link, z: Tensor, labels: Tensor, reduction: str = "mean", ignore_index: int = -100) -> Tensor:
    """Log-loss of labels ``(...)``, the same plain tensor on each process, from predictors ``(..., K)`` split by class."""
    labels = labels.reshape(-1, 1)
    of_classes, of_reference = _log_proba(link, z)
    counts = labels != ignore_index
    columns = same_on_all_ranks(torch.arange(of_classes.shape[-1], device=labels.device), of_classes)
    columns = columns.redistribute(placements=[Shard(0)])
    label = same_on_all_ranks(torch.where(counts, labels, -1), of_classes)
    own = torch.where(columns == label, of_classes, 0.0).sum(-1, keepdim=True)
    picked = whole(own) + torch.where(labels == link.n_classes - 1, whole(of_reference), 0.0)
    nll = -torch.where(counts, picked, 0.0).reshape(z.shape[:-1])
    if reduction == "none":
        return nll
    return nll.sum() if reduction == "sum" else nll.sum() / counts.sum()


def _log_proba(link: Link, z: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the first ``K`` classes, split as ``z`` is, and of the reference class, as rows."""
    rows = link._rows("z", z, link.n_classes - 1)
    with torch.autocast(z.device.type, enabled=False):
        link._initialize_once(rows)
        if isinstance(link, CanonicalLink):
            return _canonical(link, rows)
        log_odds = link._log_odds(rows) if isinstance(link, CompositeLink) else rows
        reference = same_on_all_ranks(torch.zeros(1, 1, dtype=rows.dtype, device=rows.device), rows)
        total = _logsumexp(log_odds, reference)
        return log_odds - total, -total


def _canonical(link: CanonicalLink, z: Tensor) -> tuple[Tensor, Tensor]:
    """The formulas of NestedLogSumExp with the reference class apart."""
    nests = link.nests
    mu, beta = torch.exp(at_least_single(nests.log_mu)).unsqueeze(-1), torch.exp(at_least_single(nests.log_beta))
    logits = mu * z.unsqueeze(-2) + at_least_single(nests.offsets)  # (n, M, K)
    reference = at_least_single(nests.reference_offset).unsqueeze(-1)  # (M, 1)
    total = _logsumexp(logits, reference)  # (n, M, 1)
    gate = beta / mu * total + nests.gate_bias.unsqueeze(-1)
    log_pi = torch.log_softmax(gate, dim=-2) - total
    return torch.logsumexp(log_pi + logits, dim=-2), torch.logsumexp(log_pi + reference, dim=-2)


def _logsumexp(logits: Tensor, reference: Tensor) -> Tensor:
    """Log-sum-exp over split classes and the reference: (..., K), (..., 1) -> (..., 1), the same on each process."""
    top = torch.maximum(summed_up(logits.detach().amax(-1, keepdim=True)), reference.detach())
    total = summed_up(torch.exp(logits - top).sum(-1, keepdim=True)) + torch.exp(reference - top)
    return top + torch.log(total)
