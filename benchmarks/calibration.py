"""LegendreCalibrator() and other calibrators on the same predictions: log-loss, calibration errors, time.

    python benchmarks/calibration.py --data DIR --out docs/results/calibration

Cases are predictions of three public networks, and of four kinds of classifiers trained here on six data sets, each with one
to three sizes of the calibration set; and predictions that are right but for a temperature, made up, or those of the networks
with labels drawn from them. A split draws the rows to calibrate and up to 5,000 others to test. A run is one
calibrator on one split, in one process with one thread. Other calibrators come with ``pip install '.[experiments]'``, or are
in ``peer_calibrators.py``.
"""

from __future__ import annotations

import functools
import gc
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import peer_calibrators
import study
from legendretron import LegendreCalibrator
from legendretron.datasets import load_images
from legendretron.diagnostics.binned_calibration import CalibrationCurve
from legendretron.experiments import Record, Resources, Run
from legendretron.experiments.experiment import MissingDataError, OnDownload
from legendretron.experiments.recipes import make_recipe
from legendretron.experiments.rendering import markdown_table, panels_for, save_picture
from legendretron.experiments.results import Results
from legendretron.paper.data import find_data, load_prepared
from study import NOT_RUN

NETWORKS = ("lenet-5-cifar-10", "wideresnet-16-4-cifar-10", "lenet-5-cifar-100")
#: Rows to train on; all others are to calibrate and to test.
TRAINING_ROWS = {"letter": 4000, "mnist": 4000, "fashion-mnist": 4000, "usps": 2000, "digits": 600, "vehicle": 300}
IMAGES = ("mnist", "fashion-mnist")
#: Of the images, the last so many.
IMAGE_ROWS = 14_000
#: Numbers of classes of made-up predictions: logits are normal, and labels drawn from them.
MADE_UP = (3, 10, 30, 100, 200)
#: Standard deviation of the logits, the factor by which predictions are then too certain, and rows.
SPREAD, TOO_CERTAIN, MADE_UP_ROWS = 2.0, 2.0, 6000
DRAWN = ", labels drawn"
SIZES = (200, 1000, 5000)
RIGHT_SIZES = (300, 1000)
TEST_ROWS = 5000
#: Of each data set, sizes of calibration sets that leave enough rows to test on.
SIZES_OF = {"digits": (200,), "vehicle": (200,), "usps": (200, 1000)}

CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
    # trained without a penalty until it is sure of everything
    "mlp": lambda: make_pipeline(StandardScaler(), MLPClassifier((100,), alpha=0.0, max_iter=60, random_state=0)),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=40, random_state=0),
    "forest": lambda: RandomForestClassifier(100, random_state=0),
}


REAL = (*NETWORKS, *(f"{data} {kind}" for data in TRAINING_ROWS for kind in CLASSIFIERS))
#: Cases in which temperature scaling is exactly right.
RIGHT = (*(f"made up, {c} classes" for c in MADE_UP), *(f"{name}{DRAWN}" for name in NETWORKS))
#: Half of the classifiers, drawn by seed, on which the constants of ``LegendreCalibrator`` were chosen, with other splits.
CHOSEN_ON = frozenset(np.random.default_rng(0).permutation(REAL)[: len(REAL) // 2].tolist())


def sizes_of(name: str) -> tuple[int, ...]:
    if name in RIGHT:
        return RIGHT_SIZES
    return (5000,) if name in NETWORKS else SIZES_OF.get(name.split()[0], SIZES)


def find(name: str, resources: Resources, on_download: OnDownload) -> str:
    name = name.removesuffix(DRAWN)
    if name in RIGHT:
        return "complete"
    if name in NETWORKS:
        if _network_file(name, resources.data) is None:
            raise MissingDataError(
                f"{name} needs {name}.npz with predictions and ground_truth, of EFS-OpenSource/calibration-framework, in "
                "logits/ of the folder given by --data."
            )
        return "complete"
    data = name.split()[0]
    return "complete" if data == "digits" else find_data(data, resources, on_download)


def _network_file(name: str, folder: Path | None) -> Path | None:
    path = None if folder is None else folder / "logits" / f"{name}.npz"
    return path if path is not None and path.exists() else None


def _table(data: str, folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    if data == "digits":
        X, y = load_digits(return_X_y=True)
        return X / 16.0, y
    if data in IMAGES:
        images = load_images(data, folder)
        X = np.concatenate([images.train_images, images.test_images])[-IMAGE_ROWS:]
        return X.reshape(len(X), -1) / 255.0, np.concatenate([images.train_labels, images.test_labels])[-IMAGE_ROWS:]
    found = load_prepared(data, folder)
    return np.asarray(found.X, dtype=float), found.y


@functools.lru_cache(maxsize=1)  # the next run is of the same case
def load(name: str, folder: Path | None) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Predictions ``(n, C)`` on rows that the classifier was not trained on, labels from 0, and facts about both."""
    p, y = _predictions(name, folder)
    return p, y, {"rows": len(y), "classes": p.shape[1], "label": name}


def _predictions(name: str, folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    if name.endswith(DRAWN):
        p, _ = _load_network(name.removesuffix(DRAWN), folder)
        return p, _draw_labels(np.log(np.maximum(p, 1e-300)), np.random.default_rng(0))
    if name in RIGHT:
        rng, n_classes = np.random.default_rng(0), int(name.split()[2])
        logits = SPREAD * rng.normal(size=(MADE_UP_ROWS, n_classes))
        return softmax(TOO_CERTAIN * logits, axis=1), _draw_labels(logits, rng)
    if name in NETWORKS:
        return _load_network(name, folder)
    data, kind = name.split()
    X, y = _table(data, folder)
    train, rest = train_test_split(np.arange(len(y)), train_size=TRAINING_ROWS[data], random_state=0, stratify=y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # good enough to be calibrated
        model = CLASSIFIERS[kind]().fit(X[train], y[train])
    return model.predict_proba(X[rest]), y[rest]


def _draw_labels(logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    labels: np.ndarray = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return labels


def _load_network(name: str, folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    path = _network_file(name, folder)
    assert path is not None
    with np.load(path) as file:
        p, y = file["predictions"].astype(np.float64), file["ground_truth"].ravel().astype(int)
    return p / p.sum(axis=1, keepdims=True), y


def split(n: int, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to calibrate and rows to test."""
    order = np.random.default_rng(seed).permutation(n)
    return order[:size], order[size:][-TEST_ROWS:]


OURS, PRESERVED = "LegendreCalibrator", "LegendreCalibrator, order preserved"
UNCALIBRATED, TEMPERATURE, SMS = "uncalibrated", "temperature", "SMS"
#: Probabilities below this count as this in the log-loss: some calibrators say zero.
LEAST = 1e-15
LEVEL = 0.05
#: Range of the picture, in percent.
_SHOWN = (-35, 10)
#: Name in the records, title, digits, and factor.
MEASURES = {
    "log_loss": ("log-loss", 4, 1.0),
    "brier": ("Brier score", 4, 1.0),
    "classwise_error": ("classwise calibration error, %", 3, 100.0),
    "smooth_error": ("smooth calibration error, %", 2, 100.0),
    "accuracy": ("accuracy, %", 2, 1.0),
}

Cell = tuple[str, int]


def _means(results: Results, cells: Sequence[Cell], models: Sequence[str], name: str) -> pd.DataFrame:
    """Means over splits, a row for each cell and a column for each model; NaN where it was not run."""
    values = [
        [mean.value if (mean := results.mean((*cell, model), name)) else np.nan for model in models] for cell in cells
    ]
    return pd.DataFrame(values, [f"{case}, {size:,}" for case, size in cells], models)


def _format_table(head: str, values: pd.DataFrame, digits: int, best: pd.DataFrame) -> str:
    """A table of numbers, the best of them in bold."""
    texts = values.map(lambda value: NOT_RUN if np.isnan(value) else f"{value:.{digits}f}")
    texts = texts.mask(best, "**" + texts + "**")
    return markdown_table(
        [head, *texts], [[name, *line] for name, line in zip(texts.index, texts.to_numpy(), strict=True)]
    )


def _rank_table(results: Results, cells: Sequence[Cell], models: Sequence[str]) -> str:
    """Mean ranks over the cells that have a model; equal means share a rank."""
    columns = {}
    for name, (title, *_) in MEASURES.items():
        ranks = _means(results, cells, models, name).rank(axis=1, ascending=study.sign(name) < 0)
        columns[title] = ranks.mean().map(lambda rank: float(f"{rank:.2f}"))
    ranks = pd.DataFrame(columns)
    return _format_table("calibrator", ranks, 2, ranks == ranks.min())


def _counts(results: Results, cells: Sequence[Cell], models: Sequence[str]) -> str:
    lines = [
        [other, *(study.counts(results, cells, OURS, other, name, LEVEL) for name in MEASURES)]
        for other in models
        if other != OURS
    ]
    return markdown_table(["against", *(title for title, *_ in MEASURES.values())], lines)


def _worst(results: Results, cells: Sequence[Cell], other: str) -> str:
    """Cases in which ours is worse than another in log-loss, clearly or not."""
    compared = {cell: study.against(results, cell, OURS, other, "log_loss") for cell in cells}
    found = {cell: one for cell, one in compared.items() if one and one.mean.n > 1 and one.difference.value > 0}
    if not found:
        return f"In no case is the mean log-loss above that of {other}."
    words = "; ".join(
        f"{case}, {size:,} rows: +{one.difference.value:.4f} ± {one.difference.error:.4f}"
        + (" (clear)" if one.verdict(-1, level=LEVEL) != "=" else "")
        for (case, size), one in sorted(found.items(), key=lambda item: -item[1].difference.value)
    )
    return f"Mean log-loss above that of {other} in {len(found)} of {len(cells)} cases: {words}."


def _times(results: Results, cells: Sequence[Cell], models: Sequence[str]) -> str:
    """Ratios are of runs of one commit alone, which took turns: at another time the machine may have been busier."""
    lines = []
    for model in models:
        ratios, seconds = [], []
        for cell in cells:
            own, peer = (results.cells.get((*cell, name), {}) for name in (model, SMS))
            if own:
                seconds.append(results.median((*cell, model), "fit_seconds"))
            in_turn = [seed for seed in own if seed in peer and own[seed]["commit"] == peer[seed]["commit"]]
            if in_turn:
                ratio = (own[seed]["fit_seconds"] / peer[seed]["fit_seconds"] for seed in in_turn)
                ratios.append(statistics.median(ratio))
        if seconds:
            ratio = f"{statistics.median(ratios):.2f}" if ratios else "-"
            lines.append([model, f"{statistics.median(seconds):.3f}", f"{max(seconds):.2f}", ratio])
    return markdown_table(["calibrator", "median, s", "longest, s", "median ratio to SMS"], lines)


def _means_table(results: Results, cells: Sequence[Cell], models: Sequence[str], name: str) -> str:
    _, digits, factor = MEASURES[name]
    means = _means(results, cells, models, name)
    best = means.max(axis=1) if name == "accuracy" else means.min(axis=1)
    return _format_table("case, rows", factor * means, digits, means.eq(best, axis=0))


def _picture(results: Results, cells: Sequence[Cell], path: Path) -> Path:
    """Log-loss relative to temperature scaling, case by case."""
    shown = (OURS, SMS, "SVS", "ETS", PRESERVED)
    (axes,) = panels_for([""], (8, 0.2 * len(cells) + 1.4))
    for model, marker in zip(shown, "os^v.", strict=True):
        means = _means(results, cells, (model, TEMPERATURE), "log_loss")
        above = 100.0 * (means[model] / means[TEMPERATURE] - 1.0)
        axes.plot(np.clip(above, *_SHOWN), range(len(cells)), marker, label=model, alpha=0.8)
    axes.axvline(0.0, color="grey", linewidth=0.8)
    axes.set_yticks(range(len(cells)), means.index, fontsize=7)
    axes.set_ylim(len(cells) - 0.5, -0.5)
    axes.set_xlim(_SHOWN[0] - 1, _SHOWN[1] + 1)
    axes.set_xlabel("log-loss relative to temperature scaling, % (beyond the axis: at its end)")
    axes.figure.legend(fontsize=8, loc="outside upper center", ncols=3)
    return save_picture(axes.figure, path)


def _where_temperature_is_right(results: Results, cells: Sequence[Cell]) -> str:
    """Log-loss above that of temperature scaling, on average and in the worst split."""
    known = results.values_of("model")
    shown, lines = [m for m in (OURS, PRESERVED, "SVS", SMS, VECTOR, DIRICHLET) if m in known], []
    for case, size in cells:
        line = [case, f"{size:,}"]
        for model in shown:
            a, b = results.pairs((case, size, model), (case, size, TEMPERATURE), "log_loss")
            excess = [x - y for x, y in zip(a, b, strict=True)]
            line.append(f"{statistics.fmean(excess):+.4f} ({max(excess):+.4f})" if excess else "-")
        lines.append(line)
    return markdown_table(["case", "rows", *shown], lines)


def sections(records: list[Record], results: Results) -> list[str]:
    """The report."""
    cells = study.cells_of(results)
    right_cells, real = ([cell for cell in cells if (cell[0] in RIGHT) is wanted] for wanted in (True, False))
    unseen, seen = ([cell for cell in real if (cell[0] in CHOSEN_ON) is used] for used in (False, True))
    shown = [model for model in EXPERIMENT.models if model in results.values_of("model")]
    splits = max(map(len, results.cells.values()))
    level = f"{100 * (1 - LEVEL):g} %"
    parts = [
        f"`LegendreCalibrator()` and others on {len(real)} cases, {splits} splits each: predictions of three public "
        "networks, and of logistic regression, a network trained until it is overconfident, gradient boosting and a random "
        "forest. Probabilities below 1e-15 count as that in the log-loss. The smooth calibration error is of the predicted "
        "class (relplot), the classwise one the mean over classes, with 15 bins.",
        "The constants of `LegendreCalibrator` (strengths and their weights, number of directions, penalty on probabilities, "
        "rows that count as wrong) were chosen on half of the classifiers, drawn by seed, with other splits, and on made-up "
        f"predictions that are right but for a temperature. {len(unseen)} cases are of the other half, and tell how well it "
        f"does; the {len(seen)} of the first half are shown apart. The form of the map and its other penalties are older, "
        "and were chosen on some cases of both halves.",
        *(
            part
            for title, group in (("the other half", unseen), ("the half of the choice", seen))
            if group
            for part in (
                f"## Mean ranks and verdicts, {title}",
                "Ranks are by the mean over splits, averaged over cases; 1 is the best.",
                _rank_table(results, group, shown),
                f"In how many cases `LegendreCalibrator()` is clearly better / worse, by a paired t-test at {level}:",
                _counts(results, group, shown),
                *(_worst(results, group, other) for other in (TEMPERATURE, SMS) if other in shown),
            )
        ),
        *(
            (
                "## Where temperature scaling is exactly right",
                "Log-loss above that of temperature scaling, mean over splits (worst split). Made-up predictions have normal "
                "logits, from which labels are drawn, and are then made twice as certain; those of the networks have labels "
                "drawn from their probabilities. SMS and Dirichlet take long at 100 classes and more, and are left out.",
                _where_temperature_is_right(results, right_cells),
            )
            if right_cells
            else ()
        ),
        "![log-loss relative to temperature scaling](calibration.png)",
        "## Time to fit",
        "Seconds are of several machines, some of them busy. Ratios are of runs that took turns with those of SMS.",
        _times(results, cells, shown),
    ]
    for name, (title, *_) in MEASURES.items():
        parts += [f"## {title[0].upper()}{title[1:]}", _means_table(results, cells, shown, name)]
    return parts


def pictures(results: Results, folder: Path) -> list[Path]:
    """The picture of the real cases."""
    cells = [cell for cell in study.cells_of(results) if cell[0] not in RIGHT]
    return [_picture(results, cells, folder / "calibration.png")]


SPLITS = 5
VENN_ABERS = "Venn-Abers"
VECTOR, DIRICHLET = "vector scaling", "Dirichlet, ODIR"
SPLINES, BRENIER = "one-against-rest splines", "Brenier isotonic"

Predict = Callable[[np.ndarray], np.ndarray]


def _none(p: np.ndarray, y: np.ndarray) -> Predict:
    return lambda test: test


def _ours(**parameters: Any) -> Callable[[np.ndarray, np.ndarray], Predict]:
    return lambda p, y: LegendreCalibrator(**parameters, classes=np.arange(p.shape[1])).fit(p, y).predict_proba


def _sklearn(method: str) -> Callable[[np.ndarray, np.ndarray], Predict]:
    def fit(p: np.ndarray, y: np.ndarray) -> Predict:
        frozen = FrozenEstimator(study.GivenProbabilities(p.shape[1]))
        return CalibratedClassifierCV(frozen, method=method).fit(p, y).predict_proba

    return fit


def _probmetrics(name: str) -> Callable[[np.ndarray, np.ndarray], Predict]:
    def fit(p: np.ndarray, y: np.ndarray) -> Predict:
        from probmetrics import calibrators

        return getattr(calibrators, name)().fit(p, y).predict_proba

    return fit


def _venn_abers(p: np.ndarray, y: np.ndarray) -> Predict:
    from venn_abers import VennAbersCalibrator

    # it is fitted when it predicts
    return lambda test: VennAbersCalibrator().predict_proba(p_cal=p, y_cal=y, p_test=test)


MODELS: dict[str, Callable[[np.ndarray, np.ndarray], Predict]] = {
    OURS: _ours(),
    PRESERVED: _ours(order="preserved"),
    UNCALIBRATED: _none,
    TEMPERATURE: _probmetrics("TemperatureScalingCalibrator"),
    "ETS": _probmetrics("ETSCalibrator"),
    "SVS": _probmetrics("SVSCalibrator"),
    SMS: _probmetrics("SMSCalibrator"),
    "scikit-learn, temperature": _sklearn("temperature"),
    "scikit-learn, isotonic": _sklearn("isotonic"),
    VENN_ABERS: _venn_abers,
    VECTOR: peer_calibrators.vector_scaling,
    DIRICHLET: peer_calibrators.dirichlet,
    SPLINES: peer_calibrators.splines,
    BRENIER: peer_calibrators.brenier,
}
_PACKAGES = {"ETS": "probmetrics", "SVS": "probmetrics", SMS: "probmetrics", TEMPERATURE: "probmetrics"}
_PACKAGES |= {name: "scikit-learn" for name in MODELS if name.startswith("scikit-learn")} | {VENN_ABERS: "venn-abers"}


def settings(model: str, dataset: str) -> dict[str, Any]:
    orders = {OURS: "any", PRESERVED: "preserved"}
    own = make_recipe(LegendreCalibrator(order=orders[model])) if model in orders else {}
    return {"calibrator": model, "splits": "drawn by seed; up to 5,000 rows to test", "least": LEAST, **own}


def left_out(run: Run) -> bool:
    """Some calibrators take long for many classes; scikit-learn's need a row of each class."""
    case, model = run.dataset, run.model
    if run.size not in sizes_of(case):
        return True
    if case in RIGHT:
        many = "100" in case or "200" in case
        slow = (SMS, DIRICHLET, SPLINES, BRENIER)
        return model == VENN_ABERS or (many and (model in slow or model.startswith("scikit-learn")))
    return model == VENN_ABERS and case.endswith("cifar-100")


def scores(y: np.ndarray, p: np.ndarray) -> dict[str, float]:
    import relplot

    n, n_classes = p.shape
    own, top = p[np.arange(n), y], p.argmax(1)
    right = (top == y).astype(float)
    of_classes = [CalibrationCurve.of_outcomes(p[:, c], y == c).expected_calibration_error for c in range(n_classes)]
    return {
        "log_loss": float(-np.log(np.maximum(own, LEAST)).mean()),
        "brier": float(np.square(p - np.eye(n_classes)[y]).sum(1).mean()),
        "accuracy": 100.0 * float(right.mean()),
        "classwise_error": float(np.mean(of_classes)),
        "smooth_error": float(relplot.smECE(p[np.arange(n), top], right)),
    }


def measure(run: Run, p: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Calibrate some predictions of a case, and test the calibrator on others."""
    model, (own, test) = run.model, split(len(y), run.size, run.seed)
    gc.collect()  # what earlier runs have left is not this one's to collect
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peers, about classes without rows
        began = time.perf_counter()
        predict = MODELS[model](p[own], y[own])
        fitted = time.perf_counter()
        found = np.asarray(predict(p[test]), dtype=np.float64)
        predicted = time.perf_counter()
    package = _PACKAGES.get(model)
    return {
        **scores(y[test], found / found.sum(axis=1, keepdims=True)),
        "fit_seconds": (predicted if model == VENN_ABERS else fitted) - began,
        "predict_seconds": predicted - fitted,
        **({} if package is None else {package: version(package)}),
    }


EXPERIMENT = study.declare(
    "calibration",
    "Calibration of fitted classifiers",
    measure,
    sections,
    lambda results: study.numbers(results, MEASURES, {}),
    load=load,
    pictures=pictures,
    datasets=(*REAL, *RIGHT),
    models=tuple(MODELS),
    settings=settings,
    seeds=SPLITS,
    sizes=(200, 300, 1000, 5000),
    left_out=left_out,
    find_data=find,
)

if __name__ == "__main__":
    study.main("calibration")
