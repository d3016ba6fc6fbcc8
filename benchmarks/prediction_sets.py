"""Prediction sets: do they hold the true class as often as asked for, with right labels and with wrong ones, and how large?

    python benchmarks/prediction_sets.py --data DIR --out docs/results/prediction_sets --jobs 2

Tables are those of KEEL with at least 1,000 rows, splits and noise as in ``other_tables.py``; labels of test rows are right.
Sets are those that ``predict_set`` has right after ``fit``, and others are made from the very same predictions and labels of
the rows that these were calibrated on: by this library without the correction for wrong labels, and, where they are
installed (``pip install mapie crepes``), by MAPIE and crepes. So what differs is how sets are made, not the model.
"""

from __future__ import annotations

import dataclasses
import statistics
import warnings
from typing import Any

import numpy as np

import label_noise
import other_tables
import study
from label_noise import noise_name
from legendretron import LegendreNetClassifier, LegendreTronClassifier
from legendretron.calibration.prediction_sets import SetCalibration
from legendretron.experiments import Record, Run
from legendretron.experiments.recipes import make_recipe
from legendretron.experiments.rendering import markdown_table
from legendretron.experiments.results import Mean, Results, mean_of
from study import NOT_RUN, OURS

#: Tables of at least 1,000 rows.
TABLES = (
    "german", "contraceptive", "titanic", "segment", "splice", "chess", "spambase", "banana", "phoneme", "texture",
    "optdigits", "mushroom", "satimage", "marketing", "ring", "twonorm", "penbased", "magic", "letter",
)  # fmt: skip
LARGE = (*other_tables.LARGE, "letter")
NETWORKS = "LegendreNetClassifier()"
MODELS = {OURS: LegendreTronClassifier, NETWORKS: LegendreNetClassifier}
NOISES, SPLITS = (0.0, 0.2, 0.4), 10
COVERAGES = (0.8, 0.9, 0.95)
#: Ours, by the arguments of ``predict_set``; those that are not corrected take labels as they are.
KINDS: dict[str, dict[str, Any]] = {
    "cumulative": {},
    "randomized": {"randomized": True},
    "probability": {"score": "probability"},
    "cautious": {"cautious": True},
    "by class": {"by_class": True},
}
PLAIN = "not corrected, "
MAPIE_LAC, MAPIE_APS, CREPES = "MAPIE, lac", "MAPIE, aps", "crepes, hinge"
METHODS = (
    *KINDS,
    *(f"{PLAIN}{kind}" for kind in ("cumulative", "randomized", "probability")),
    MAPIE_LAC,
    MAPIE_APS,
    CREPES,
)
#: Of randomized sets: not that of splits and noise.
_SEED = 1_000_003
#: A rate is found if it is believed, and as near as this to the share there was.
FOUND = 0.05


def by_mapie(calibration: SetCalibration, p: np.ndarray, score: str) -> list[np.ndarray] | None:
    """Sets of MAPIE for all coverages; None if it is not installed, or refuses a missing class or cumulative sets of two."""
    try:
        from mapie.classification import SplitConformalClassifier
    except ImportError:
        return None
    known = _normalise(calibration.proba)
    if len(np.unique(calibration.labels)) < p.shape[1] or (score == "aps" and p.shape[1] == 2):
        return None
    model = SplitConformalClassifier(
        study.GivenProbabilities(p.shape[1]), list(COVERAGES), score, prefit=True, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, sets = model.conformalize(known, calibration.labels).predict_set(_normalise(p))
    return [sets[:, :, place] for place in range(len(COVERAGES))]


def by_crepes(calibration: SetCalibration, p: np.ndarray) -> list[np.ndarray] | None:
    """Sets of crepes for all coverages; None if it is not installed."""
    try:
        from crepes import ConformalClassifier
        from crepes.extras import hinge
    except ImportError:
        return None
    classes = np.arange(p.shape[1])
    model = ConformalClassifier().fit(hinge(calibration.proba.astype(float), classes, calibration.labels))
    return [model.predict_set(hinge(p), confidence=c, smoothing=False).astype(bool) for c in COVERAGES]


def _normalise(p: np.ndarray) -> np.ndarray:
    p = p.astype(float)
    return p / p.sum(1, keepdims=True)


def all_sets(calibration: SetCalibration, p: np.ndarray, seed: int) -> dict[str, list[np.ndarray] | None]:
    """Sets of all methods, for all coverages; randomized ones draw other numbers for each seed."""
    plain = dataclasses.replace(calibration, noise=None, least_noise=None)
    found: dict[str, list[np.ndarray] | None] = {}
    for name in METHODS:
        kind = KINDS.get(name.removeprefix(PLAIN))
        if kind is not None:
            own = plain if name.startswith(PLAIN) else calibration
            found[name] = [own.predict(p, c, **kind, rng=np.random.default_rng([_SEED, seed])) for c in COVERAGES]
    found |= {MAPIE_LAC: by_mapie(calibration, p, "lac"), MAPIE_APS: by_mapie(calibration, p, "aps")}
    return found | {CREPES: by_crepes(calibration, p)}


def measure(run: Run, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Fit, and count how often sets of the test rows hold the label, and how many classes they have."""
    train, labels, test = label_noise.noisy_split(y, run.noise, run.seed)
    estimator = MODELS[run.model](random_state=run.seed)
    found = study.fit_and_score(estimator, X[train], labels, X[test], y[test])
    calibration = estimator.set_calibration_
    found |= {"wrong_share": float((labels != y[train]).mean()), **label_noise.estimated_rate(estimator)}
    found["calibration_rows"] = calibration.n_rows
    own = np.arange(len(test))
    for name, sets in all_sets(calibration, estimator.predict_proba(X[test]), run.seed).items():
        for coverage, held in zip(COVERAGES, sets or (), strict=bool(sets)):
            found[f"{name} {coverage:g}: coverage"] = float(held[own, y[test]].mean())
            found[f"{name} {coverage:g}: size"] = float(held.sum(1).mean())
    return found


def settings(model: str, table: str) -> dict[str, Any]:
    return {**make_recipe(MODELS[model]()), "sets": 2, "features": "words as one column each"}


# --- the report ---


def is_found(record: Record) -> bool:
    """Whether the share of wrong labels was found, or there are none and none were."""
    return abs(record["rate"] - record["wrong_share"]) <= FOUND


def mean_over(records: list[Record], name: str) -> float | None:
    """Mean over tables of means over splits; None where no run has it."""
    tables: dict[str, list[float]] = {}
    for record in records:
        if record.get(name) is not None:
            tables.setdefault(record["dataset"], []).append(record[name])
    return statistics.fmean(map(statistics.fmean, tables.values())) if tables else None


def _methods_table(records: list[Record]) -> str:
    lines = []
    for name in METHODS:
        line = [name]
        for coverage in COVERAGES:
            held, size = (mean_over(records, f"{name} {coverage:g}: {what}") for what in ("coverage", "size"))
            line.append(NOT_RUN if held is None or size is None else f"{100 * held:.1f}, {size:.2f}")
        lines.append(line)
    return markdown_table(["sets", *(f"{100 * c:g} %: coverage, size" for c in COVERAGES)], lines)


def _percent(mean: Mean) -> str:
    return f"{100 * mean.value:.1f} ± {100 * mean.error:.1f}"


def _tables_table(results: Results, noise: float, model: str) -> str:
    lines = []
    for table in results.values_of("dataset"):
        cell = (table, noise, model)
        if not results.records(*cell):
            continue
        facts, found = results.facts(table), sum(map(is_found, results.records(*cell)))
        line = [table, f"{facts['rows']:,}, {facts['classes']}", f"{found} of {len(results.records(*cell))}"]
        for name in ("randomized", f"{PLAIN}randomized", "cumulative"):
            held, size = (results.mean(cell, f"{name} 0.9: {what}") for what in ("coverage", "size"))
            line.append(f"{_percent(held)}, {size.value:.2f}" if held and size else NOT_RUN)
        lines.append(line)
    head = ["table", "rows, classes", "rate found", "randomized", f"{PLAIN}randomized", "cumulative"]
    return markdown_table(head, lines)


def _within(results: Results, noise: float, model: str) -> str:
    """On how many tables coverage is within one point of what was asked for, in the splits where the rate was found."""
    lines = []
    for coverage in COVERAGES:
        means = {}
        for table in results.values_of("dataset"):
            if own := [r for r in results.records(table, noise, model) if is_found(r)]:
                means[table] = mean_of([r[f"randomized {coverage:g}: coverage"] for r in own])
        far = [f"{t} {_percent(held)}" for t, held in means.items() if abs(held.value - coverage) > 0.01]
        near, others = len(means) - len(far), f"; others: {', '.join(far)}" if far else ""
        lines.append(f"- {100 * coverage:g} %: within one point on {near} of {len(means)} tables{others}.")
    return "\n".join(lines)


def _larger(records: list[Record]) -> str:
    """In how many runs ours are larger than those of others that cover no less, by the same score of classes."""
    lines = []
    for ours, other in (("probability", MAPIE_LAC), ("probability", CREPES), ("cumulative", MAPIE_APS)):
        pairs = [
            [(r[f"{name} {c:g}: coverage"], r[f"{name} {c:g}: size"]) for name in (ours, other)]
            for r in records
            for c in COVERAGES
            if f"{other} {c:g}: size" in r
        ]
        larger = sum(a[1] > b[1] + 1e-9 and b[0] >= a[0] for a, b in pairs)
        lines.append(f"- {ours} against {other}: larger at no more coverage in {larger} of {len(pairs)} cases.")
    return "\n".join(lines)


def sections(records: list[Record], results: Results) -> list[str]:
    """The report."""
    tables = results.values_of("dataset")
    splits = {model: len({r["seed"] for r in records if r["model"] == model}) for model in results.values_of("model")}
    parts = [
        f"Sets from `fit` alone, on {len(tables)} tables of KEEL with at least 1,000 rows; splits: "
        f"{', '.join(f'{n} of {model}' for model, n in splits.items())}. Coverage is the share of test rows, with correct "
        "labels, whose set contains the label; size is the mean number of classes in a set. Randomized sets should have "
        "exactly the nominal coverage. Without randomization, the most probable class is always included, so coverage is at "
        "least the accuracy. All sets of a run are made from the same predictions.",
        study.EARLIER,
    ]
    for model in (name for name in MODELS if name in results.values_of("model")):
        for noise in sorted(results.values_of("noise")):
            own = [r for r in records if (r["model"], r["noise"]) == (model, noise)]
            found = [r for r in own if is_found(r)]
            if not own:
                continue
            parts += [
                f"## {model}, {noise_name(noise)} wrong labels",
                f"The share of wrong labels was found, within {100 * FOUND:g} points, in {len(found)} of {len(own)} runs. Of "
                "these runs, mean over tables:",
                _methods_table(found),
                "Randomized sets:",
                _within(results, noise, model),
                "At 90 %, all runs: coverage with its standard error, and size:",
                _tables_table(results, noise, model),
            ]
            if noise == 0.0:
                parts += ["Beside others, without wrong labels:", _larger(own)]
    return parts


def rows(results: Results) -> list[dict[str, Any]]:
    names = ["rate", "wrong_share", "accuracy", "log_loss"]
    names += [f"{name} {c:g}: {what}" for name in METHODS for c in COVERAGES for what in ("coverage", "size")]
    return study.numbers(results, names, {}, more=lambda cell, own: {"found": sum(map(is_found, own))})


EXPERIMENT = study.declare(
    "prediction_sets",
    "Prediction sets",
    measure,
    sections,
    rows,
    load=other_tables.load,
    datasets=TABLES,
    models=tuple(sorted(MODELS)),
    settings=settings,
    seeds=SPLITS,
    noise=NOISES,
    cost=lambda run: 20.0 if run.dataset in LARGE else 1.0,
    find_data=other_tables.find,
)

if __name__ == "__main__":
    study.main("prediction_sets")
