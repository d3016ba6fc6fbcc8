r"""A head for very many classes, split by class over processes, on torch's own tensor parallelism.

With ``K = C - 1`` predictors split over processes, each holds its rows of ``W`` and ``b``, its columns of the blocks'
``A`` or of the nests' offsets, and computes its part of everything. A composite link sees the classes through
:math:`A x` alone, which has ``r`` entries per row of data however many classes there are, and the softmax through one
log-sum-exp per row; a canonical link through one log-sum-exp per nest. Only these are communicated and, in the backward
pass, the gradient of the features. The results equal those of the unsplit head, up to rounding.

All communication is that of ``DTensor``: parameters are distributed tensors, and the same formulas run on them.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ParallelStyle

from legendretron.links import SymmetricNoise
from legendretron.nn.head import LegendreHead


class ClassParallel(ParallelStyle):
    """Split a :class:`LegendreHead` by class, for ``torch.distributed.tensor.parallel.parallelize_module``.

    Features must be the same on all processes of the mesh, as after the layers of a tensor-parallel network. Train with
    ``head.loss(features, labels)``; ``head(features)`` gathers the log-probabilities of all classes on each process.
    The number of classes need not be a multiple of the number of processes, but must be larger. ``label_noise`` can be
    ``"learn"`` or a number; a matrix would need the probabilities of all classes in one place.

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
        axes = module.link.class_axes()
        if axes is None:
            raise ValueError(
                f"{type(module.link).__name__} cannot be split by class, since its class_axes() returns None; "
                "a link of your own can be split if it defines class_axes and _log_odds."
            )
        if module.noise is not None and not isinstance(module.noise, SymmetricNoise):
            raise ValueError(
                "a head with label_noise='class-conditional', or a matrix, cannot be split by class: an observed "
                "probability depends on those of all classes. Use label_noise='learn' or a number, or leave the head whole."
            )
        if device_mesh.ndim != 1:
            raise ValueError(f"device_mesh must have one dimension, got {device_mesh}; take one of its dimensions.")
        if module.n_classes - 1 < device_mesh.size():
            raise ValueError(
                f"n_classes={module.n_classes} cannot be split over {device_mesh.size()} processes: each needs at least "
                "one class besides the reference class."
            )
        split = {"linear.weight": 0, "linear.bias": 0, **{f"link.{name}": axis for name, axis in axes.items()}}
        tensors: dict[str, Tensor] = dict(module.named_parameters())
        # flags are not distributed: every process reads them
        tensors |= {name: buffer for name, buffer in module.named_buffers() if buffer.is_floating_point()}
        for name, axis in split.items():
            tensor = tensors.get(name)
            if name == "linear.bias" and tensor is None:
                continue  # a head need not have one
            if tensor is None or not 0 <= axis < tensor.dim() or tensor.shape[axis] != module.n_classes - 1:
                shape = "does not exist" if tensor is None else f"is of shape {tuple(tensor.shape)}"
                raise ValueError(
                    f"class_axes() of {type(module.link).__name__} must give axes of {module.n_classes - 1} entries, but "
                    f"names axis {axis} of {name}, which {shape}."
                )
        for name, tensor in tensors.items():
            owner, _, last = name.rpartition(".")
            placement = Shard(split[name]) if name in split else Replicate()
            shard: Tensor = distribute_tensor(tensor.detach(), device_mesh, [placement])
            if isinstance(tensor, nn.Parameter):
                shard = nn.Parameter(shard, requires_grad=tensor.requires_grad)
            setattr(module.get_submodule(owner), last, shard)
        module._n_split_dims = device_mesh.ndim
        return module
