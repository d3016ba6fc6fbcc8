"""Speed and memory of what the library computes, beside a peer in the same run: a case for each part.

    OMP_NUM_THREADS=1 python benchmarks/speed.py training_speed --out docs/results/training_speed.json

Contestants take turns. Times are medians, on the CPU of processor time in one thread.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, nll_loss

from harness import call_apart, peak_mb, run_cases, show, take_turns
from large_table import made_up
from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.accelerate.inverse import link_from_log
from legendretron.accelerate.log_proba import log_proba
from legendretron.accelerate.steps import NLLStep
from legendretron.datasets import read_libsvm
from legendretron.estimators import linear
from legendretron.links import CanonicalLink, CompositeLink, Link, NoisyLink, SoftmaxLink, SymmetricNoise, make_link
from legendretron.losses import CanonicalLoss, CompositeLoss, Criterion, LogLoss
from legendretron.nn import LegendreHead
from legendretron.paper.vgg_network import VGG5, VGGTron
from legendretron.training import LinearModel, Sample, TrainingSettings, as_features, train
from legendretron.training.model import Penalty
from legendretron.training.step import Adam, Step, make_step
from legendretron.trons import PiecewiseLinearLink
from naive import naive_step
from study import Scaler

BATCH, GPU_BATCH = 64, 256
LINKS: dict[str, dict[str, Any]] = {
    "composite, ficnn": {"link": "composite"},
    "composite, hidden=8": {"link": "composite", "hidden": 8},
    "composite, cpflow": {"link": "composite", "network": "cpflow"},
    "canonical": {"link": "canonical"},
}


def new_link(name: str, n_classes: int) -> Link:
    """A link of ``LINKS``, or softmax."""
    settings = dict(LINKS.get(name, {"link": name}))
    return make_link(settings.pop("link"), n_classes, **settings)


# --- a training step of the engine ---

#: Features, classes, models, steps at once, and whether the plain implementation is beside it.
TRAINING = {
    "cpu": {
        "vehicle": (18, 4, 1, 64, True),
        "20 x vehicle": (18, 4, 20, 4, True),
        "letter": (16, 26, 1, 32, True),
        "20 x letter": (16, 26, 20, 2, True),
        "aloi": (128, 1000, 1, 4, True),
        "100,000 classes": (128, 100_000, 1, 1, False),
    },
    # where steps are captured, and one model leaves most of the device idle
    "cuda": {
        "letter": (16, 26, 1, 64, False),
        "20 x letter": (16, 26, 20, 64, False),
        "60 x letter": (16, 26, 60, 64, False),
        "aloi": (128, 1000, 1, 64, False),
        "20 x aloi": (128, 1000, 20, 32, False),
        "60 x aloi": (128, 1000, 60, 32, False),
    },
}
#: Links whose kernels on a GPU are compared with torch.compile.
COMPILED = ("composite, ficnn", "composite, hidden=8", "canonical")


def our_steps(
    link: str,
    d: int,
    n_classes: int,
    runs: int,
    n_steps: int,
    dtype: torch.dtype,
    device: str,
    by_compiler: bool = False,
) -> Callable[[], None]:
    """Some steps of the engine for all models, as a function to call; with torch.compile in place of our kernels."""
    rows, on = 4 * BATCH, {"dtype": dtype, "device": device}
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, d, generator=generator).numpy()
    features = as_features(x.astype(np.float32 if dtype == torch.float32 else np.float64), dtype, torch.device(device))
    links = [new_link(link, n_classes).to(dtype) for _ in range(runs)]
    model = LinearModel(torch.zeros(runs, d, n_classes - 1, **on), torch.zeros(runs, n_classes - 1, **on), links)
    strength = torch.full((runs,), 0.01, **on)
    penalty = Penalty(model, TrainingSettings(strength, strength, strength, [], penalize_intercept=True))
    optimizer, totals = Adam(model.flat), torch.zeros(2, runs, **on)
    rate = torch.full((runs, 1), 0.01, **on)
    plain = Step(model, features, penalty, optimizer, rate, totals, BATCH)
    if by_compiler:
        plain.kernels, model.nll_step = None, compile_nll_step(model.link)
    step = make_step(plain)
    if isinstance(step, Step):
        raise RuntimeError("this machine has neither compiled nor captured steps; install numba, or Triton for a GPU")
    shape = (n_steps, runs, BATCH)
    picked = torch.randint(rows, shape, generator=generator).to(device)
    labels = torch.randint(n_classes, shape, generator=generator).to(device)
    weight, rates = torch.full(shape, 1 / BATCH, **on), rate.mT.expand(n_steps, -1)
    return lambda: step.take_all(picked, labels, weight, rates)


def compile_nll_step(link: Link) -> NLLStep:
    """The gradients of a step by torch.compile, from the plain operations of a link."""
    parameters = list(link.parameters())
    log_proba = torch.compile(link._log_proba, dynamic=False)

    def step(z: Tensor, labels: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        with torch.enable_grad():
            leaf = z.detach().requires_grad_()
            log_p = log_proba(leaf)
            nll = -torch.gather(log_p, -1, labels.unsqueeze(-1)).squeeze(-1)
            dz, *gradients = torch.autograd.grad((nll * weight).sum(), [leaf, *parameters])
        return nll.detach(), log_p.detach().argmax(-1) == labels, dz, gradients

    return step


def training_speed(device: str = "cpu", rounds: int = 11, seconds: float = 0.1) -> dict[str, Any]:
    """Time of a training step, beside logistic regression and a plain implementation.

    A step is everything training does for a batch: gather the rows, predict, differentiate, penalize, update by Adam, keep
    the sums for the history. Steps are taken as training takes them: several at once where they are compiled. Logistic
    regression is the same engine with the softmax link.
    """
    rows = []
    for name, (d, n_classes, models, n_steps, with_naive) in TRAINING[device].items():
        for dtype in (torch.float64, torch.float32):
            make = partial(
                our_steps, d=d, n_classes=n_classes, runs=models, n_steps=n_steps, dtype=dtype, device=device
            )
            contestants = {link: make(link) for link in (*LINKS, "softmax")}
            if device != "cpu" and name == "20 x letter" and dtype == torch.float32:  # each takes a minute to compile
                contestants |= {f"{link}, torch.compile": make(link, by_compiler=True) for link in COMPILED}
            if with_naive:
                contestants["naive"] = naive_step(d, n_classes, BATCH)
            times = take_turns(contestants, rounds, seconds, device)
            naive = times.pop("naive", None)
            compiled = {link: times.pop(f"{link}, torch.compile", None) for link in COMPILED}
            for link, own in times.items():
                row = {
                    "shape": name.split(" x ")[-1],
                    "features": d,
                    "classes": n_classes,
                    "models": models,
                    "dtype": str(dtype).removeprefix("torch."),
                    "link": link,
                    **own.columns(n_steps),
                    "naive_ms_a_model": naive and round(naive.median, 3),
                    "times_faster": naive and round(models * naive.median * n_steps / own.median, 1),
                    "of_logistic_regression": round(own.median / times["softmax"].median, 2),
                }
                if by_compiler := compiled.get(link):
                    row["torch_compile_to_ours"] = round(by_compiler.median / own.median, 2)
                rows.append(show(row))
    naive = "float64, autograd.grad(create_graph=True) a block, one model at a time"
    return {"batch": BATCH, "naive": naive, "rows": rows}


def fit_mb(link: str, n_classes: int, precision: str) -> float:
    """Megabytes that a few epochs take beyond what Python, the libraries and compiled code do."""
    dtype, n, d = getattr(torch, precision), 640, 128

    def fit(c: int) -> float:
        features = as_features(np.random.default_rng(0).normal(size=(n, d)), dtype, torch.device("cpu"))
        labels, every_row = (torch.arange(n) * c // n).unsqueeze(0), torch.arange(n).unsqueeze(0)
        weight = torch.zeros(1, d, c - 1, dtype=dtype)
        model = LinearModel(weight, weight[:, 0].clone(), [new_link(link, c).to(dtype)])
        del weight
        one, generators = torch.ones(1, dtype=torch.float64), [torch.Generator().manual_seed(0)]
        settings = TrainingSettings(1e-3 * one, 1e-3 * one, 1e-2 * one, generators, max_epochs=2, batch_size=BATCH)
        train(model, Sample(features, every_row, labels, torch.ones(1, n, dtype=dtype)), settings)
        return peak_mb()

    before = fit(5)  # the compiled code is loaded then
    return fit(n_classes) - before


def fit_memory(classes: int = 100_000) -> dict[str, Any]:
    """Peak memory of a fit with many classes: each learned link beside logistic regression.

    Each fit is a process of its own: two epochs of minibatches of 64 on 640 rows of 128 features.
    """
    rows = []
    for precision in ("float64", "float32"):
        found = {link: call_apart(fit_mb, link, classes, precision) for link in ("softmax", *LINKS)}
        for link, mb in found.items():
            ratio = round(mb / found["softmax"], 2)
            rows.append(show({"link": link, "dtype": precision, "mb": round(mb), "of_logistic_regression": ratio}))
    return {"shape": [640, 128, classes], "rows": rows}


# --- a head, a loss and an inverse ---


def last_layer(features: int, n_classes: int) -> tuple[Any, ...]:
    """A plain layer, a head, the shape of a row, and the classes."""
    return (
        lambda: nn.Sequential(nn.Linear(features, n_classes), nn.LogSoftmax(dim=-1)),
        lambda settings: LegendreHead(features, n_classes, **settings),
        (features,),
        n_classes,
    )


NETWORKS: dict[str, dict[str, tuple[Any, ...]]] = {
    "cuda": {"vgg5": (VGG5, lambda settings: VGGTron(**settings), (1, 28, 28), 10), "head": last_layer(2048, 1000)},
    "cpu": {"letter": last_layer(16, 26), "aloi": last_layer(128, 1000)},
}
PLAIN = "linear, log-softmax"


def saved_numbers(model: nn.Module, x: Tensor) -> int:
    """How many numbers a forward pass keeps for the backward pass, parameters not counted."""
    own = {parameter.data_ptr() for parameter in model.parameters()}
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in own:
            sizes[tensor.data_ptr()] = tensor.numel()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(x)
    return sum(sizes.values())


def training_step(
    model: nn.Module, shape: tuple[int, ...], n_classes: int, batch: int, device: str, mode: str
) -> Callable[[], None]:
    """A step as a function to call; on CUDA the input requires a gradient if it stands for features of a network."""
    model = model.to(device).train()
    x = torch.randn(batch, *shape, device=device, requires_grad=len(shape) == 1 and device == "cuda")
    y = torch.randint(n_classes, (batch,), device=device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, capturable=mode == "graph")
    forward = torch.compile(model, fullgraph=True) if mode == "compiled" else model

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        x.grad = None
        nll_loss(forward(x), y).backward()
        optimizer.step()

    if mode != "graph":
        return step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay(keep: object = step) -> None:  # what the graph reads must not be freed
        graph.replay()

    return replay


def head_speed(device: str = "cpu", rounds: int = 11, seconds: float = 0.15) -> dict[str, Any]:
    """Time of a network's training step with a LegendreHead, beside a linear layer with log-softmax.

    A step is everything: forward, log-loss, backward, Adam (torch's fused one). On CUDA, batches of 256: VGG-5 on 28 x 28
    images, ten classes; and the last layer alone, 1000 classes on 2048 features, as behind a ResNet-50, the features'
    gradient included. Each as a plain loop, where the processor's time to launch kernels counts as well; captured as a CUDA
    graph, which is the time of the GPU alone; and compiled, where torch.compile makes kernels of its own. On the CPU,
    batches of 64: the last layer alone, of the shape of letter and of aloi, with the plain implementation of ``naive.py``
    beside it, which is in float64. Numbers that a layer saves for its backward pass are counted, without its parameters.
    """
    batch, rows = GPU_BATCH if device == "cuda" else BATCH, []
    for network, (plain, headed, shape, n_classes) in NETWORKS[device].items():
        for mode in ("eager", "graph", "compiled") if device == "cuda" else ("eager",):
            torch.compiler.reset()
            links = LINKS if mode != "compiled" else {"composite, ficnn": LINKS["composite, ficnn"]}
            models = {PLAIN: plain(), **{name: headed(settings) for name, settings in links.items()}}
            contestants = {
                name: training_step(model, shape, n_classes, batch, device, mode) for name, model in models.items()
            }
            saved = {}
            if mode == "eager" and len(shape) == 1:
                x = torch.randn(batch, *shape, device=device)
                saved = {name: saved_numbers(model, x) for name, model in models.items()}
            if device == "cpu":
                contestants["naive"] = naive_step(*shape, n_classes, batch)
            found = take_turns(contestants, rounds, seconds, device)
            for name, times in found.items():
                row: dict[str, Any] = {"network": network, "mode": mode, "last layer": name, **times.columns()}
                row["to plain"] = round(times.median / found[PLAIN].median, 3)
                if "naive" in found:
                    row["of naive"] = round(found["naive"].median / times.median, 3)
                if name in saved:
                    row["saved to plain"] = round(saved[name] / saved[PLAIN], 3)
                rows.append(show(row))
    precision = "float32, torch's defaults: TF32 in convolutions, not in matrix products"
    return {"batch": batch, "precision": precision, "rows": rows}


LOSSES: dict[str, Callable[[int], Criterion]] = {
    "log-loss": lambda c: LogLoss(),
    "softmax": lambda c: CanonicalLoss(SoftmaxLink(c)),
    "canonical, 4 nests": lambda c: CanonicalLoss(CanonicalLink(c)),
    "canonical, 1 nest": lambda c: CanonicalLoss(CanonicalLink(c, n_nests=1)),
    "softmax with noise": lambda c: CanonicalLoss(NoisyLink(SoftmaxLink(c), SymmetricNoise(c, 0.2, learned=False))),
}
OF_TWO: dict[str, Callable[[int], Criterion]] = {
    "composite": lambda c: CanonicalLoss(CompositeLink(c)),
    "table": lambda c: CanonicalLoss(PiecewiseLinearLink([-2.0, 0.0, 1.0], [0.1, 0.6, 0.9]).float()),
}
OF_MANY: dict[str, Callable[[int], Criterion]] = {"composite, its log-loss": lambda c: CompositeLoss(CompositeLink(c))}


def loss_speed(device: str = "cpu", rounds: int = 15, seconds: float = 0.05) -> dict[str, Any]:
    """Time of forward and backward of the losses of links, beside torch.nn.functional.cross_entropy.

    Both get the logits of all classes, float32, which require a gradient, and integer labels.
    """

    def step_of(loss: Callable[[Tensor, Tensor], Tensor], logits: Tensor, y: Tensor) -> Callable[[], None]:
        def step() -> None:
            logits.grad = None
            loss(logits, y).backward()

        return step

    sizes, rows = [(256, 2), (256, 10), (256, 1000), (65_536, 2), (65_536, 10)], []
    for n, c in [*sizes, (65_536, 1000)] if device == "cuda" else sizes:
        logits = torch.randn(n, c).to(device).requires_grad_()
        y = torch.randint(c, (n,)).to(device)
        contestants = {"cross_entropy": step_of(cross_entropy, logits, y)}
        for name, make in {**LOSSES, **(OF_TWO if c == 2 else OF_MANY)}.items():
            contestants[name] = step_of(make(c).to(device), logits, y)
        found = take_turns(contestants, rounds, seconds, device)
        for name, times in found.items():
            ratio = round(times.median / found["cross_entropy"].median, 2)
            rows.append(show({"rows": n, "classes": c, "loss": name, **times.columns(), "ratio": ratio}))
    return {"rows": rows}


def inverse_speed(rounds: int = 9, seconds: float = 0.05, n_rows: int = 1000) -> dict[str, Any]:
    """Time of a composite link's inverse, from probabilities to predictors, beside its forward map.

    Links have random parameters, and predictors are normal. "plain" is Newton's method in the dimension of the classes, by
    operations of torch. The error is that of predictors that went forth and back.
    """
    rows = []
    for c, hidden in ((10, 2), (10, 8), (1000, 2), (1000, 8)):
        generator = torch.Generator().manual_seed(0)
        link = CompositeLink(c, hidden=hidden, init="paper", generator=generator, dtype=torch.float64)
        link.requires_grad_(False)
        z = 2.0 * torch.randn(n_rows, c - 1, generator=generator, dtype=torch.float64)
        p = link.inverse(z)
        contestants = {
            "forward": lambda link=link, z=z: log_proba(link, z).exp(),
            "inverse": lambda link=link, p=p: link_from_log(link, p.log()),
            "inverse, plain": lambda link=link, p=p: link.link(p),
        }
        error = float((contestants["inverse"]() - z).abs().max())
        found = take_turns(contestants, rounds, seconds)
        for name, times in found.items():
            row = {"classes": c, "hidden": hidden, "n": n_rows, "map": name, **times.columns()}
            row["ratio"] = round(times.median / found["forward"].median, 2)
            rows.append(show(row | ({"largest_error": float(f"{error:.1g}")} if name == "inverse" else {})))
    return {"rows": rows}


# --- predict_proba ---

#: Rows, features, classes.
PREDICTED = {
    "letter": (10_000, 16, 26),
    "aloi": (10_000, 128, 1000),
    "10 classes": (1_000_000, 50, 10),
    "two classes": (100_000, 50, 2),
    "one row, letter": (1, 16, 26),
    "one row, aloi": (1, 128, 1000),
}
PREDICTING: dict[str, dict[str, Any]] = {
    "composite, hidden=2": {"link_params": {"hidden": 2}},
    "composite, hidden=8": {"link_params": {"hidden": 8}},
    "canonical": {"link": "canonical"},
    "softmax": {"link": "softmax"},
}
THEIRS = "LogisticRegression"


def fitted_models(d: int, c: int, dtype: str, names: list[str]) -> dict[str, Any]:
    """Estimators by name, with random weights: predictions take the same time for any."""
    rng = np.random.default_rng(0)
    n = max(2 * c, 60)
    X, y = rng.normal(size=(n, d)).astype(dtype), np.arange(n) % c
    weight = (rng.normal(size=(c, d)) / np.sqrt(d)).astype(dtype)
    found: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            if name == THEIRS:
                model = LogisticRegression(max_iter=1).fit(X, y)
            else:
                strength = {} if name == "softmax" else {"link_alpha": 1e-3}
                model = LegendreTronClassifier(alpha=1e-3, max_epochs=1, random_state=0, **strength, **PREDICTING[name])
                model.fit(X, y)
                generator = torch.Generator().manual_seed(0)
                with torch.no_grad():
                    for p in model.link_.parameters():
                        p += 0.1 * torch.randn(p.shape, generator=generator, dtype=p.dtype)
            model.coef_ = weight[: len(model.coef_)].copy()
            found[name] = model
    return found


def predict_plainly(model: Any, X: np.ndarray) -> Any:
    """The same prediction by operations of torch."""
    with patch.object(linear, "row_probabilities", lambda link, dtype: None):
        return model.predict_proba(X)


def onnx_prediction(model: Any, X: np.ndarray) -> Callable[[], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        model.to_onnx(path)
        session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(["probabilities"], {"X": X})


def prediction_mb(name: str, shape: tuple[int, int, int], dtype: str) -> float:
    """Megabytes that a prediction takes beyond its input."""
    n, d, c = shape
    model = fitted_models(d, c, dtype, [name])[name]
    X, rng = np.empty((n, d), dtype), np.random.default_rng(1)
    for start in range(0, n, 10_000):
        X[start : start + 10_000] = rng.normal(size=X[start : start + 10_000].shape)
    model.predict_proba(X[:1000])
    before = peak_mb()
    model.predict_proba(X)
    return peak_mb() - before


def prediction_speed(rounds: int = 15, seconds: float = 0.05) -> dict[str, Any]:
    """Time and memory of predict_proba, beside scikit-learn's LogisticRegression and ONNX Runtime (extra ``export``).

    Memory is the highest that a process of its own has used, less that before the call. "plain" is the same prediction by
    operations of torch.
    """
    rows = []
    for case, (n, d, c) in PREDICTED.items():
        for dtype in ("float64", "float32"):
            X = np.random.default_rng(1).normal(size=(n, d)).astype(dtype)
            models = fitted_models(d, c, dtype, [*PREDICTING, THEIRS])
            contestants = {name: partial(model.predict_proba, X) for name, model in models.items()}
            for name in ("composite, hidden=2", "canonical"):
                contestants[f"{name}, plain"] = partial(predict_plainly, models[name], X)
                contestants[f"{name}, ONNX Runtime"] = onnx_prediction(models[name], X)
            found = take_turns(contestants, max(3, rounds // 3) if n * c >= 10**7 else rounds, seconds)
            large = models if n >= 1_000_000 else ()
            peaks = {name: call_apart(prediction_mb, name, (n, d, c), dtype) for name in large}
            for name, times in found.items():
                row = {"case": case, "rows": n, "features": d, "classes": c, "dtype": dtype, "model": name}
                row |= {**times.columns(), "ratio": round(times.median / found[THEIRS].median, 2)}
                if name in peaks:
                    row |= {"peak_mb": round(peaks[name], 1), "memory_ratio": round(peaks[name] / peaks[THEIRS], 2)}
                rows.append(show(row))
    return {"rows": rows}


# --- logistic regression ---

OURS, ITERATIONS = "MultinomialLogisticClassifier", 2000


class Problem(NamedTuple):
    """A table, and what both models are told."""

    name: str
    X: Any
    y: np.ndarray
    alpha: float
    tol: float
    standardize: bool = False
    weights: np.ndarray | None = None


def largest_gradient(problem: Problem, X: Any, coef: np.ndarray, intercept: np.ndarray) -> float:
    """Largest entry of the gradient, of coefficients (C, d) for features as they were trained on."""
    weights = np.ones(len(problem.y)) if problem.weights is None else problem.weights
    residual = np.exp(log_softmax(np.asarray(X @ coef.T) + intercept, axis=1))
    residual[np.arange(len(problem.y)), problem.y] -= 1.0
    residual *= (weights / weights.sum())[:, None]
    of_coef = np.asarray(X.T @ residual).T + problem.alpha * (coef - coef.mean(0))
    return float(max(np.abs(of_coef).max(), np.abs(residual.sum(0)).max()))


def fit_ours(problem: Problem) -> Any:
    settings = {"alpha": problem.alpha, "tol": problem.tol, "standardize": problem.standardize}
    model = MultinomialLogisticClassifier(**settings, max_epochs=ITERATIONS)
    return model.fit(problem.X, problem.y, sample_weight=problem.weights)


def solution_of_ours(model: Any, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients in the units of training; the reference class has none."""
    coef, intercept = model.coef_, model.intercept_
    if problem.standardize:
        units = Scaler().fit(problem.X, sample_weight=problem.weights)
        if units.with_mean:
            intercept = intercept + coef @ units.mean_
        coef = coef * units.scale_
    return np.vstack([coef, np.zeros(coef.shape[1])]), np.append(intercept, 0.0)


def fit_theirs(problem: Problem) -> Any:
    total = len(problem.y) if problem.weights is None else problem.weights.sum()
    model = LogisticRegression(C=1.0 / (problem.alpha * total), tol=problem.tol, max_iter=ITERATIONS)
    if not problem.standardize:
        return model.fit(problem.X, problem.y, sample_weight=problem.weights)
    return make_pipeline(Scaler(), model).fit(problem.X, problem.y)[-1]


def compare(problem: Problem, rounds: int) -> dict[str, Any]:
    """Times of both, in turns, and where they have ended."""
    contestants: dict[str, tuple[Callable[[Problem], Any], Callable[..., Any]]] = {
        OURS: (fit_ours, solution_of_ours),
        THEIRS: (fit_theirs, lambda model, problem: (model.coef_, model.intercept_)),
    }
    found: dict[str, Any] = {name: {"all_seconds": [], "all_processor_seconds": []} for name in contestants}
    X = Scaler().fit_transform(problem.X) if problem.standardize else problem.X
    for _ in range(rounds):
        for name, (fit, solution) in contestants.items():
            began = time.perf_counter(), time.process_time()
            fitted = fit(problem)
            found[name]["all_seconds"].append(time.perf_counter() - began[0])
            found[name]["all_processor_seconds"].append(time.process_time() - began[1])
            found[name]["iterations"] = int(np.max(fitted.n_iter_))
            found[name]["gradient"] = largest_gradient(problem, X, *solution(fitted, problem))
    for own in found.values():
        own |= {name: statistics.median(own[f"all_{name}"]) for name in ("seconds", "processor_seconds")}
    ratios = {name: found[OURS][name] / found[THEIRS][name] for name in ("seconds", "processor_seconds")}
    show({"case": problem.name, **ratios})
    shape = [*problem.X.shape, int(problem.y.max()) + 1]
    told = {"case": problem.name, "shape": shape, "alpha": problem.alpha, "tol": problem.tol}
    return {**told, "models": found, "ratios": ratios}


def logistic_speed(data: Path | None = None, rounds: int = 3) -> dict[str, Any]:
    """Time of logistic regression to a given gradient, beside scikit-learn's LogisticRegression.

    Two tables: made-up rows of 50 features and five classes, dense, and, where ``data`` is its folder, news20, sparse, with
    62,000 features and 20 classes. Both models minimize the same objective, and both stop where no entry of the gradient of
    the mean loss is above the same number; the gradient of each solution is computed once more, by the same code, and
    recorded. Variants: features in standard units (in scikit-learn, by a StandardScaler before), weights of the rows. There
    are wall-clock and processor times; where other programs run on the machine, the latter say more.
    """
    X, y = made_up(1_000_000, seed=0)
    weights = np.random.default_rng(0).uniform(0.5, 1.5, len(y))
    dense = Problem("dense", X, y, 1.0 / len(y), 1e-6)
    problems = [
        dense,
        dense._replace(name="dense, standard units", standardize=True),
        dense._replace(name="dense, weights", weights=weights),
    ]
    if data:
        X, y = read_libsvm(data / "news20.scale.bz2", dense=False)
        sparse = Problem("news20", X, np.unique(y, return_inverse=True)[1], 1.0 / X.shape[0], 1e-4)
        problems += [
            sparse,
            sparse._replace(name="news20, gradient of 1e-6", tol=1e-6),
            sparse._replace(name="news20, standard units", standardize=True, alpha=0.01),
        ]
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for problem in problems:  # compiled functions are compiled, or read from disk, by their first call
            weights = None if problem.weights is None else problem.weights[:600]
            fit_ours(problem._replace(X=problem.X[:600], y=problem.y[:600], weights=weights))
        return {"cases": [compare(problem, rounds) for problem in problems]}


if __name__ == "__main__":
    run_cases(training_speed, head_speed, loss_speed, prediction_speed, inverse_speed, logistic_speed, fit_memory)
