"""The report of the comparison on wrong labels: tables, pictures, and where each method loses. See ``label_noise.py``."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from defaults_numbers import BASELINE, LEVEL, OURS
from label_noise_numbers import (
    AVERAGE_PRECISION,
    CLEANLAB,
    FLOOR,
    FORWARD,
    GENERALISED,
    MEASURES,
    PAPERS_NOISES,
    TUNED_CLEANLAB,
    WITHOUT,
    Results,
    against_paper,
    cells_of,
    compared,
    comparison,
    mean_in,
    noise_name,
    rate_in,
    rate_of,
    results_of,
    tally,
)
from label_noise_pictures import draw_accuracy, draw_doubts, draw_rates
from legendretron.experiments import Record
from legendretron.experiments.rendering import as_text, described, markdown_table, write_csv, write_text
from legendretron.experiments.statistics import Mean

NOT_RUN = "-"


@dataclass(frozen=True)
class Plan:
    """What the report is about, in the order it is shown, and the splits that each cell should have."""

    datasets: tuple[str, ...]
    noises: tuple[float, ...]
    models: tuple[str, ...]
    splits: int
    hopeless: frozenset[tuple[str, float]]

    @property
    def runs_of_model(self) -> int:
        return self.splits * (len(self.datasets) * len(self.noises) - len(self.hopeless))


@dataclass(frozen=True)
class Found:
    """Results, and the data sets, noises and models that have any."""

    results: Results
    datasets: Sequence[str]
    noises: Sequence[float]
    models: Sequence[str]

    def label(self, dataset: str) -> str:
        own = next(own for (name, *_), own in self.results.items() if name == dataset)
        return str(next(iter(own.values()))["data"]["label"])

    def cells(self, *noises: float) -> list[tuple[str, float]]:
        return cells_of(self.results, noises or self.noises, self.datasets)

    def having(self, name: str) -> list[str]:
        """Models of which some run has a measurement."""
        return [
            model
            for model in self.models
            if any(
                record.get(name) is not None
                for (*_, which), own in self.results.items()
                if which == model
                for record in own.values()
            )
        ]


def _marked(mean: Mean, digits: int, word: str) -> str:
    mark = {"better": "**", "worse": "*"}.get(word, "")
    return f"{mark}{as_text(mean, digits)}{mark}"


def _table(found: Found, noise: float, name: str, models: Sequence[str], other: str, digits: int) -> str:
    """Means by data set and model, marked where they differ from another model's."""

    def cell(dataset: str, model: str) -> str:
        mean = mean_in(found.results, dataset, noise, model, name)
        if mean is None:
            return NOT_RUN
        result = None if model == other else compared(found.results, dataset, noise, model, other, name)
        return _marked(mean, digits, result.verdict if result else "")

    lines = [
        [found.label(dataset), *(cell(dataset, model) for model in models)]
        for dataset, _ in found.cells(noise)
        if any(mean_in(found.results, dataset, noise, model, name) for model in models)
    ]
    return markdown_table(["data set", *models], lines)


def _counts_table(found: Found, name: str) -> str:
    others = [model for model in found.models if model != BASELINE]
    lines = [
        [
            noise_name(noise),
            *(tally(found.results, found.cells(noise), model, BASELINE, name).text for model in others),
        ]
        for noise in found.noises
    ]
    lines.append(["all", *(tally(found.results, found.cells(), model, BASELINE, name).text for model in others)])
    return markdown_table(["wrong labels", *others], lines)


def _listed(cells: Sequence[tuple[str, float]]) -> str:
    """Cells by noise, such as ``20 %: iris, wine; 50 %: iris``."""
    by_noise: dict[float, list[str]] = {}
    for dataset, noise in cells:
        by_noise.setdefault(noise, []).append(dataset)
    return "; ".join(f"{noise_name(noise)}: {', '.join(datasets)}" for noise, datasets in by_noise.items())


def _losses(found: Found) -> str:
    """A line for each model and measure: where it is significantly worse than the baseline; then ours against each model."""
    lines = []
    for model in found.models:
        if model == BASELINE:
            continue
        for name in ("accuracy", "log_loss"):
            counted = tally(found.results, found.cells(), model, BASELINE, name)
            lines.append(_loss_line(f"{model} against {BASELINE}, {MEASURES[name].title}", counted))
    if OURS in found.models:
        for model in found.models:
            if model not in (OURS, BASELINE):
                for name in ("accuracy", "log_loss"):
                    counted = tally(found.results, found.cells(), OURS, model, name)
                    lines.append(_loss_line(f"{OURS} against {model}, {MEASURES[name].title}", counted))
    return "\n".join(lines)


def _loss_line(title: str, counted: Any) -> str:
    if not counted.tested:
        return f"- {title}: not tested, too few splits."
    where = f"worse in {len(counted.worse)} ({_listed(counted.worse)})" if counted.worse else "worse in none"
    return f"- {title}: of {counted.tested} cells better in {len(counted.better)}, {where}."


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _rates_table(found: Found, models: Sequence[str]) -> str:
    lines = []
    for dataset, noise in found.cells():
        rates = {model: rate_in(found.results, dataset, noise, model) for model in models}
        known = [rate for rate in rates.values() if rate]
        if not known:
            continue
        line = [found.label(dataset), noise_name(noise), _percent(known[0].true)]
        for model in models:
            rate = rates[model]
            line += (
                [_percent(rate.estimate), _percent(rate.largest_error), f"{rate.covered} of {rate.n}"]
                if rate
                else [NOT_RUN] * 3
            )
        lines.append(line)
    head = [f"{model}: {what}" for model in models for what in ("mean estimate", "largest error", "covered")]
    return markdown_table(["data set", "drawn with", "true share", *head], lines)


def _rates_in_short(found: Found, models: Sequence[str]) -> str:
    """A line for each model and noise: the largest error and how many intervals hold the truth."""
    lines = []
    for model in models:
        for noise in found.noises:
            own = [
                record
                for (_, level, which), runs in found.results.items()
                if (level, which) == (noise, model)
                for record in runs.values()
                if record.get("rate") is not None
            ]
            if own:
                rate = rate_of(own)
                bias = statistics.fmean(record["rate"] - record["wrong_share"] for record in own)
                lines.append(
                    f"- {model}, {noise_name(noise)}: mean error {100 * bias:+.1f}, largest "
                    f"{_percent(rate.largest_error)} percentage points; of {rate.n} intervals {rate.covered} hold "
                    f"the probability, and {rate.covered_share} the share there was."
                )
    return "\n".join(lines)


def _called_table(found: Found, models: Sequence[str]) -> str:
    """Precision / recall of the labels that are called wrong, mean over data sets of means over splits."""
    lines = []
    for noise in found.noises:
        line = []
        for model in models:
            pairs = [
                (precision.value, recall.value)
                for dataset, _ in found.cells(noise)
                if (precision := mean_in(found.results, dataset, noise, model, "called_precision"))
                and (recall := mean_in(found.results, dataset, noise, model, "called_recall"))
            ]
            if pairs:
                means = [statistics.fmean(column) for column in zip(*pairs, strict=True)]
                line.append(f"{means[0]:.2f} / {means[1]:.2f} ({len(pairs)} sets)")
            else:
                line.append(NOT_RUN)
        if any(text != NOT_RUN for text in line):
            lines.append([noise_name(noise), *line])
    return markdown_table(["wrong labels", *models], lines)


def _paper_table(found: Found) -> str | None:
    """The paper's means beside ours, in bold where met; None if there is nothing to compare."""
    lines, met = [], {model: [0, 0] for model in found.models}
    for dataset, noise in found.cells(*(noise for noise in PAPERS_NOISES if noise in found.noises)):
        pairs = {model: against_paper(found.results, dataset, noise, model) for model in found.models}
        known = [pair for pair in pairs.values() if pair]
        if not known:
            continue
        line = [found.label(dataset), noise_name(noise), as_text(known[0].published)]
        for model, pair in pairs.items():
            line.append(_marked(pair.found, 2, "better" if pair.met else "") if pair else NOT_RUN)
            if pair:
                met[model][0] += pair.met
                met[model][1] += 1
        lines.append(line)
    if not lines:
        return None
    lines.append(["met", "", "", *(f"{hits} of {all_}" if all_ else NOT_RUN for hits, all_ in met.values())])
    return markdown_table(["data set", "wrong labels", "the paper's LegendreTron", *found.models], lines)


def _times_table(found: Found) -> str:
    def seconds(dataset: str, model: str) -> str:
        own = [
            record["fit_seconds"]
            for (name, _, which), runs in found.results.items()
            if (name, which) == (dataset, model)
            for record in runs.values()
        ]
        return f"{statistics.median(own):.3g}" if own else NOT_RUN

    lines = [[found.label(dataset), *(seconds(dataset, model) for model in found.models)] for dataset in found.datasets]
    return markdown_table(["data set", *found.models], lines)


def _missing(found: Found, plan: Plan) -> str:
    done = {
        model: sum(len(own) for (*_, which), own in found.results.items() if which == model) for model in plan.models
    }
    lacking = [f"{model} {n:,} of {plan.runs_of_model:,}" for model, n in done.items() if n < plan.runs_of_model]
    return f"**Incomplete: runs done are {'; '.join(lacking)}. What follows is about these.**" if lacking else ""


def _stopped(found: Found) -> str:
    """How many fits of each model stopped at a limit of iterations, as a warning said."""
    parts = []
    for model in found.models:
        own = [record for (*_, which), runs in found.results.items() if which == model for record in runs.values()]
        if stopped := sum(not record["converged"] for record in own):
            parts.append(f"{model} in {stopped:,} of {len(own):,} runs")
    return f"Some fit inside stopped at its limit of iterations, with a warning: {'; '.join(parts) or 'none'}."


def _splits(found: Found) -> str:
    seeds = {seed for own in found.results.values() for seed in own}
    return f"splits and their noise have seeds {min(seeds)} to {max(seeds)}"


def write_report(records: list[Record], folder: Path, plan: Plan) -> list[Path]:
    """Write ``label_noise.md``, ``.csv`` and pictures."""

    def place(record: Record) -> tuple[int, ...]:
        where = [plan.datasets.index(record["dataset"]), plan.noises.index(record["noise"])]
        return (*where, plan.models.index(record["model"]), record["seed"])

    records = sorted(records, key=place)  # the same text in whatever order they come
    results = results_of(records)

    def kept(all_: Sequence[Any], axis: int) -> list[Any]:
        return [value for value in all_ if any(key[axis] == value for key in results)]

    found = Found(results, kept(plan.datasets, 0), kept(plan.noises, 1), kept(plan.models, 2))
    pictures: list[Path] = []
    sections = [
        "# Training labels of which some are wrong",
        _introduction(plan),
        _models_list(found),
        _missing(found, plan),
        *_in_short(found),
        *_accuracy_section(found, plan, folder, pictures),
        *_rates_section(found, plan, records, folder, pictures),
        *_doubts_section(found, plan, folder, pictures),
        *_paper_section(found),
        "## Times",
        "Median seconds of a fit over noises and splits, with all that the model does to choose its settings. Doubts "
        "in labels are not counted.",
        _times_table(found),
        _stopped(found),
        "## How it was run",
        f"{_splits(found).capitalize()}.{_cleanlab_version(records)} {described(records)}",
    ]
    text = "\n\n".join(section for section in sections if section)
    files = [write_text(folder / "label_noise.md", text), write_csv(folder / "label_noise.csv", comparison(results))]
    return [*files, *pictures]


def _in_short(found: Found) -> list[str]:
    if BASELINE not in found.models or len(found.models) < 2:
        return []
    return [
        "## Better and worse",
        f"In how many cells, each a data set and a noise, a model is significantly better / worse than {BASELINE}. Accuracy:",
        _counts_table(found, "accuracy"),
        "Log-loss:",
        _counts_table(found, "log_loss"),
        "Brier score:",
        _counts_table(found, "brier"),
        "Where each method loses, at the same level:",
        _losses(found),
    ]


def _accuracy_section(found: Found, plan: Plan, folder: Path, pictures: list[Path]) -> list[str]:
    path = folder / "label_noise_accuracy.png"
    picture = draw_accuracy(found.results, found.datasets, found.noises, found.models, plan.models, path)
    pictures.append(picture)
    sections = [
        f"![Accuracy by noise, a panel for each data set]({picture.name})",
        "Test accuracy by wrong training labels, mean over the splits.",
    ]
    for noise in found.noises:
        title = f"## Wrong labels: {noise_name(noise)}" if noise else "## No wrong labels"
        sections += [title, "Accuracy in %:", _table(found, noise, "accuracy", found.models, BASELINE, 2)]
        sections += ["Log-loss:", _table(found, noise, "log_loss", found.models, BASELINE, 3)]
    return sections


def _rates_section(
    found: Found, plan: Plan, records: Sequence[Record], folder: Path, pictures: list[Path]
) -> list[str]:
    models = found.having("rate")
    if not models:
        return []
    picture = draw_rates(records, models, plan.noises, folder / "label_noise_rates.png")
    assert picture is not None
    pictures.append(picture)
    return [
        "## How many are wrong",
        "The estimated share of wrong labels, `noise_rate_`, in %. The true share is that in the training rows, mean "
        "over the splits; the largest error of an estimate is from the true share of the same rows, in percentage "
        "points; covered are the intervals that hold the probability with which labels were made wrong.",
        _rates_in_short(found, models),
        f"![Estimated against true share of wrong labels]({picture.name})",
        "Each point is a run, and each line its interval.",
        _rates_table(found, models),
    ]


def _doubts_section(found: Found, plan: Plan, folder: Path, pictures: list[Path]) -> list[str]:
    models = found.having("average_precision")
    if not models:
        return []
    reference = CLEANLAB if CLEANLAB in models else models[0]
    digits = AVERAGE_PRECISION.digits
    noises = [noise for noise in found.noises if noise]
    sections = [
        "## Which are wrong",
        f"The {AVERAGE_PRECISION.title} of training labels, those first that are doubted most, against which labels "
        "were really made wrong. Labels are judged by models that did not see the row. Bold: better than "
        f"{reference} at 99 % in a paired t-test; italic: worse.",
        "Our figures in this section are of development versions before label quality was calibrated (see the changelog): "
        "predictions had a floor then, below which rows could not be told apart. Accuracies and rates do not depend on it.",
    ]
    for noise in noises:
        table = _table(found, noise, "average_precision", models, reference, digits)
        sections += [f"Wrong labels: {noise_name(noise)}", table]
    if drawn := draw_doubts(found.results, noises, models, plan.models, folder / "label_noise_doubts.png"):
        picture, dataset = drawn
        pictures.append(picture)
        sections += [
            f"![Precision and recall of doubted labels on {dataset}]({picture.name})",
            f"On {dataset}: of the shortest list of doubted labels that holds a share of the wrong ones, how much of "
            "it is wrong. Mean over the splits.",
        ]
    return [
        *sections,
        "Precision / recall of the labels that a method calls wrong, mean over the data sets. Ours calls a label "
        "wrong if that is more likely than not, cleanlab by `find_label_issues`.",
        _called_table(found, models),
    ]


def _paper_section(found: Found) -> list[str]:
    table = _paper_table(found)
    if table is None:
        return []
    return [
        "## The paper's means",
        "The paper prints mean accuracies of LegendreTron over 20 splits with wrong training labels; these were not "
        "run again here. Its splits are others and not stratified. Bold: met, which is at most one combined standard "
        "error below. Data of which only a subset is at hand are left out.",
        table,
    ]


#: What each model is, in the report.
MODELS = {
    BASELINE: "scikit-learn's logistic regression, its strength chosen by log-loss in cross-validation; knows nothing of "
    "wrong labels.",
    OURS: "as it comes.",
    WITHOUT: "`LegendreTronClassifier(label_noise=None)`, which takes all labels for right.",
    FLOOR: '`MultinomialLogisticClassifier(label_noise="symmetric")`: logistic regression that learns the share of wrong '
    "labels, which gives each probability a floor.",
    FORWARD: "`MultinomialLogisticClassifier(label_noise=T)` with the matrix that labels were drawn with. Nobody knows it "
    "outside of an experiment; it is there to show what can be had by a linear model.",
    GENERALISED: "a linear softmax model with the loss (1 - p^q) / q of the label's probability p, q = 0.7 (Zhang and "
    "Sabuncu 2018), its strength chosen by accuracy in cross-validation.",
    CLEANLAB: "`CleanLearning(LogisticRegression())` on standardised features: labels that it calls wrong are left out "
    "(Northcutt, Jiang and Chuang 2021). C = 1, scikit-learn's default.",
    TUNED_CLEANLAB: f"the same, with the C that {BASELINE} chooses.",
}


def _models_list(found: Found) -> str:
    return "\n".join(f"- **{model}**: {MODELS[model]}" for model in found.models)


def _introduction(plan: Plan) -> str:
    skipped = "; ".join(f"{dataset} at {noise_name(noise)}" for dataset, noise in sorted(plan.hopeless))
    return (
        "Models are trained with labels of which some are wrong, and tested with right ones. Labels are made wrong "
        "with some probability: symmetric noise draws one of the other classes, and pairs turns each class into the "
        "next, the last into the first. All models have the same splits, stratified with 80 % of the rows to train on, "
        "and the same wrong labels. Features are as distributed, and each model standardises on its training rows. "
        "What is chosen by cross-validation is chosen by the labels there are, right or wrong. Every run has one "
        f"thread. Where half of the labels of two classes are wrong they say nothing, so it is not run ({skipped}); for "
        "two classes, pairs is symmetric noise.\n\n"
        f"Means over splits ± standard error. Bold: better than {BASELINE} at {100 * (1 - LEVEL):g} % in a paired t-test; "
        f"italic: worse; {NOT_RUN}: not run. Tests are not corrected for their number: where nothing differs, "
        f"{100 * LEVEL:g} % of the cells are marked all the same."
    )


def _cleanlab_version(records: Sequence[Record]) -> str:
    versions = dict.fromkeys(record["cleanlab"] for record in records if record.get("cleanlab"))
    return f" cleanlab {', '.join(versions)}." if versions else ""
