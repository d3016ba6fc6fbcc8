"""Questions of the pages on theory and results, a case for each.

OMP_NUM_THREADS=1 python benchmarks/questions.py link_test --data DIR --jobs 2 --out docs/results/link_test.json
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from scipy.ndimage import gaussian_filter
from scipy.special import expit, softmax
from scipy.stats import sem
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

import study
from harness import run_cases, show
from legendretron import LegendreTronClassifier, diagnostics
from legendretron.datasets import read_libsvm
from legendretron.diagnostics.softmax_test import score_test
from legendretron.links import CanonicalLink, CompositeLink, SoftmaxLink
from study import BASELINE, LOGISTIC, OURS, load

# --- which canonical families are worth their parameters? ---

DATASETS = ["letter", "vowel"]
STRENGTHS = (1e-4, 1e-3, 1e-2)
LINK_STRENGTH = 1e-4
SPLITS, STEPS, BATCH, RATE = 2, 800, 128, 0.03
NYSTROEM, HIDDEN = 300, 64
FEATURE_MAP, HIDDEN_LAYER = f"{NYSTROEM} Nystroem features", f"hidden layer of {HIDDEN}"


def with_last_logit(z: Tensor) -> Tensor:
    return torch.cat([z, torch.zeros_like(z[..., :1])], -1)


class LogSumExpNetwork(nn.Module):
    r"""Nesting of any depth: units :math:`y_j = \mu_j^{-1} \log \sum_i w_{ji} e^{\mu_j x_i}`, :math:`\sum_i w_{ji} = 1`.

    Each unit is convex and increasing, and adding a constant to all inputs adds it to the output; so is their composition,
    whose gradient lies in the simplex. For small :math:`\mu` a unit is an average, for a large one a maximum: with units
    enough, every convex function with gradients in the simplex is a limit of such networks. Two layers, the last of one
    unit, are the nested log-sum-exp.
    """

    def __init__(self, runs: int, widths: tuple[int, ...], spread: float) -> None:
        super().__init__()
        pairs = list(zip(widths, (*widths[1:], 1), strict=True))
        self.log_mu = nn.ParameterList([nn.Parameter(spread * torch.randn(runs, 1, m)) for _, m in pairs])
        self.logits = nn.ParameterList([nn.Parameter(spread * torch.randn(runs, 1, m, n)) for n, m in pairs])

    def forward(self, z: Tensor) -> Tensor:
        """Log-probabilities (R, n, C) from logits of all classes but the last, which is 0."""
        x, shares = with_last_logit(z), []
        for log_mu, logits in zip(self.log_mu, self.logits, strict=True):
            mu = log_mu.exp()
            inside = mu.unsqueeze(-1) * x.unsqueeze(-2) + torch.log_softmax(logits, -1)
            total = torch.logsumexp(inside, -1)
            shares.append(inside - total.unsqueeze(-1))  # of each input in the derivative of a unit
            x = total / mu
        log_p = shares.pop().squeeze(-2)
        while shares:  # the chain rule, in logarithms
            log_p = torch.logsumexp(log_p.unsqueeze(-1) + shares.pop(), -2)
        return log_p


class InfimalConvolution(nn.Module):
    r"""The link :math:`\psi(p) = \mathrm{logodds}(p) + \nabla G(\tilde p)` with a convex network ``G`` of probabilities.

    The potential is the infimal convolution of LogSumExp+ and :math:`G^*`. ``G`` has one hidden layer,
    :math:`\nabla G = A^\top (w \sigma(A \tilde p + b))` with :math:`w > 0`. Predictors to probabilities by Newton's method,
    derivatives by the implicit function theorem.
    """

    def __init__(self, runs: int, k: int, units: int) -> None:
        super().__init__()
        self.A = nn.Parameter(0.5 * torch.randn(runs, units, k))
        self.b = nn.Parameter(torch.randn(runs, 1, units))
        self.raw = nn.Parameter(torch.zeros(runs, 1, units))
        self.residual = 0.0

    def _at(self, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Predictors of log-odds ``u``, the probabilities, and the second derivatives of the units."""
        p = torch.softmax(with_last_logit(u), -1)[..., :-1]
        s = torch.sigmoid(p @ self.A.mT + self.b)
        w = nn.functional.softplus(self.raw)
        return u + (w * s) @ self.A, p, w * s * (1 - s)

    def _newton_step(self, u: Tensor, z: Tensor) -> Tensor:
        with torch.no_grad():
            at, p, curvature = self._at(u)
            A = self.A.unsqueeze(1)
            self.residual = float((at - z).abs().amax())
            # the Jacobian is I + A^T D A P with P that of softmax+: a system of the size of the hidden layer
            spread = A * p.unsqueeze(-2) - (p @ self.A.mT).unsqueeze(-1) * p.unsqueeze(-2)  # A P
            small = torch.eye(A.shape[-2]) + curvature.unsqueeze(-1) * (spread @ A.mT)
            inner = torch.linalg.inv(small) @ (curvature.unsqueeze(-1) * spread)
        residual = (self._at(u)[0] - z).unsqueeze(-1)  # with its graph
        return u - (residual - A.mT @ (inner @ residual)).squeeze(-1)

    def forward(self, z: Tensor) -> Tensor:
        u = z.detach()
        with torch.no_grad():
            for _ in range(4):
                u = self._newton_step(u, z)
        u = self._newton_step(u, z)
        return torch.log_softmax(with_last_logit(u), -1)


class Predictor(nn.Module):
    """Logits of all classes but the last, which is 0; linear, or with a hidden layer."""

    def __init__(self, runs: int, d: int, n_classes: int, hidden: int | None) -> None:
        super().__init__()
        self.first = None if hidden is None else nn.Parameter(torch.randn(runs, d, hidden) / d**0.5)
        self.shift = None if hidden is None else nn.Parameter(torch.zeros(runs, 1, hidden))
        self.W = nn.Parameter(torch.zeros(runs, d if hidden is None else hidden, n_classes - 1))
        self.b = nn.Parameter(torch.zeros(runs, 1, n_classes - 1))

    def forward(self, x: Tensor) -> Tensor:
        if self.first is not None:
            x = torch.tanh(x @ self.first + self.shift)
        return x @ self.W + self.b

    def penalty(self) -> Tensor:
        """Sum of squared weights of each run."""
        own = self.W.square().sum((1, 2))
        return own if self.first is None else own + self.first.square().sum((1, 2))


#: By name, from the number of runs and of classes.
MAKE_LINK: dict[str, Callable[[int, int], nn.Module]] = {
    "softmax": lambda runs, c: SoftmaxLink(c, run_shape=(runs,)),
    "nested log-sum-exp, 4 nests": lambda runs, c: CanonicalLink(c, 4, run_shape=(runs,)),
    "nested log-sum-exp, 16 nests": lambda runs, c: CanonicalLink(c, 16, run_shape=(runs,)),
    "log-sum-exp network, 16 and 8 units": lambda runs, c: LogSumExpNetwork(runs, (c, 16, 8), 0.5),
    "infimal convolution, 16 units": lambda runs, c: InfimalConvolution(runs, c - 1, 16),
    "composite": lambda runs, c: CompositeLink(c, n_blocks=2, hidden=8, depth=4, init="centred", run_shape=(runs,)),
}
#: Of the predictor, and of the link.
FAMILIES = [
    *(("linear", link) for link in MAKE_LINK),
    *((predictor, link) for predictor in (FEATURE_MAP, HIDDEN_LAYER) for link in list(MAKE_LINK)[:2]),
]


def draw_splits(X: np.ndarray, y: np.ndarray, kind: str) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
    """For each split, features and labels to train on, to choose by and to test on."""
    found = []
    for seed in range(SPLITS):
        rest, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed, stratify=y)
        train, held = train_test_split(rest, test_size=0.2, random_state=seed, stratify=y[rest])
        scaler = StandardScaler().fit(X[train])
        parts = [scaler.transform(X[rows]) for rows in (train, held, test)]
        if kind == FEATURE_MAP:
            features = Nystroem(gamma=0.5 / X.shape[1], n_components=min(NYSTROEM, len(train)), random_state=seed)
            features.fit(parts[0])
            scale = StandardScaler().fit(features.transform(parts[0]))
            parts = [scale.transform(features.transform(part)) for part in parts]
        found.append((parts, [y[rows] for rows in (train, held, test)]))
    return found


def train_family(kind: str, link_name: str, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Train all splits and strengths side by side; scores of the strength chosen in each split."""
    torch.manual_seed(0)
    splits, c = draw_splits(X, y, kind), int(y.max()) + 1
    runs = SPLITS * len(STRENGTHS)
    x_of = torch.stack([torch.as_tensor(parts[0], dtype=torch.float32) for parts, _ in splits])
    y_of = torch.stack([torch.as_tensor(labels[0]) for _, labels in splits])
    which = torch.arange(SPLITS).repeat_interleave(len(STRENGTHS)).unsqueeze(1)
    strength = torch.tensor(STRENGTHS).repeat(SPLITS)
    predictor = Predictor(runs, x_of.shape[2], c, HIDDEN if kind == HIDDEN_LAYER else None)
    link = MAKE_LINK[link_name](runs, c)
    of_link = [p for p in link.parameters() if p.requires_grad]
    centre = [p.detach().clone() for p in of_link]
    optimizer = torch.optim.Adam([*predictor.parameters(), *of_link], lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    began, generator = time.perf_counter(), torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        rows = torch.randint(x_of.shape[1], (runs, BATCH), generator=generator)
        log_p = link(predictor(x_of[which, rows]))
        nll = -log_p.gather(-1, y_of[which, rows].unsqueeze(-1)).mean((1, 2))
        distance = sum((p - start).square().sum() for p, start in zip(of_link, centre, strict=True))
        loss = (nll + 0.5 * strength * predictor.penalty()).sum() + 0.5 * LINK_STRENGTH * distance
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    seconds = time.perf_counter() - began
    _, held_out_loss = score_splits(predictor, link, splits, 1)
    chosen = held_out_loss.argmin(1, keepdim=True)
    accuracy, log_loss = (
        score.gather(1, chosen).squeeze(1).tolist() for score in score_splits(predictor, link, splits, 2)
    )
    found: dict[str, Any] = {
        "accuracy": statistics.fmean(accuracy),
        "accuracy_error": statistics.stdev(accuracy) / SPLITS**0.5,
        "log_loss": statistics.fmean(log_loss),
        "log_loss_error": statistics.stdev(log_loss) / SPLITS**0.5,
        "strengths": [STRENGTHS[i] for i in chosen.squeeze(1)],
        "seconds": seconds,
    }
    if isinstance(link, InfimalConvolution):
        found["residual"] = link.residual  # of Newton's method, on the rows tested last
    return found


@torch.no_grad()
def score_splits(predictor: Predictor, link: nn.Module, splits: Any, part: int) -> tuple[Tensor, Tensor]:
    """Accuracy in % and log-loss, (splits, strengths), on the rows to choose by (1) or to test on (2)."""
    x = torch.stack([torch.as_tensor(parts[part], dtype=torch.float32) for parts, _ in splits])
    y = torch.stack([torch.as_tensor(labels[part]) for _, labels in splits])
    x, y = (t.repeat_interleave(len(STRENGTHS), 0) for t in (x, y))
    log_p = torch.cat([link(predictor(rows)) for rows in x.split(500, 1)], 1)
    right = 100.0 * (log_p.argmax(-1) == y).double().mean(1)
    loss = -log_p.gather(-1, y.unsqueeze(-1)).squeeze(-1).double().mean(1)
    return right.view(SPLITS, -1), loss.view(SPLITS, -1)


def canonical_families(data: Path | None = None) -> dict[str, Any]:
    """Richer links that are exactly canonical, and capacity in the predictor instead: what was tried, with numbers.

    A link is canonical if its probabilities are the gradient of a convex function. Families that are so by construction are
    trained by the log-loss together with a linear predictor, and beside them the composite link, which is not, and predictors
    that are not linear, with canonical links. All are trained in the same way, for few steps: figures are to be compared with
    each other only. Data are split into 64 % to train on, 16 % to choose a strength of the penalty on the predictor's weights
    by, and 20 % to test on; all splits and strengths are trained side by side.
    """
    rows = []
    for dataset in DATASETS:
        X, y, facts = load(dataset, data)
        for kind, link in FAMILIES:
            found = train_family(kind, link, np.asarray(X), np.asarray(y))
            model = {"data": facts["label"], "model": f"{kind}, {link}", "canonical": link != "composite"}
            rows.append(show(model | found))
    settings = {"splits": SPLITS, "steps": STEPS, "batch": BATCH, "rate": RATE}
    return {"settings": {**settings, "strengths": STRENGTHS, "link_strength": LINK_STRENGTH}, "rows": rows}


# --- how often is softmax rejected? ---

#: Tables that take seconds.
TABLES = ["vowel", "vehicle", "glass", "wine", "svmguide2", "iris", "segment", "satimage", "breast cancer"]
CLASSES, ROWS, FEATURES = (2, 3, 5, 10, 20), (300, 1000, 5000), 10
BENDS = (0.0, 0.2, 0.5, 1.0)


def draw_labels(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (p.cumsum(1) < rng.random((len(p), 1))).sum(1).clip(max=p.shape[1] - 1)


def test_table(X: np.ndarray, p: np.ndarray, C: float, seed: int) -> float:
    """P-value of labels drawn from these probabilities, without classes of fewer rows than folds."""
    y = draw_labels(p, np.random.default_rng(seed))
    classes, counts = np.unique(y, return_counts=True)
    enough = np.isin(y, classes[counts >= 5])
    X, y = X[enough], np.unique(y[enough], return_inverse=True)[1]
    log_p = cross_val_predict(LogisticRegression(C=C, solver="newton-cholesky"), X, y, cv=5, method="predict_log_proba")
    return score_test(log_p, y, features=X).p_value


def test_made_up(n_classes: int, n: int, bend: float, seed: int) -> float:
    """P-value of a model of ``n`` made-up rows, by ``n`` others."""
    weight = np.random.default_rng(n_classes).normal(size=(FEATURES, n_classes)) * 2 / np.sqrt(FEATURES)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * n, FEATURES))
    z = X @ weight
    p = softmax(z + bend * np.sqrt(1 + z**2) * np.where(np.arange(n_classes) % 2, 1.0, -1.0), axis=1)
    y = draw_labels(p, rng)
    model = LogisticRegression(max_iter=300).fit(X[:n], y[:n])
    known = n + np.flatnonzero(np.isin(y[n:], model.classes_))
    return diagnostics.link_test(model, X[known], y[known]).p_value


def count_rejections(test: Callable[..., float], draws: int, jobs: int, *arguments: Any) -> dict[str, float]:
    values = Parallel(n_jobs=jobs)(delayed(test)(*arguments, seed) for seed in range(draws))
    return {"draws": draws, "rejected": float(np.mean(np.array(values) < 0.05))}


def link_test(data: Path | None = None, draws: int = 50, jobs: int = 1) -> dict[str, Any]:
    """How often the test of softmax rejects: where softmax is right, and where a known link is.

    *Size on tables*: labels are drawn from the probabilities of a logistic regression fitted to a table, its strength chosen
    by cross-validation, and the test is made on predictions that are cross-validated in five folds. The share of rejections
    at 5 % should be 0.05 or less.
    *Size and power on made-up rows*: features are normal, labels are drawn from a link bent by so much along each class,
    ``z + bend * sqrt(1 + z^2)``; a logistic regression is fitted to some rows and tested on as many others. Without a bend
    softmax is right, and eight times as many draws are made.
    """
    size, power = [], []
    for name in TABLES:
        X, y, facts = load(name, data)
        X = StandardScaler().fit_transform(X.toarray() if hasattr(X, "toarray") else X)
        model = LogisticRegressionCV(**{**LOGISTIC, "l1_ratios": (0,)}, max_iter=1000).fit(X, y)
        p, C = model.predict_proba(X), float(model.C_)
        size.append(show({"table": name, **facts, "C": C, **count_rejections(test_table, draws, jobs, X, p, C)}))
    for n_classes in CLASSES:
        for n in ROWS:
            for bend in BENDS:
                found = count_rejections(test_made_up, draws * (1 if bend else 8), jobs, n_classes, n, bend)
                power.append(show({"classes": n_classes, "rows": n, "bend": bend, **found}))
    return {"size": size, "power": power}


def usps_pixels(original: Path) -> dict[str, Any]:
    """How wide is the Gaussian that LIBSVM's images of usps were smoothed with?

    The original images are a LIBSVM file of 7,291, pixels from -1 to 1. LIBSVM's own, brought to the range from 0 to 1 and
    cut to 8 bits as torchvision does, are widely quoted to have a mean of 0.2469 and a standard deviation of 0.2989. Shows
    both for the original images after smoothing by Gaussians of several widths.
    """
    X, _ = read_libsvm(original, 256)
    ink = ((X + 1) / 2).reshape(-1, 16, 16)
    rows = []
    for width in (0.0, 0.5, 0.73, 0.74, 0.75, 0.76, 0.77, 1.0):
        smooth = gaussian_filter(ink, (0, width, width), mode="constant", truncate=8) if width else ink
        bits = np.floor(255 * np.clip(smooth, 0, 1)) / 255
        mean, deviation = round(float(bits.mean()), 4), round(float(bits.std()), 4)
        rows.append(show({"width": width, "mean": mean, "standard_deviation": deviation}))
    return {"quoted": {"mean": 0.2469, "standard_deviation": 0.2989}, "rows": rows}


# --- what does the default cost, and how far is its worst split, where the truth is known? ---


def curved(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Three classes with curved borders, and a fourth of 30 rows."""
    X = rng.normal(size=(12_000, 9))
    score = X[:, 0] + 0.6 * X[:, 1] ** 2 + 0.3 * X[:, 2] * X[:, 3] + 0.25 * rng.normal(size=len(X))
    y = np.digitize(score, [-0.3, 1.2])
    y[np.argsort(-(X[:, 4] + X[:, 5] + 0.3 * rng.normal(size=len(X))))[:30]] = 3
    return X, y


def logistic_truth(n: int, d: int, used: int) -> Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]:
    """Two classes whose log-odds are linear in some of the columns."""

    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(n, d)) / np.sqrt(1.0 + np.arange(d) / 20.0)
        return X, (rng.random(n) < expit(X[:, :used] @ rng.normal(size=used))).astype(int)

    return draw


def separable(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Four classes of 21 rows that planes tell apart."""
    y = np.arange(84) % 4
    return rng.normal(size=(4, 7))[y] * 2.5 + rng.normal(size=(84, 7)), y


MADE_UP = {
    "curved borders, a class of 30 rows": curved,
    "logistic, two classes": logistic_truth(5000, 70, 20),
    "logistic, few rows": logistic_truth(252, 751, 40),
    "separable": separable,
}


def made_up_tables(splits: int = 10) -> dict[str, Any]:
    """``LegendreTronClassifier()`` beside ``LogisticRegressionCV`` on the same splits, 80 % to train on, one thread."""
    study.warm_up(LegendreTronClassifier(random_state=0))
    rows = []
    for name, draw in MADE_UP.items():
        X, y = draw(np.random.default_rng(0))
        found: dict[str, list[dict[str, Any]]] = {OURS: [], BASELINE: []}
        for seed in range(splits):
            X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed, stratify=y)
            for model, runs in found.items():
                clf = LegendreTronClassifier(random_state=seed) if model == OURS else study.logistic()
                with threadpool_limits(1):
                    runs.append(study.fit_and_score(clf, X_train, y_train, X_test, y_test))
        losses = {model: [run["log_loss"] for run in runs] for model, runs in found.items()}
        times = [a["fit_seconds"] / b["fit_seconds"] for a, b in zip(*found.values(), strict=True)]
        row = {"table": name, "rows": len(X), "features": X.shape[1], "classes": len(np.unique(y)), "splits": splits}
        row |= {f"log_loss, {model}": round(statistics.fmean(one), 4) for model, one in losses.items()}
        row["difference_error"] = round(float(sem(np.subtract(*losses.values()))), 4)
        row["worst_to_median"] = round(max(losses[OURS]) / statistics.median(losses[OURS]), 3)
        rows.append(show({**row, "median_time_ratio": round(statistics.median(times), 2)}))
    return {"rows": rows}


if __name__ == "__main__":
    run_cases(canonical_families, link_test, usps_pixels, made_up_tables)
