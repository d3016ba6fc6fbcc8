"""``legendretron demo``: where a learned link helps, where logistic regression is as good, and networks beside boosting."""

from __future__ import annotations

import dataclasses
import inspect
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits  # a dependency of scikit-learn

from legendretron._internal.extras import import_extra
from legendretron.accelerate.predictions import row_probabilities
from legendretron.cli.command_options import DemoOptions
from legendretron.cli.evaluate import write_reliability
from legendretron.cli.outputs import check_is_named, check_writable
from legendretron.cli.summaries import choice_of, write_tuning
from legendretron.cli.terminal import Terminal, grid
from legendretron.diagnostics.scores import scores_of
from legendretron.estimators import LegendreNetClassifier, LegendreTronClassifier
from legendretron.links import CompositeLink

#: Principal components of each image; with all pixels, planes separate the digits well.
COMPONENTS = 5
_LOGISTIC, _OURS = "LogisticRegressionCV", "LegendreTronClassifier"
_BOOSTING, _NETWORKS = "HistGradientBoostingClassifier", "LegendreNetClassifier"
#: Standard errors from which a difference on the test rows is called one.
_CLEAR = 2.0


#: What the data are, and how they are loaded.
_DATA: dict[str, tuple[str, Callable[..., Any]]] = {
    "digits": (
        f"images of handwritten digits, each reduced from 64 pixels to its first {COMPONENTS} principal components. With so "
        "few features the ten classes overlap, and the boundaries between them are curved.",
        load_digits,
    ),
    "breast cancer": (
        "tumors with 30 measurements each, benign or malignant. A plane nearly separates the two classes, so logistic "
        "regression is enough.",
        load_breast_cancer,
    ),
}


def demo(terminal: Terminal, options: DemoOptions) -> None:
    """See :class:`~legendretron.cli.command_options.DemoOptions`."""
    import_extra("matplotlib", "drawing", "plots")
    check_is_named("--out", options.out)
    reliability, tuning = options.out / "reliability.png", options.out / "tuning.png"
    for picture in (reliability, tuning):
        check_writable(picture)
    terminal.note("compiling: after installation, this takes about half a minute ...")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:  # Numba uses one thread of a process
        waiting = other.submit(_compile_networks)
        _fit_shortly(LegendreTronClassifier(max_epochs=1, random_state=0))
        waiting.result()
    payload: dict[str, Any] = {}
    views: list[Any] = []
    for name, (about, load) in _DATA.items():
        X, X_test, y, y_test = _split(*load(return_X_y=True))
        terminal.note(f"{name}: {len(y) + len(y_test):,} {about} The models are trained on {len(y):,} of them.")
        if name == "digits":
            squeeze = PCA(COMPONENTS, random_state=0).fit(X)
            X, X_test = squeeze.transform(X), squeeze.transform(X_test)
        models, log_p = _fit_all(X, y, X_test, y_test, terminal)
        choice = choice_of(models[_OURS][0])
        scores = {model: of for model, (_, of) in models.items()}
        text = _describe(choice, scores, {model: -own[np.arange(len(own)), y_test] for model, own in log_p.items()})
        payload[name] = {"models": scores, "choice": choice, "text": text}
        views += [_view(name, scores), f"{text}\n"]
        if name == "digits":
            predictions = {model: np.exp(own) for model, own in log_p.items()}
            write_reliability(reliability, y_test, predictions)
            write_tuning(models[_OURS][0], tuning)
    closing = (
        f"pictures of the digits: {reliability} and {tuning}\n"
        "with your own data: legendretron fit data.csv --target label --out model.safetensors"
    )
    terminal.result({"datasets": payload, "plots": [str(reliability), str(tuning)]}, *views, closing)


def _fit_shortly(model: Any) -> None:
    """Compile what a fit needs; Numba keeps it on disk."""
    model.fit(np.random.default_rng(0).normal(size=(400, COMPONENTS)), np.arange(400) % 10)


def _compile_networks() -> None:
    """Compile what networks need, and predictions through a learned link."""
    _fit_shortly(LegendreNetClassifier(max_steps=50, random_state=0))
    # fitted models are in double precision if the data are
    if (predict := row_probabilities(CompositeLink(3, dtype=torch.float64), torch.float64)) is not None:
        predict(np.zeros((1, 2)), log=False, out=np.empty((1, 3)))


def _describe(choice: dict[str, Any], scores: dict[str, dict[str, float]], losses: dict[str, np.ndarray]) -> str:
    """What the numbers say, whatever they are."""

    def compare(model: str, other: str) -> tuple[str, str]:
        away = losses[model] - losses[other]
        ours, theirs = scores[model], scores[other]
        verdict = "better" if away.mean() < 0 else "worse"
        if abs(away.mean()) <= _CLEAR * away.std(ddof=1) / np.sqrt(len(away)):
            verdict = "not clearly different"
        numbers = f"log-loss {ours['log_loss']:.3f} and {theirs['log_loss']:.3f}"
        return verdict, f"{numbers}, {ours['accuracy']:.1%} and {theirs['accuracy']:.1%} right"

    verdict, pair = compare(_OURS, _LOGISTIC)
    linear = f"On the test rows it is {verdict}: {pair}."
    if choice["model"] == "logistic regression":
        linear = f"So both are logistic regression, each with the penalty that it chose: {pair}."
    verdict, pair = compare(_NETWORKS, _BOOSTING)
    return f"LegendreTron chose {choice['text']}.\n{linear}\nNetworks compared with boosting: {verdict}, {pair}."


def _split(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    parts = train_test_split(X, y, test_size=1 / 3, random_state=0, stratify=y)
    return parts[0], parts[1], parts[2], parts[3]


def _fit_all(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, terminal: Terminal
) -> tuple[dict[str, tuple[Any, dict[str, float]]], dict[str, np.ndarray]]:
    """All models with their scores on the test rows, and their log-probabilities there."""
    models = {
        _LOGISTIC: _logistic(),
        _OURS: LegendreTronClassifier(random_state=0),
        _BOOSTING: HistGradientBoostingClassifier(random_state=0),
        _NETWORKS: LegendreNetClassifier(random_state=0),
    }
    found, predicted = {}, {}
    for name, model in models.items():
        terminal.note(f"fitting {name} ...")
        # one core each: several threads on so small data wait for each other, the more so on a busy machine
        with threadpool_limits(1):
            began = time.perf_counter()
            model.fit(X, y)
            seconds = time.perf_counter() - began
            log_p = np.log(np.maximum(model.predict_proba(X_test), np.finfo(np.float64).tiny))
        found[name] = model, {**dataclasses.asdict(scores_of(y_test, log_p)), "seconds": seconds}
        predicted[name] = log_p
    return found, predicted


def _logistic() -> Any:
    """scikit-learn's logistic regression, with the strength of its penalty chosen by cross-validated log-loss as ours is."""
    settings: dict[str, Any] = {"Cs": 10, "scoring": "neg_log_loss", "max_iter": 1000}
    if "use_legacy_attributes" in inspect.signature(LogisticRegressionCV).parameters:  # scikit-learn 1.8 and later
        settings |= {"l1_ratios": (0,), "use_legacy_attributes": False}
    return make_pipeline(StandardScaler(), LogisticRegressionCV(**settings))


def _view(name: str, rows: dict[str, dict[str, float]]) -> Any:
    view = grid(name, "accuracy", "log-loss", "Brier", "calibration error", "seconds")
    for model, row in rows.items():
        scores = (f"{row[key]:z.4f}" for key in ("log_loss", "brier", "calibration_error"))
        view.add_row(model, f"{row['accuracy']:.2%}", *scores, f"{row['seconds']:.1f}")
    return view
