"""Networks on images whose training labels are partly wrong, by what the last layer and the loss make of it.

    python benchmarks/noisy_networks.py --data DIR --device cuda --out docs/results/noisy_networks/record.json
    python benchmarks/noisy_networks.py --render docs/results/noisy_networks/record.json

The training labels of MNIST and Fashion-MNIST are made wrong: none of them; 20 % or 50 % of them, replaced by any other
class alike; or 30 % of them, replaced by the next class. Test labels are right. All methods of a seed start from the same
convolutions and see the same wrong labels and the same batches: they are trained side by side, on CUDA in one captured graph.

Results are written after each noise and seed, and the same command goes on where it was stopped; ``--seconds`` stops it
before a limit. ``--tiny`` is a trial of a minute on the CPU. ``--render`` writes a report in Markdown and two pictures
beside the record.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import nll_loss, one_hot

from legendretron._internal.files import write_atomically
from legendretron._internal.provenance import provenance
from legendretron.datasets import flip_labels, load_images, symmetric_transition
from legendretron.experiments.panels import panels_for, save_panels
from legendretron.experiments.rendering import as_text, markdown_table, write_text
from legendretron.experiments.rounding import rounded
from legendretron.experiments.statistics import Mean, mean_of
from legendretron.nn import parameter_groups
from legendretron.paper.data import facts_of
from legendretron.paper.vgg.network import VGG5, VGGTron
from legendretron.paper.vgg.training import log_probabilities
from legendretron.plots.axes import COLOURS, MARKERS
from legendretron.training.cuda_graph import capture_graph

DATASETS = ("mnist", "fashion-mnist")
C = 10
NEXT = np.roll(np.eye(C), 1, axis=1)
#: Share of wrong labels, and the transition matrix.
NOISES: dict[str, tuple[float, np.ndarray]] = {
    "none": (0.0, np.eye(C)),
    "symmetric 20 %": (0.2, symmetric_transition(C, 0.2)),
    "symmetric 50 %": (0.5, symmetric_transition(C, 0.5)),
    "pair flips 30 %": (0.3, 0.7 * np.eye(C) + 0.3 * NEXT),
}
#: Options of the head, None for a plain layer; the loss; the strength of the penalty on a learned matrix.
METHODS: dict[str, dict[str, Any]] = {
    "cross-entropy": {"head": None},
    "generalised cross-entropy": {"head": None, "loss": "generalised"},
    "forward correction, known noise": {"head": {"link": "softmax", "label_noise": "known"}},
    "softmax, learned rate": {"head": {"link": "softmax", "label_noise": "learn"}},
    "LegendreHead": {"head": {}},
    "LegendreHead, learned rate": {"head": {"label_noise": "learn"}},
    "LegendreHead, learned matrix": {"head": {"label_noise": "class-conditional"}},
    "LegendreHead, learned matrix, penalty": {"head": {"label_noise": "class-conditional"}, "penalty": 0.05},
}
#: All but the last.
DEFAULT_METHODS = tuple(METHODS)[:-1]
SETTINGS = {
    "width": 32,
    "epochs": 15,
    "batch": 512,
    "optimiser": "AdamW",
    "rate": 1e-3,
    "noise_rate": 3e-2,  # learning rate of what is learned of wrong labels
    "schedule": "cosine",
    "weight_decay": 0.01,
    "generalised_q": 0.7,
    "rows": None,
    "test_rows": None,
    "precision": "bfloat16 by autocast on CUDA, float32 elsewhere; links in float32",
}
TINY = {"width": 4, "epochs": 2, "batch": 32, "rows": 320, "test_rows": 200}


def network_of(method: str, noise: str, width: int, seed: int) -> VGG5:
    """A new network; its convolutions are initialised first, so that all methods of a seed start from the same ones."""
    torch.manual_seed(seed)
    head = METHODS[method]["head"]
    if head is None:
        return VGG5(width=width)
    if head.get("label_noise") == "known":
        share, matrix = NOISES[noise]
        head = head | {"label_noise": matrix if noise.startswith("pair") else share}
    return VGGTron(width=width, **head)


def loss_of(method: str, settings: Mapping[str, Any]) -> Callable[[nn.Module, Tensor, Tensor], Tensor]:
    """Training loss from a network, its log-probabilities and labels."""
    spec = METHODS[method]
    if spec.get("loss") == "generalised":  # (1 - p_y^q) / q
        q = settings["generalised_q"]
        return lambda net, log_p, y: (-torch.expm1(q * log_p.gather(1, y[:, None])) / q).mean()
    if penalty := spec.get("penalty"):
        return lambda net, log_p, y: nll_loss(log_p, y) + penalty * net.head.noise.matrix().diagonal().mean()
    return lambda net, log_p, y: nll_loss(log_p, y)


class SideBySide:
    """Networks that are trained on the same batches, all in one step."""

    def __init__(
        self, networks: dict[str, VGG5], x: Tensor, y: Tensor, settings: Mapping[str, Any], streams: bool
    ) -> None:
        self.device = x.device
        self.cuda = self.device.type == "cuda"
        self.x, self.y = x, y
        self.networks = {name: net.to(self.device).train() for name, net in networks.items()}
        if self.cuda:
            self.networks = {n: net.to(memory_format=torch.channels_last) for n, net in self.networks.items()}
        self.losses = {name: loss_of(name, settings) for name in networks}
        self.rows = torch.zeros(settings["batch"], dtype=torch.int64, device=self.device)
        self.streams = [torch.cuda.Stream(self.device) for _ in networks] if streams and self.cuda else []
        groups: dict[str, dict[str, Any]] = {}
        for net in self.networks.values():  # one optimiser for all: groups of the same name are joined
            for group in parameter_groups(net, network={"weight_decay": settings["weight_decay"]}):
                groups.setdefault(group["name"], {**group, "params": []})["params"] += group["params"]
        self.rates = {name: settings["noise_rate" if name == "noise" else "rate"] for name in groups}
        for name, group in groups.items():
            rate = self.rates[name]
            group["lr"] = torch.tensor(rate, device=self.device) if self.cuda else rate
        self.optimiser = torch.optim.AdamW(list(groups.values()), capturable=self.cuda)
        self.graph = None
        if self.cuda:
            start = {n: {k: v.clone() for k, v in net.state_dict().items()} for n, net in self.networks.items()}
            self.graph = capture_graph(self._step, self.device)
            # undo the warm-up steps
            for name, net in self.networks.items():
                net.load_state_dict(start[name])
            for state in self.optimiser.state.values():
                for value in state.values():
                    value.zero_()

    def _backward(self, name: str, images: Tensor, labels: Tensor) -> None:
        net = self.networks[name]
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.cuda, cache_enabled=False):
            log_p = net(images)
            loss = self.losses[name](net, log_p, labels)
        loss.backward()

    def _step(self) -> None:
        images, labels = self.x[self.rows], self.y[self.rows]
        self.optimiser.zero_grad(set_to_none=True)
        main = torch.cuda.current_stream(self.device) if self.streams else None
        for i, name in enumerate(self.networks):
            if main is None:
                self._backward(name, images, labels)
                continue
            self.streams[i].wait_stream(main)
            with torch.cuda.stream(self.streams[i]):
                self._backward(name, images, labels)
        for stream in self.streams:
            main.wait_stream(stream)
        self.optimiser.step()

    def step(self, rows: Tensor, decay: float) -> None:
        self.rows.copy_(rows)
        for group in self.optimiser.param_groups:
            rate = self.rates[group["name"]] * decay
            if self.cuda:
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        if self.graph is not None:
            self.graph.replay()
        else:
            self._step()


def learned_rates(networks: Mapping[str, VGG5]) -> dict[str, float]:
    """Shares of wrong labels, by the methods that have an idea of them."""
    return {name: net.head.noise_rate for name, net in networks.items() if getattr(net.head, "noise", None) is not None}


def trained(
    data: tuple[Tensor, Tensor, Tensor, np.ndarray], methods: Sequence[str], noise: str, seed: int,
    settings: Mapping[str, Any], options: argparse.Namespace,
) -> list[dict[str, Any]]:  # fmt: skip
    """Train all methods on labels of a seed, and test them."""
    x, x_test, y_test, true = data
    _, matrix = NOISES[noise]
    seen = flip_labels(true, matrix, random_state=seed)
    y = torch.as_tensor(seen, device=x.device)
    networks = {method: network_of(method, noise, settings["width"], seed) for method in methods}
    if options.compile:
        for net in networks.values():
            net.features.compile()
    began = time.perf_counter()
    trainer = SideBySide(networks, x, y, settings, options.streams)
    batch, epochs = settings["batch"], settings["epochs"]
    steps = len(x) // batch
    torch.manual_seed(seed)  # dropout
    order = torch.Generator().manual_seed(seed)
    rates = [learned_rates(networks)]
    for epoch in range(epochs):
        shuffled = torch.randperm(len(x), generator=order).to(x.device)
        for step in range(steps):
            done = (epoch * steps + step) / (epochs * steps)
            trainer.step(shuffled[step * batch : (step + 1) * batch], 0.5 * (1.0 + math.cos(math.pi * done)))
        rates.append(learned_rates(networks))
    seconds = time.perf_counter() - began
    runs = []
    for method, net in networks.items():
        log_p = log_probabilities(net, x_test)
        log_loss = float(nll_loss(log_p, y_test))
        if not math.isfinite(log_loss):
            raise ArithmeticError(f"log-loss of {method} with {noise}, seed {seed}, is {log_loss}.")
        run: dict[str, Any] = {
            "noise": noise,
            "seed": seed,
            "method": method,
            "wrong_share": float((seen != true).mean()),
            "accuracy": 100.0 * float((log_p.argmax(-1) == y_test).double().mean()),
            "log_loss": log_loss,
            "brier": float((log_p.exp() - one_hot(y_test, C)).square().sum(-1).mean()),
        }
        if method in rates[0]:
            off = net.head.noise_matrix.cpu().double() - torch.as_tensor(matrix)
            run |= {
                "rates": [epoch[method] for epoch in rates],  # before training, and after every epoch
                # mean over true classes of the total variation distance
                "matrix_error": float(off.abs().sum(1).mean() / 2.0),
            }
        runs.append(run)
    print(f"{noise}, seed {seed}: {len(methods)} networks in {seconds:.1f} s", flush=True)
    return runs


def images_of(
    dataset: str, settings: Mapping[str, Any], folder: Path | None, device: str
) -> tuple[Any, dict[str, Any]]:
    """Images on the device, centred and scaled by mean and deviation of all training pixels; and facts for the record."""
    images = load_images(dataset, folder)
    rows, test_rows = settings["rows"], settings["test_rows"]
    images = images._replace(
        train_images=images.train_images[:rows], train_labels=images.train_labels[:rows],
        test_images=images.test_images[:test_rows], test_labels=images.test_labels[:test_rows],
    )  # fmt: skip
    mean, deviation = float(images.train_images.mean()), float(images.train_images.std())

    def on_device(pixels: np.ndarray) -> Tensor:
        return ((torch.as_tensor(pixels, device=device).float() - mean) / deviation).unsqueeze(1)

    x, x_test = on_device(images.train_images), on_device(images.test_images)
    true = images.train_labels.astype(np.int64)
    return (x, x_test, torch.as_tensor(images.test_labels.astype(np.int64)), true), facts_of(dataset, images)


def sweep(options: argparse.Namespace, settings: Mapping[str, Any], methods: Sequence[str], seeds: int) -> None:
    """Train all that is not yet in the record."""
    began = time.perf_counter()
    record: dict[str, Any] = {"settings": dict(settings), "trial": options.tiny, "data": {}, "seconds": 0.0, "runs": []}
    if options.out.exists():
        before = json.loads(options.out.read_text())
        if before["settings"] != record["settings"]:
            raise SystemExit(f"{options.out} holds runs with other settings, {before['settings']}; use another file.")
        record |= before
    here = provenance(options.device)
    commits = dict.fromkeys(filter(None, [*str(record.get("commit") or "").split(", "), here["commit"]]))
    record |= here | {"commit": ", ".join(commits) or None, "command": command_of(options), "seeds": seeds}
    done = {(run["dataset"], run["noise"], run["seed"], run["method"]) for run in record["runs"]}
    spent, longest = float(record["seconds"]), 0.0
    torch.backends.cudnn.benchmark = True  # all batches have the same shape
    for dataset in options.datasets.split(","):
        wanted = [
            (noise, seed, [m for m in methods if (dataset, noise, seed, m) not in done])
            for seed in range(seeds)
            for noise in NOISES
        ]
        if not any(missing for _, _, missing in wanted):
            continue
        data, record["data"][dataset] = images_of(dataset, settings, options.data, options.device)
        for noise, seed, missing in wanted:
            if not missing:
                continue
            now = time.perf_counter() - began
            if options.seconds and now + 1.2 * longest > options.seconds:
                print(f"stopped after {now:.0f} s; the same command goes on from here", flush=True)
                return
            runs = trained(data, missing, noise, seed, settings, options)
            record["runs"] += [{"dataset": dataset, **run} for run in runs]
            passed = time.perf_counter() - began
            longest = max(longest, passed - now)
            record["seconds"] = round(spent + passed, 1)
            write_atomically(options.out, (json.dumps(rounded(record), indent=1) + "\n").encode())
    print(f"all done; {len(record['runs'])} runs in {record['seconds']} s", flush=True)


def command_of(options: argparse.Namespace) -> str:
    flags = [f"--{name}" for name in ("tiny", "streams", "compile") if getattr(options, name)]
    return " ".join(["python benchmarks/noisy_networks.py --data DIR --device", options.device, *flags])


# --- the report ---

LEARNED = ("softmax, learned rate", "LegendreHead, learned rate", "LegendreHead, learned matrix")
EXTRA = "LegendreHead, learned matrix, penalty"


def cells(record: Mapping[str, Any]) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """Runs of all seeds, by data set, noise and method, in the order of the tables."""
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for dataset in record["data"]:
        for noise in NOISES:
            for method in METHODS:
                own = [r for r in record["runs"] if (r["dataset"], r["noise"], r["method"]) == (dataset, noise, method)]
                if own:
                    found[dataset, noise, method] = sorted(own, key=lambda run: run["seed"])
    return found


def mean_in(runs: Sequence[Mapping[str, Any]], name: str) -> Mean | None:
    values = [run[name][-1] if name == "rates" else run[name] for run in runs if name in run]
    return mean_of(values) if values else None


def table(record: Mapping[str, Any]) -> str:
    """One row for each data set, noise and method; the best log-loss of each noise, known noise aside, is in bold."""
    found = cells(record)
    head = [
        "data set",
        "wrong labels",
        "method",
        "accuracy",
        "log-loss",
        "Brier score",
        "share of wrong labels",
        "matrix",
    ]
    lines = []
    for (dataset, noise, method), runs in found.items():
        rivals = [m for d, n, m in found if (d, n) == (dataset, noise) and "known" not in m]
        losses = {m: mean_in(found[dataset, noise, m], "log_loss").value for m in rivals}
        loss = as_text(mean_in(runs, "log_loss"), 4)
        learned = "learned" in method
        lines.append([
            record["data"][dataset]["label"], noise, method, as_text(mean_in(runs, "accuracy")),
            f"**{loss}**" if method == min(losses, key=losses.__getitem__) else loss,
            as_text(mean_in(runs, "brier"), 4),
            as_text(mean_in(runs, "rates"), 3) if learned else "",
            as_text(mean_in(runs, "matrix_error"), 3) if learned else "",
        ])  # fmt: skip
    return markdown_table(head, lines)


def picture_of_accuracy(record: Mapping[str, Any], path: Path) -> Path:
    """Accuracy against the share of wrong labels where they are symmetric, and beside it with pair flips."""
    found = cells(record)
    datasets = list(record["data"])
    panels = panels_for([record["data"][d]["label"] for d in datasets], (4.9 * len(datasets), 5.2))
    symmetric = [noise for noise in NOISES if not noise.startswith("pair")]
    for panel, dataset in zip(panels, datasets, strict=True):
        present = [m for m in METHODS if any((dataset, n, m) in found for n in NOISES)]
        for i, method in enumerate(present):
            colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
            shift = 0.7 * (i - (len(present) - 1) / 2)  # side by side, or they would hide each other
            for noises, label in ((symmetric, method), (["pair flips 30 %"], None)):
                own = [n for n in noises if (dataset, n, method) in found]
                means = [mean_in(found[dataset, n, method], "accuracy") for n in own]
                at = [(100 * NOISES[n][0] if noises is symmetric else 75.0) + shift for n in own]
                panel.errorbar(
                    at, [m.value for m in means], yerr=[2.0 * np.nan_to_num(m.error) for m in means], color=colour,
                    marker=marker, markersize=5, linewidth=1.2, capsize=2, label=label,
                )  # fmt: skip
        panel.axvline(62.5, color="0.8", linewidth=1)
        panel.set_xticks([0, 20, 50, 75], ["0 %", "20 %", "50 %", "pair flips\n30 %"])
        panel.set(xlabel="wrong labels in training", ylabel="test accuracy (%)")
        panel.set_ylim(top=min(panel.get_ylim()[1], 100.5))  # bars of a mean may go beyond what there is
        panel.grid(axis="y", color="0.9")
    return save_panels(panels, path, ncols=3, fontsize="small")


def picture_of_rates(record: Mapping[str, Any], path: Path) -> Path:
    """Share of wrong labels that was learned, over the epochs, by noise and method; the true one is dashed."""
    found = cells(record)
    datasets = list(record["data"])
    panels = panels_for([record["data"][d]["label"] for d in datasets], (4.9 * len(datasets), 4.8), sharey=True)
    for panel, dataset in zip(panels, datasets, strict=True):
        for i, (noise, (share, _)) in enumerate(NOISES.items()):
            panel.axhline(100 * share, color=COLOURS[i], linestyle="--", linewidth=1)
            for k, method in enumerate((*LEARNED, EXTRA)):
                runs = found.get((dataset, noise, method))
                if runs is None:
                    continue
                rates = 100 * np.mean([run["rates"] for run in runs], axis=0)
                panel.plot(rates, color=COLOURS[i], marker=MARKERS[k], markersize=4, linewidth=1)
        panel.set(xlabel="epoch", ylabel="share of wrong labels (%)", ylim=(-3, 93))
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.grid(color="0.93")
    last = panels[-1]
    for i, noise in enumerate(NOISES):
        last.plot([], [], color=COLOURS[i], label=noise)
    for k, method in enumerate((*LEARNED, EXTRA)):
        if any(key[2] == method for key in found):
            last.plot([], [], color="0.3", marker=MARKERS[k], linewidth=1, label=method)
    last.plot([], [], color="0.3", linestyle="--", label="the true share")
    return save_panels(panels, path, ncols=3, fontsize="small")


def render(path: Path) -> list[Path]:
    """Write ``report.md``, ``accuracy.png`` and ``rates.png`` beside the record."""
    record = json.loads(path.read_text())
    settings, runs = record["settings"], record["runs"]
    seeds = len({run["seed"] for run in runs})
    trial = "**A trial with other settings, not the experiment.** " if record["trial"] else ""
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    text = "\n\n".join([
        "# Networks on wrong labels",
        f"VGG-5 of width {settings['width']}; {settings['epochs']} epochs of {settings['optimiser']} on batches of "
        f"{settings['batch']}, rate {settings['rate']:g} ({settings['noise_rate']:g} for what is learned of wrong labels), "
        f"cosine schedule, no augmentation, the last weights. Test labels are right. Mean ± standard error over {seeds} "
        "seeds, which draw the initial weights, the wrong labels and the batches; all methods of a seed share them. "
        "Accuracy is in %. The share of wrong labels is what was learned of it, and the last column is how far the learned "
        "matrix is from the true one: the total variation distance, averaged over true classes. The best log-loss of those "
        "that do not know the noise is in bold. Generalised cross-entropy is that of Zhang and Sabuncu (2018) with "
        f"q = {settings['generalised_q']:g}. Forward correction knows the true rate or matrix. A penalty, where there is "
        f"one, is {METHODS[EXTRA]['penalty']:g} times the mean of the matrix's diagonal.",
        table(record),
        "![Test accuracy against the share of wrong labels](accuracy.png)",
        "![Learned share of wrong labels over the epochs](rates.png)",
        f"{trial}{len(runs)} runs by `{record['command']}`; device {record['device']}; commit {record['commit']}; "
        f"{versions}; {record['seconds']:,.0f} s in all.",
    ])  # fmt: skip
    folder = path.parent
    return [
        write_text(folder / "report.md", text),
        picture_of_accuracy(record, folder / "accuracy.png"),
        picture_of_rates(record, folder / "rates.png"),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with the folders mnist and fashion-mnist")
    parser.add_argument("--out", type=Path, help="JSON file to write, or to go on with")
    parser.add_argument("--render", type=Path, metavar="FILE", help="write report and pictures beside this record")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--methods", default="default", help="'default', 'all', or names separated by semicolons")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--width", type=int, help="channels of the first stage")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--seconds", type=float, help="start nothing that would end after so many")
    parser.add_argument("--streams", action="store_true", help="a CUDA stream for each network of a step")
    parser.add_argument("--compile", action="store_true", help="compile the convolutions")
    parser.add_argument("--tiny", action="store_true", help="a trial with few images, small networks and two seeds")
    options = parser.parse_args(arguments)
    if options.out is not None:
        settings = {**SETTINGS, **(TINY if options.tiny else {})}
        settings |= {name: getattr(options, name) for name in ("width", "epochs") if getattr(options, name)}
        named = {"default": DEFAULT_METHODS, "all": tuple(METHODS)}
        methods = named.get(options.methods) or tuple(options.methods.split(";"))
        if unknown := [method for method in methods if method not in METHODS]:
            parser.error(f"--methods has {unknown[0]!r}; known are {'; '.join(METHODS)}")
        sweep(options, settings, methods, min(options.seeds, 2) if options.tiny else options.seeds)
    elif options.render is None:
        parser.error("--out or --render is needed")
    if options.render is not None:
        for path in render(options.render):
            print(path)


if __name__ == "__main__":
    main()
