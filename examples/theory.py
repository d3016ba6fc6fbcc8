"""Every number of docs/theory.md, and its figure, from one command.

    python examples/theory.py --out docs

Trains the paper's composite link and the canonical link, each with a linear predictor, on iris, wine and digits (all
three come with scikit-learn), measures both on held-out points, and writes results/theory.json and figures/theory.png
below the folder given. About twenty seconds on one core.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn

from legendretron import CanonicalLink, CompositeLink, Link, canonicality
from legendretron._internal.provenance import provenance
from legendretron.experiments.store import round_floats

DATASETS = {"iris": load_iris, "wine": load_wine, "digits": load_digits}
STEPS, RATE, PENALTY, SEED = 400, 0.02, 3e-3, 0


class Model(nn.Module):
    """A linear predictor and a link."""

    def __init__(self, n_features: int, link: Link) -> None:
        super().__init__()
        self.predictor = nn.Linear(n_features, link.n_classes - 1, dtype=torch.float64)
        self.link = link

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.link(self.predictor(x))


def trained(load, make_link) -> tuple[Model, torch.Tensor, torch.Tensor]:
    """Train on 80 % by full-batch Adam on the log-loss; return the model and the held-out part."""
    data = load()
    split = train_test_split(data.data, data.target, test_size=0.2, random_state=SEED, stratify=data.target)
    scaler = StandardScaler().fit(split[0])
    x, x_test = (torch.as_tensor(scaler.transform(part)) for part in split[:2])
    y, y_test = (torch.as_tensor(part) for part in split[2:])
    torch.manual_seed(SEED)
    model = Model(x.shape[1], make_link(len(data.target_names)))
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, weight_decay=PENALTY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.functional.nll_loss(model(x), y).backward()
        optimizer.step()
        schedule.step()
    return model.eval(), x_test, y_test


def measure(name: str, load, kind: str, make_link) -> dict[str, object]:
    model, x, y = trained(load, make_link)
    with torch.no_grad():
        z = model.predictor(x)
        log_p = model.link(z)
    # where one class has all the mass the Jacobian is zero to rounding, and says nothing
    unsaturated = log_p.exp().amax(-1) < 0.999
    report = canonicality(model.link, z[unsaturated])
    return {
        "data": name,
        "link": kind,
        "accuracy": float((log_p.argmax(-1) == y).double().mean()),
        "log_loss": float(nn.functional.nll_loss(log_p, y)),
        **report.to_dict(),
    }


def counterexample() -> list[float]:
    """Eigenvalues of the symmetric part of a product of two symmetric positive definite matrices."""
    product = np.diag([1.0, 100.0]) @ np.array([[1.0, 0.9], [0.9, 1.0]])
    return np.linalg.eigvalsh((product + product.T) / 2).tolist()


def figure(path: Path) -> None:
    """Class probabilities over the plane of predictors, and where the Jacobian is indefinite."""
    composite, x, _ = trained(load_iris, lambda c: CompositeLink(c, init="paper", hidden=4, dtype=torch.float64))
    canonical, _, _ = trained(load_iris, lambda c: CanonicalLink(c, dtype=torch.float64))
    fig, axes = plt.subplots(1, 2, figsize=(9.5, 4.4), layout="constrained")
    for axis, model, title in (
        (axes[0], composite, "composite link (the paper's)"),
        (axes[1], canonical, "canonical link (one potential)"),
    ):
        with torch.no_grad():
            z = model.predictor(x)
        low, high = z.amin(0) - 2, z.amax(0) + 2
        grid = torch.stack(
            torch.meshgrid(*(torch.linspace(float(a), float(b), 160).double() for a, b in zip(low, high, strict=True)),
                           indexing="xy"), -1
        )  # fmt: skip
        with torch.no_grad():
            p = model.link.inverse(grid)
            jacobian = model.link.jacobian(grid)
        least = torch.linalg.eigvalsh((jacobian + jacobian.mT) / 2)[..., 0] / torch.linalg.matrix_norm(jacobian)
        image = axis.contourf(grid[..., 0], grid[..., 1], p[..., 1], levels=np.linspace(0, 1, 11), cmap="cividis")
        bad = (least < -1e-9).double()
        if bool(bad.any()):
            axis.contourf(grid[..., 0], grid[..., 1], bad, levels=[0.5, 1.5], colors="none", hatches=["///"])
            axis.collections[-1].set(edgecolor="#ff3b3b", linewidth=0)
        axis.plot(z[:, 0], z[:, 1], "o", color="white", markeredgecolor="black", markersize=4)
        axis.set(title=f"{title}\nJacobian indefinite on {bad.mean():.0%} of the area", xlabel="$z_1$", ylabel="$z_2$")
    fig.colorbar(image, ax=axes, label="probability of class 2")
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description="Check the numbers of docs/theory.md.")
    parser.add_argument("--out", type=Path, default=Path("demo_output"), help="folder to write to")
    out = parser.parse_args().out
    torch.set_num_threads(1)
    links = {
        "composite": lambda c: CompositeLink(c, init="paper", hidden=4, dtype=torch.float64),
        "canonical": lambda c: CanonicalLink(c, dtype=torch.float64),
    }
    rows = [measure(name, load, kind, make) for name, load in DATASETS.items() for kind, make in links.items()]
    eigenvalues = counterexample()
    print(f"product of two positive definite matrices: symmetric part has eigenvalues {eigenvalues}\n")
    print(f"{'data':8}{'link':11}{'points':>7}{'median asym.':>14}{'max asym.':>12}{'indefinite':>12}{'backwards':>11}")
    for row in rows:
        print(
            f"{row['data']:8}{row['link']:11}{row['n_points']:7d}{row['median_asymmetry']:14.1e}"
            f"{row['max_asymmetry']:12.1e}{row['indefinite_share']:12.1%}{row['nonmonotone_share']:11.2%}"
        )
    results = out / "results"
    results.mkdir(parents=True, exist_ok=True)
    record = {
        "command": "python examples/theory.py --out docs",
        "settings": {"steps": STEPS, "learning_rate": RATE, "penalty": PENALTY, "seed": SEED, "hidden": 4},
        "counterexample_eigenvalues": eigenvalues,
        "links": rows,
        **provenance(),
    }
    (results / "theory.json").write_text(json.dumps(round_floats(record), indent=2) + "\n")
    figure(out / "figures" / "theory.png")
    print(f"\nwrote {results / 'theory.json'} and {out / 'figures' / 'theory.png'}")


if __name__ == "__main__":
    main()
