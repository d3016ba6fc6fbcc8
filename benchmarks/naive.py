"""A plain implementation of LegendreTron to measure against: what one writes from the paper without further thought.

float64, one model at a time, CP-Flow's network as modules, and each block's gradient by ``autograd.grad`` with
``create_graph=True``, so that a training step differentiates through a gradient. Nothing is made slow on purpose.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class PositiveLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, F.softplus(self.weight), self.bias) / self.in_features


class ActNorm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(size))
        self.log_scale = nn.Parameter(torch.zeros(size))
        self.register_buffer("ready", torch.tensor(False))

    def forward(self, x: Tensor) -> Tensor:
        if not self.ready:
            with torch.no_grad():
                self.shift.copy_(-x.mean(0))
                self.log_scale.copy_(-torch.log(x.std(0, unbiased=False) + 1e-6))
                self.ready.fill_(True)
        return (x + self.shift) * (torch.exp(self.log_scale) + 0.001)


class ConvexNetwork(nn.Module):
    def __init__(self, dim: int, hidden: int, depth: int) -> None:
        super().__init__()
        half = hidden // 2
        # in the order of the code behind the paper, so that the same seed gives the same start
        self.first = nn.Linear(dim, hidden)
        self.mixing = nn.ModuleList(PositiveLinear(hidden, half) for _ in range(depth - 1))
        self.last_mixing = PositiveLinear(hidden, 1, bias=False)
        self.direct = nn.ModuleList(nn.Linear(dim, half) for _ in range(depth - 1))
        self.last_direct = nn.Linear(dim, 1, bias=False)
        self.fresh = nn.ModuleList(nn.Linear(dim, half) for _ in range(depth - 1))
        self.norms = nn.ModuleList(ActNorm(half) for _ in range(depth - 1))
        self.last_norm = ActNorm(1)
        self.last_norm.shift.requires_grad_(False)  # adds a constant, which no gradient sees
        self.raw_gamma = nn.Parameter(torch.randn(1))
        self.raw_alpha = nn.Parameter(torch.randn(1))

    def potential(self, x: Tensor) -> Tensor:
        s = F.softplus(self.first(x))
        for mixing, direct, fresh, norm in zip(self.mixing, self.direct, self.fresh, self.norms, strict=True):
            s = torch.cat([F.softplus(norm(mixing(s) + direct(x))), F.softplus(fresh(x))], dim=1)
        h = self.last_norm(self.last_mixing(s) + self.last_direct(x))
        return F.softplus(self.raw_gamma) * h.squeeze(1) + F.softplus(self.raw_alpha) * x.square().sum(1) / 2

    def forward(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            x = x if x.requires_grad else x.clone().requires_grad_()
            return torch.autograd.grad(self.potential(x).sum(), x, create_graph=True)[0]


class NaiveLegendreTron(nn.Module):
    def __init__(self, n_features: int, n_classes: int, n_blocks: int = 2, hidden: int = 2, depth: int = 4) -> None:
        super().__init__()
        self.linear = nn.Linear(n_features, n_classes - 1)
        self.blocks = nn.ModuleList(ConvexNetwork(n_classes - 1, hidden, depth) for _ in range(n_blocks))

    def forward(self, x: Tensor) -> Tensor:
        z = self.linear(x)
        for block in self.blocks:
            z = block(z)
        return F.log_softmax(torch.cat([z, torch.zeros_like(z[:, :1])], dim=1), dim=1)


def naive_step(n_features: int, n_classes: int, batch: int):
    """A training step of one model, as a function to call."""
    model = NaiveLegendreTron(n_features, n_classes).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.01)
    x = torch.randn(batch, n_features, dtype=torch.float64)
    y = torch.randint(n_classes, (batch,))

    def step() -> None:
        optimizer.zero_grad()
        F.nll_loss(model(x), y).backward()
        optimizer.step()

    return step
