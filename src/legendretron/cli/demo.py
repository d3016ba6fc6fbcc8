"""``legendretron demo``: the library compared with a tuned logistic regression on handwritten digits."""

from __future__ import annotations

import dataclasses
import io
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from legendretron._internal.extras import import_extra
from legendretron.cli.evaluate import draw_reliability
from legendretron.cli.outputs import check_writable, write_output
from legendretron.cli.report import Report, grid

if TYPE_CHECKING:
    from legendretron.estimators import LegendreTronClassifier

__all__ = ["demo"]

#: Penalties, added to a mean loss, from which each contestant's is chosen.
STRENGTHS = tuple(10 ** (half / 2) for half in range(-8, -2))
_CLOSING = (
    "All three were tuned in the same way. Digits are nearly separable by planes, so the log-loss fits them well and\n"
    "a learned loss adds little. It helps where there are many classes that planes do not separate:\n"
    "`legendretron reproduce table_libsvm --datasets letter` shows it."
)


def demo(
    report: Report,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the two pictures.")] = Path("demo_output"),
    epochs: Annotated[int, typer.Option(help="Passes over the data of each fit; fewer are faster.", min=1)] = 80,
) -> None:
    """Compare three classifiers of handwritten digits, tuned in the same way.

    Takes half a minute on two cores, and needs no data of your own. Draws a reliability diagram of each classifier's
    probabilities, and learning curves.
    """
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    from legendretron.cli.scores import scores_of
    from legendretron.estimators import LegendreTronClassifier

    import_extra("matplotlib", "drawing", "plots")
    reliability, training = out / "reliability.png", out / "training.png"
    for picture in (reliability, training):
        check_writable(picture)
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    report.note(f"digits: {len(X)} images to train on, {len(X_test)} to test on, {X.shape[1]} pixels, 10 classes")
    rows, predictions, histories = {}, {}, {}
    for name, model in _contestants(len(X), epochs).items():
        report.note(f"tuning {name} ...")
        began = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - began
        log_p = model.predict_log_proba(X_test)
        rows[name] = {**dataclasses.asdict(scores_of(y_test, log_p)), "seconds": seconds}
        predictions[name] = np.exp(log_p)
        if isinstance(model.best_estimator_, LegendreTronClassifier):
            histories[name.removeprefix("LegendreTron, ")] = model.best_estimator_.history_
    write_output(reliability, draw_reliability(y_test, predictions, ".png"))
    write_output(training, _draw_training(histories))
    report.result(
        {"rows": len(y_test), "models": rows, "plots": [str(reliability), str(training)]},
        _view(rows),
        _CLOSING,
        f"\npictures: {reliability} and {training}",
    )


def _contestants(n_rows: int, epochs: int) -> dict[str, Any]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from legendretron.estimators import LegendreTronClassifier

    def tuned(model: Any, parameter: str, values: Sequence[float]) -> Any:
        """The same search for every contestant: the strength of the penalty, three folds, by log-loss."""
        return GridSearchCV(model, {parameter: values}, cv=3, scoring="neg_log_loss", n_jobs=2)

    def learned(link: str) -> LegendreTronClassifier:
        return LegendreTronClassifier(link, max_epochs=epochs, link_alpha=0.1, random_state=0)

    scaled = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    return {
        "logistic regression": tuned(
            scaled, "logisticregression__C", [1 / (strength * n_rows) for strength in STRENGTHS]
        ),
        "LegendreTron, composite link": tuned(learned("composite"), "alpha", STRENGTHS),
        "LegendreTron, canonical link": tuned(learned("canonical"), "alpha", STRENGTHS),
    }


def _draw_training(histories: dict[str, Any]) -> bytes:
    from matplotlib import pyplot

    from legendretron.plots import TrainingDisplay

    figure = TrainingDisplay.from_histories(histories).figure_
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=130, format="png")
    pyplot.close(figure)
    return buffer.getvalue()


def _view(rows: dict[str, dict[str, float]]) -> Any:
    view = grid("", "accuracy", "log-loss", "Brier", "calibration", "seconds")
    for name, row in rows.items():
        scores = (f"{row[key]:z.4f}" for key in ("log_loss", "brier", "calibration_error"))
        view.add_row(name, f"{row['accuracy']:.2%}", *scores, f"{row['seconds']:.1f}")
    return view
