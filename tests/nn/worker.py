"""What the tests of distributed training run in each of two processes; writes what it measured as JSON.

Started by ``torchrun``, see test_distributed.py. Every case compares with the same computation in one process.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, init_device_mesh
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from legendretron._internal.process_groups import whole
from legendretron.nn import LegendreHead
from legendretron.nn.class_parallel import ClassParallel

sys.path.insert(0, str(Path(__file__).parents[2]))
import tests.leaky_link  # noqa: F401 - registers its name

N_ROWS, N_FEATURES, N_CLASSES = 12, 6, 8  # seven predictors: an uneven split
LINKS = {
    "softmax": {"link": "softmax"},
    "composite": {"link": "composite", "init": "paper"},
    "cpflow": {"link": "composite", "network": "cpflow", "init": "paper"},
    "canonical": {"link": "canonical"},
    "leaky": {"link": "leaky"},
    "rate": {"link": "composite", "init": "paper", "label_noise": "learn"},
    "known rate": {"link": "canonical", "label_noise": 0.3},
}
#: An observed probability depends on those of all classes, so these heads cannot be split by class.
MATRICES = {
    "matrix": {"link": "composite", "init": "paper", "label_noise": "class-conditional"},
    "known matrix": {
        "link": "softmax",
        "label_noise": 0.7 * torch.eye(N_CLASSES) + 0.3 * torch.eye(N_CLASSES).roll(1, 1),
    },
}


def make_model(name: str) -> nn.Sequential:
    torch.manual_seed(0)
    head = LegendreHead(10, N_CLASSES, **{**LINKS, **MATRICES}[name], generator=torch.Generator().manual_seed(1))
    return nn.Sequential(nn.Linear(N_FEATURES, 10), nn.Tanh(), head)


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(2)
    return [
        (torch.randn(N_ROWS, N_FEATURES, generator=generator), torch.randint(N_CLASSES, (N_ROWS,), generator=generator))
        for _ in range(3)
    ]


def train(model: nn.Module, part: slice, loss_of=None) -> dict[str, torch.Tensor]:
    """Three steps; gradients of the first, parameters after the last."""
    plain = getattr(model, "module", model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    seen: dict[str, torch.Tensor] = {}
    for step, (x, y) in enumerate(batches()):
        x, y = x[part], y[part]
        loss = nn.functional.nll_loss(model(x), y) if loss_of is None else loss_of(model, x, y)
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            seen |= {f"gradient of {name}": whole(p.grad).clone() for name, p in plain.named_parameters()}
        optimizer.step()
    seen |= {f"final {name}": whole(p.detach()).clone() for name, p in plain.named_parameters()}
    seen |= {f"final {name}": whole(b).clone().float() for name, b in plain.named_buffers()}
    return seen


def largest_difference(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> dict[str, float]:
    assert a.keys() == b.keys(), (a.keys(), b.keys())
    difference = {"gradient": 0.0, "final": 0.0}
    for name, value in a.items():
        assert value.shape == b[name].shape, name
        key = name.split()[0]
        difference[key] = max(difference[key], float((value - b[name]).abs().max()))
    return difference


def rows_of(rank: int) -> slice:
    half = N_ROWS // 2
    return slice(rank * half, (rank + 1) * half)


def data_parallel(name: str, rank: int) -> dict[str, float]:
    alone = train(make_model(name), slice(None), _apart)
    return largest_difference(alone, train(DistributedDataParallel(make_model(name)), rows_of(rank)))


def fully_sharded(name: str, rank: int) -> dict[str, float]:
    alone = train(make_model(name), slice(None), _apart)
    model = make_model(name)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return largest_difference(alone, train(model, rows_of(rank)))


class WithObjective(nn.Sequential):
    """A model with a method that calls another method of its head than forward."""

    def objective(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return by_loss(self, x, y)


def by_loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return model[2].loss(model[1](model[0](x)), y)


def sharded_methods(name: str, rank: int) -> dict[str, float | str]:
    """Methods of a head other than forward, where fully_shard was applied to it, and where only to the model around it."""
    rows, mesh = rows_of(rank), init_device_mesh("cpu", (dist.get_world_size(),))
    single, y = make_model(name)[2].eval(), batches()[0][1][rows]
    x = torch.randn(N_ROWS, 10, generator=torch.Generator().manual_seed(3))[rows]
    own, model = (
        fully_shard(make_model(name)[2], mesh=mesh).eval(),
        fully_shard(WithObjective(*make_model(name)), mesh=mesh),
    )
    calls = {
        "loss": lambda head: head.loss(x, y, reduction="none"),
        "log_proba_observed": lambda head: head.log_proba_observed(x),
        "blocks": lambda head: head.log_proba_observed(x.unsqueeze(0)),
    }
    if single.noise is not None:
        calls["label_quality"] = lambda head: head.label_quality(x, y)
    measured: dict[str, float | str] = {}
    for key, call in calls.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # FSDP warns about views
            measured[key] = float((call(own) - call(single)).detach().abs().max())
        try:
            call(model[2])
        except ValueError as error:
            measured[f"error {key}"] = str(error)
    alone = train(make_model(name), slice(None), _apart)
    register_fsdp_forward_method(model, "objective")
    trained = {"model": train(model, rows, lambda m, x, y: m.objective(x, y))}
    for registered in (False, True):  # as torch asks for methods that are not forward; not needed here, and no harm
        model = make_model(name)
        for layer in (model[0], model[2]):
            fully_shard(layer, mesh=mesh)
        if registered:
            register_fsdp_forward_method(model[2], "loss")
        trained[f"head {registered}"] = train(model, rows, by_loss)
    for key, found in trained.items():
        measured |= {f"{key} {part}": value for part, value in largest_difference(alone, found).items()}
    return measured


def _apart(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The loss in one process: as if no other were there, also for what depends on a first batch."""
    link = model[2].link
    if link.needs_batch:
        link.initialize(model[2].linear(model[1](model[0](x))).detach())
    return nn.functional.nll_loss(model(x), y)


class Travels(TorchDispatchMode):
    """Records the number of elements of every tensor that is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if DTensor in types:
            return NotImplemented  # let it become operations on its parts, and see those
        if func.namespace == "_c10d_functional" and not func.__name__.startswith(("wait", "_wrap")):
            self.sizes += [arg.numel() for arg in args if isinstance(arg, torch.Tensor)]
            self.names.add(func.__name__.partition(".")[0])
        return func(*args, **(kwargs or {}))


def class_parallel(name: str, rank: int) -> dict[str, float]:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = make_model(name)
    parallelize_module(model, mesh, {"2": ClassParallel()})
    y = batches()[0][1]
    y[:3] = torch.tensor([N_CLASSES - 1, -100, 0])  # the reference class, a row that does not count, the first class
    whole_model = make_model(name)
    measured = {}
    for key, features in (("plain", torch.randn(N_ROWS, 10)), ("large", 1e3 * torch.randn(N_ROWS, 10))):
        features = features.clone()
        dist.broadcast(features, 0)
        ours, theirs = features.clone().requires_grad_(), features.clone().requires_grad_()
        split, single = copy.deepcopy(model[2]), copy.deepcopy(whole_model[2])
        if single.link.needs_batch:
            single.link.initialize(single.linear(theirs).detach())
        with Travels() as travels:
            loss = split.loss(ours, y)
        expected = nn.functional.nll_loss(single(theirs), y)
        with Travels() as back:
            loss.backward()
        expected.backward()
        gradients = zip([ours, *split.parameters()], [theirs, *single.parameters()], strict=True)
        measured[f"{key} loss"] = float((loss - expected).abs() / (1 + expected.abs()))
        measured[f"{key} gradient"] = max(
            float((whole(a.grad) - b.grad).abs().max() / (1 + b.grad.abs().max())) for a, b in gradients
        )
        log_proba = single(features).detach()
        measured[f"{key} log_proba"] = float((split(features).detach() - log_proba).abs().max() / log_proba.abs().max())
        for reduction in ("sum", "none"):
            a, b = split.loss(features, y, reduction), nn.functional.nll_loss(log_proba, y, reduction=reduction)
            measured[f"{key} {reduction}"] = float((a - b).abs().max() / (1 + b.abs().max()))
    measured["elements sent per row"] = sorted(size / N_ROWS for size in travels.sizes)
    measured["kinds of messages back"] = sorted(back.names)

    alone = train(make_model(name), slice(None), _apart)
    measured |= {f"trained {k}": v for k, v in largest_difference(alone, train(model, slice(None), by_loss)).items()}
    own = sum(p.to_local().numel() for p in model[2].linear.parameters())
    measured["share of the linear layer"] = own / sum(p.numel() for p in whole_model[2].linear.parameters())
    return measured


def checkpoint_on_one_rank(rank: int) -> dict[str, float]:
    """Only the first process loads what was trained; wrapping broadcasts it, and no first batch is taken again."""
    trained = make_model("cpflow")
    x, y = batches()[0]
    _apart(trained, x, y)
    model = make_model("cpflow")
    if rank == 0:
        model.load_state_dict(trained.state_dict())
    wrapped = DistributedDataParallel(model)
    wrapped(batches()[1][0])
    own, expected = model.state_dict(), trained.state_dict()
    return {"moved": max(float((own[name].float() - expected[name].float()).abs().max()) for name in expected)}


def compiled_first_batch(rank: int) -> dict[str, float]:
    """The first batch inside a compiled graph, with other processes there."""
    torch.compiler.reset()
    compiled, plain = make_model("cpflow"), make_model("cpflow")
    x = batches()[0][0][rows_of(rank)]
    a = torch.compile(compiled, fullgraph=True, backend="aot_eager")(x)
    return {"difference": float((a - plain(x)).detach().abs().max()), "waits": float(compiled[2].link.needs_batch)}


def split_and_sharded(rank: int) -> dict[str, float]:
    """By class over one dimension of a mesh, by fully_shard over the other."""
    mesh = init_device_mesh("cpu", (1, dist.get_world_size()), mesh_dim_names=("data", "classes"))
    model, alone = make_model("cpflow"), make_model("cpflow")
    parallelize_module(model, mesh["classes"], {"2": ClassParallel()})
    fully_shard(model[2], mesh=mesh["data"])
    x, y = batches()[0]
    by_loss(model, x, y).backward()
    _apart(alone, x, y).backward()
    pairs = [*zip(model[2].link.parameters(), alone[2].link.parameters(), strict=True)]
    pairs += [(a.grad, b.grad) for a, b in zip(model[2].parameters(), alone[2].parameters(), strict=True)]
    return {"difference": max(float((whole(a.detach()) - b.detach()).abs().max()) for a, b in pairs)}


def matrices(rank: int) -> dict[str, float | str]:
    """Heads with a matrix of noise: refused if they are to be split by class, and right where they are sharded."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    measured: dict[str, float | str] = {}
    for name in MATRICES:
        try:
            parallelize_module(make_model(name)[2], mesh, ClassParallel())
        except ValueError as error:
            measured[f"error {name}"] = str(error)
        sharded, single = fully_shard(make_model(name)[2], mesh=mesh), make_model(name)[2]
        measured[f"sharded {name}"] = abs(sharded.noise_rate - single.noise_rate)
    return measured


def reset(rank: int) -> dict[str, float]:
    """What was sharded without memory starts as one process does, and processes draw the same."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    measured = {}
    for name in {**LINKS, **MATRICES}:
        expected = make_model(name)[2]
        with torch.device("meta"):
            model = make_model(name)[2]
        wrapped = {"sharded": fully_shard(model, mesh=mesh)}
        if name in LINKS:
            wrapped["split"] = parallelize_module(make_model(name)[2], mesh, ClassParallel())
        for kind, head in wrapped.items():
            head.to_empty(device="cpu")
            with torch.no_grad():
                for tensor in (*head.parameters(), *head.buffers()):
                    tensor.fill_(True if tensor.dtype == torch.bool else torch.nan)
            torch.manual_seed(10 + rank)  # processes need not be at the same point
            head.reset_parameters(torch.Generator().manual_seed(1 + 10 * rank))
            link = [(n, t) for n, t in (*head.named_parameters(), *head.named_buffers()) if not n.startswith("linear")]
            own = {**dict(expected.named_parameters()), **dict(expected.named_buffers())}
            measured[f"{kind} {name} waits"] = float(head.link.needs_batch != expected.link.needs_batch)
            same = [torch.allclose(whole(t.detach()).float(), own[n].detach().float(), atol=1e-6) for n, t in link]
            measured[f"{kind} {name}"] = float(not all(same))
            measured[f"{kind} {name} linear"] = float(not whole(head.linear.weight.detach()).isfinite().all())
            x = torch.ones(N_ROWS, 10) + torch.arange(N_ROWS).unsqueeze(-1) / N_ROWS
            nn.functional.nll_loss(head(x), torch.arange(N_ROWS) % N_CLASSES).backward()
            gradients = [whole(p.grad).isfinite().all() for p in head.parameters()]
            measured[f"{kind} {name} gradient"] = float(not all(gradients))
    return measured


ONCE = {
    "reset": reset,
    "matrices": matrices,
    "checkpoint_on_one_rank": checkpoint_on_one_rank,
    "compiled_first_batch": compiled_first_batch,
    "split_and_sharded": split_and_sharded,
}
CASES = {
    "data_parallel": data_parallel,
    "fully_sharded": fully_sharded,
    "sharded_methods": sharded_methods,
    "class_parallel": class_parallel,
}


def main(out: str) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    measured = {f"{case} {name}": run(name, rank) for case, run in CASES.items() for name in LINKS}
    runs = (data_parallel, fully_sharded, sharded_methods)
    measured |= {f"{run.__name__} {name}": run(name, rank) for run in runs for name in MATRICES}
    measured |= {case: run(rank) for case, run in ONCE.items()}
    everyone: list[dict] = [{}] * dist.get_world_size()
    dist.all_gather_object(everyone, measured)
    if rank == 0:
        Path(out).write_text(json.dumps(everyone, indent=1))
    dist.barrier()
    sys.stdout.flush()
    # without the clean-up of a Python process: gloo's threads sometimes abort in it, long after all is measured
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
