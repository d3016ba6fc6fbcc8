"""``legendretron demo``: where a learned link helps, where logistic regression is as good, and networks beside boosting."""

from __future__ import annotations

import dataclasses
import inspect
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits  # a dependency of scikit-learn

from legendretron._internal.extras import import_extra
from legendretron.cli.command_options import DemoOptions
from legendretron.cli.evaluate import draw_reliability
from legendretron.cli.outputs import check_writable, write_output
from legendretron.cli.summaries import choice_of, draw_tuning
from legendretron.cli.terminal import Terminal, grid
from legendretron.diagnostics.scores import scores_of
from legendretron.estimators import LegendreNetClassifier, LegendreTronClassifier

#: Numbers that are kept of each image; with all of them, planes separate the digits well.
COMPONENTS = 5
_LOGISTIC, _OURS = "LogisticRegressionCV", "LegendreTronClassifier"
_BOOSTING, _NETWORKS = "HistGradientBoostingClassifier", "LegendreNetClassifier"
#: Standard errors from which a difference on the test rows is called one.
_CLEAR = 2.0


@dataclass(frozen=True)
class _Data:
    """Rows to train on and to test on, and what they are."""

    about: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


@dataclass(frozen=True)
class _Outcome:
    """Scores of all models on one data set."""

    models: dict[str, dict[str, float]]
    differences: dict[str, tuple[float, float]]  #: of log-losses, ours minus that of the same kind, and standard errors
    choice: dict[str, Any]

    def in_words(self) -> str:
        """What the numbers say, whatever they are."""
        chosen = f"LegendreTron chose {self.choice['text']}."
        if self.choice["model"] == "logistic regression":
            linear = (
                f"So both are logistic regression, each with the penalty that it chose: {self._pair(_OURS, _LOGISTIC)}."
            )
        else:
            linear = f"On the test rows it is {self._verdict(_OURS)}: {self._pair(_OURS, _LOGISTIC)}."
        networks = f"Networks compared with boosting: {self._verdict(_NETWORKS)}, {self._pair(_NETWORKS, _BOOSTING)}."
        return f"{chosen}\n{linear}\n{networks}"

    def _verdict(self, model: str) -> str:
        difference, error = self.differences[model]
        if abs(difference) <= _CLEAR * error:
            return "not clearly different"
        return "better" if difference < 0 else "worse"

    def _pair(self, model: str, other: str) -> str:
        ours, theirs = self.models[model], self.models[other]
        return (
            f"log-loss {ours['log_loss']:.3f} and {theirs['log_loss']:.3f}, {ours['accuracy']:.1%} and "
            f"{theirs['accuracy']:.1%} right"
        )


def demo(terminal: Terminal, options: DemoOptions) -> None:
    """See :class:`~legendretron.cli.command_options.DemoOptions`."""
    import_extra("matplotlib", "drawing", "plots")
    reliability, tuning = options.out / "reliability.png", options.out / "tuning.png"
    for picture in (reliability, tuning):
        check_writable(picture)
    _compile(terminal)
    outcomes: dict[str, _Outcome] = {}
    views: list[Any] = []
    for name, data in {"digits": _digits(), "breast cancer": _cancer()}.items():
        terminal.note(f"{name}: {data.about}")
        outcomes[name], log_p, model = _compare(data, terminal)
        views += [_view(name, outcomes[name].models), f"{outcomes[name].in_words()}\n"]
        if name == "digits":
            write_output(reliability, draw_reliability(data.y_test, log_p, ".png"))
            write_output(tuning, draw_tuning(model, ".png"))
    closing = (
        f"pictures of the digits: {reliability} and {tuning}\n"
        "with your own data: legendretron fit data.csv --target label --out model.safetensors"
    )
    payload = {name: {**dataclasses.asdict(got), "text": got.in_words()} for name, got in outcomes.items()}
    terminal.result({"datasets": payload, "plots": [str(reliability), str(tuning)]}, *views, closing)


def _compile(terminal: Terminal) -> None:
    """Train for a moment, so that the seconds in the tables are those of every fit but the first one."""
    terminal.note("getting ready: the first fit after installation compiles code, which takes about half a minute ...")
    X = np.random.default_rng(0).normal(size=(400, COMPONENTS))
    LegendreTronClassifier(max_epochs=1, random_state=0).fit(X, np.arange(400) % 10)
    LegendreNetClassifier(max_steps=50, random_state=0).fit(X, np.arange(400) % 10)


def _digits() -> _Data:
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = _split(X, y)
    squeeze = PCA(COMPONENTS, random_state=0).fit(X)
    about = (
        f"{len(y) + len(y_test):,} images of handwritten digits, {len(y):,} to train on; each image of {X.shape[1]} pixels "
        f"is reduced to {COMPONENTS} numbers, its first principal components. Ten classes in so few numbers overlap, along "
        "borders that are curved."
    )
    return _Data(about, squeeze.transform(X), y, squeeze.transform(X_test), y_test)


def _cancer() -> _Data:
    X, y = load_breast_cancer(return_X_y=True)
    X, X_test, y, y_test = _split(X, y)
    about = (
        f"{len(y) + len(y_test):,} tumours, {len(y):,} to train on, {X.shape[1]} measurements each, benign or malignant. "
        "Two classes, nearly separated by a plane: logistic regression suits them."
    )
    return _Data(about, X, y, X_test, y_test)


def _split(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    parts = train_test_split(X, y, test_size=1 / 3, random_state=0, stratify=y)
    return parts[0], parts[1], parts[2], parts[3]


def _compare(data: _Data, terminal: Terminal) -> tuple[_Outcome, dict[str, np.ndarray], LegendreTronClassifier]:
    ours = LegendreTronClassifier(random_state=0)
    models = {
        _LOGISTIC: _logistic(),
        _OURS: ours,
        _BOOSTING: HistGradientBoostingClassifier(random_state=0),
        _NETWORKS: LegendreNetClassifier(random_state=0),
    }
    rows, losses, predictions = {}, {}, {}
    for name, model in models.items():
        terminal.note(f"{name} is fitted ...")
        # one core each: several threads on so small data wait for each other, the more so on a busy machine
        with threadpool_limits(1):
            began = time.perf_counter()
            model.fit(data.X, data.y)
            seconds = time.perf_counter() - began
        log_p = np.log(np.maximum(model.predict_proba(data.X_test), np.finfo(np.float64).tiny))
        rows[name] = {**dataclasses.asdict(scores_of(data.y_test, log_p)), "seconds": seconds}
        losses[name] = -log_p[np.arange(len(log_p)), data.y_test]
        predictions[name] = np.exp(log_p)
    differences = {}
    for name, other in ((_OURS, _LOGISTIC), (_NETWORKS, _BOOSTING)):
        away = losses[name] - losses[other]
        differences[name] = float(away.mean()), float(away.std(ddof=1) / np.sqrt(len(away)))
    return _Outcome(rows, differences, choice_of(ours)), predictions, ours


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
