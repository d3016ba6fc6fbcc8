"""A comparison of two classifiers on two data sets, which can be stopped and resumed."""

from pathlib import Path

from sklearn.datasets import load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from legendretron import LegendreTronClassifier
from legendretron.experiments import Experiment, Outcome, Resources, render, sweep
from legendretron.experiments.rendering import as_text, described, markdown_table, write_text
from legendretron.experiments.results import Results, holm, verdict

DATA = {"iris": load_iris, "wine": load_wine}
MODELS = {
    "random forest": (RandomForestClassifier, {"n_estimators": 50}),
    # few steps per epoch on data this small, hence the larger learning rate
    "LegendreTron": (LegendreTronClassifier, {"learning_rate": 0.1, "max_epochs": 100}),
}
BASELINE = "random forest"


def settings(model, dataset):
    return MODELS[model][1]


def execute(batch, resources):
    X, y = DATA[batch.dataset](return_X_y=True)
    kind, _ = MODELS[batch.model]
    runs = []
    for run in batch.runs:
        parts = train_test_split(X, y, test_size=0.3, stratify=y, random_state=run.seed)
        X_train, X_test, y_train, y_test = parts
        model = kind(**batch.settings, random_state=run.seed).fit(X_train, y_train)
        runs.append(
            {"accuracy": 100 * model.score(X_test, y_test), "log_loss": log_loss(y_test, model.predict_proba(X_test))}
        )
    return Outcome({"rows": len(y)}, runs)


def report(records, folder):
    results = Results(records, "dataset", "model")
    compared = {cell: results.compare(cell, (cell[0], BASELINE), "accuracy") for cell in results.cells}
    compared = {cell: found for cell, found in compared.items() if found and cell[1] != BASELINE}
    adjusted = holm([found.p for found in compared.values()])
    lines = []
    for (cell, found), corrected in zip(compared.items(), adjusted, strict=True):
        said = verdict(found.difference.value, found.p, corrected, level=0.05)
        means = [as_text(mean) for mean in (found.mean, found.other, found.difference)]
        lines.append([*cell, *means, f"{found.p:.3f}", said])
    head = ["data set", "model", "accuracy", BASELINE, "difference", "p", "verdict"]
    table = markdown_table(head, lines)
    return [write_text(folder / "my_comparison.md", f"{table}\n\n{described(records)}")]


COMPARISON = Experiment(
    name="my_comparison",
    title="LegendreTron against a random forest",
    datasets=tuple(DATA),
    models=tuple(MODELS),
    settings=settings,
    execute=execute,
    report=report,
    seeds=5,
)

if __name__ == "__main__":
    out = Path("results/my_comparison")
    state = sweep(COMPARISON, out, Resources(), command="python my_comparison.py")
    print(f"{state.now} runs done, {state.before} before")
    for file in render(COMPARISON, state, out):
        print(file.read_text())
