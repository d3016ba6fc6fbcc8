"""The page as a whole: what it says, for which models, and for which input it refuses."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from legendretron import (
    EvaluationReport,
    LegendreCalibrator,
    LegendreNetClassifier,
    LegendreTronClassifier,
    MultinomialLogisticClassifier,
    TableClassifier,
    load,
)
from legendretron.report.markup import percent
from tests.report.conftest import NAMES, Given, draw_labels, make_data

pytestmark = pytest.mark.usefixtures("quick")

VOID = {"meta", "br", "wbr", "path", "line", "rect", "circle"}


@pytest.fixture(scope="module")
def report(fitted, quick):
    return EvaluationReport(*fitted, data="<table>.csv", facts={"<source>": "<somewhere>"})


class Page(HTMLParser):
    """Text, sections and addresses of a page; fails if elements are not closed in order."""

    def __init__(self, html):
        super().__init__()
        self.open, self.sections, self.addresses, self.words, self.tables = [], {}, [], [], 0
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        if tag not in VOID:
            self.open.append((tag, named.get("id")))
        self.tables += tag == "table"
        self.addresses += [named[key] for key in ("href", "src") if key in named]

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop()[0] == tag

    def handle_data(self, data):
        data = data.replace("\N{NO-BREAK SPACE}%", " %")
        inside = [name for tag, name in self.open if tag == "section"]
        if inside:
            self.sections[inside[0]] = self.sections.get(inside[0], "") + data
        if not any(tag in ("style", "script") for tag, _ in self.open):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def page_of(*arguments, **settings):
    return Page(EvaluationReport(*arguments, **settings).to_html())


SECTIONS = [
    "scores", "calibration", "classes", "sets", "confusions", "ranking", "learned", "coefficients", "training", "labels",
    "card",
]  # fmt: skip


def test_the_page_has_all_sections_and_needs_no_network(report):
    html = report.to_html()
    page = Page(html)
    assert list(page.sections) == SECTIONS
    assert set(page.addresses) == {f"#{name}" for name in SECTIONS}
    assert not re.search(r"url\(|@import|https?:", html)
    assert "default-src &#39;none&#39;" in html


def test_the_page_says_what_is_predicted_and_what_never_is():
    log_p, y = draw_labels(300)
    y[:] = np.where(log_p.argmax(1) == y, y, 1)  # no label but those that the model finds, and 1
    log_p[:, 1] -= 20.0
    log_p -= np.log(np.exp(log_p).sum(1, keepdims=True))
    labels = pd.Series(np.array(["red", "green", "blue"])[y], name="<color>")
    order = np.argsort(["red", "green", "blue"])
    report = EvaluationReport(Given(("blue", "green", "red")), log_p[:, order], labels)
    page, share = Page(report.to_html()), labels.value_counts(normalize=True)
    shares = [f"{name} ({percent(share[name])}" for name in ("blue", "green", "red")]
    assert f"The model predicts <color>: {shares[0]} of the rows), {shares[1]}) or {shares[2]})." in page.text
    assert "predicted<color>" in page.sections["card"]
    assert "It never predicts green." in report.summary
    assert "The model never predicts green. Click" in page.sections["classes"]
    log_p, y = draw_labels(300, 26)
    report = EvaluationReport(
        Given(tuple("abcdefghijklmnopqrstuvwxyz")), log_p, np.array([*"abcdefghijklmnopqrstuvwxyz"])[y]
    )
    assert re.search(r"The model predicts one of 26 classes: .* or one of 14 more\.", Page(report.to_html()).text)
    assert "never predicts" not in report.summary


def test_mistakes_are_counted_and_sure_labels_are_not_called_suspicious():
    log_p = np.log(np.repeat([[0.99, 0.01], [0.01, 0.99]], 50, axis=0))
    page = page_of(Given((0, 1)), log_p, np.repeat([0, 1], 50))
    assert "No label is probably wrong" in page.sections["labels"]
    assert "suspicious" not in page.sections["labels"].replace("Suspicious labels", "")
    page = page_of(Given((0, 1)), log_p, np.repeat([0, 1, 0, 1], [48, 2, 1, 49]))
    assert "4898 %12 %24 %4996 %" in re.sub(r"true .*\n.*?class", "", page.sections["confusions"])


def test_prediction_sets_are_measured():
    X, y = make_data(900)
    model = MultinomialLogisticClassifier(random_state=0).fit(X[:500], y[:500])
    page = Page(EvaluationReport(model, X[500:], y[500:]).to_html())
    sets = model.predict_set(X[500:])
    held = sets[np.arange(400), np.searchsorted(model.classes_, y[500:])].mean()
    assert f"contain the label in {percent(held)} of the rows" in page.text
    assert "Calibrated on 500 rows of the fit, predicted out of fold." in page.text
    given = MultinomialLogisticClassifier(alpha=0.01).fit(X[:500], y[:500])
    assert "The model has no prediction sets" in Page(EvaluationReport(given, X[500:], y[500:]).to_html()).text


def test_text_of_users_is_escaped(report):
    html = report.to_html()
    assert html.count("<script>") == 1
    for text in (NAMES[0], NAMES[1], "<table>.csv", "<source>", "<somewhere>"):
        assert text not in html.replace("<table>", "" if text != "<table>.csv" else "<table>")
        assert text in Page(html).text


def test_scores_are_those_of_scikit_learn(fitted, report):
    model, X, y = fitted
    p = model.predict_proba(X)
    found = report.scores["LegendreTronClassifier"]
    assert found["accuracy"].value == pytest.approx(accuracy_score(y, model.predict(X)))
    assert found["log_loss"].value == pytest.approx(log_loss(y, p))
    assert found["auc"].value == pytest.approx(roc_auc_score(y, p, multi_class="ovr"))
    for scores in report.scores.values():
        for name, estimate in scores.items():
            assert estimate.low <= estimate.value <= estimate.high, name
    dummy = report.scores["Class frequencies only"]
    share = np.unique(y, return_counts=True)[1] / len(y)
    assert dummy["log_loss"].value == pytest.approx(-(share * np.log(share)).sum())
    assert dummy["auc"].value == 0.5


def test_weights_count_and_rows_of_weight_zero_are_left_out(fitted):
    model, X, y = fitted
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    one = EvaluationReport(model, X, y, weight)
    rows = np.repeat(np.arange(len(y)), weight)
    p = model.predict_proba(X[rows])
    found = one.scores["LegendreTronClassifier"]
    assert found["log_loss"].value == pytest.approx(log_loss(y[rows], p))
    assert found["auc"].value == pytest.approx(roc_auc_score(y[rows], p, multi_class="ovr"))
    kept = weight > 0
    other = EvaluationReport(model, X[kept], y[kept], 7 * weight[kept])
    assert one.summary == other.summary
    for name, scores in one.scores.items():
        for score, estimate in scores.items():
            assert estimate == pytest.approx(other.scores[name][score]), (name, score)


@pytest.mark.parametrize(
    ("power", "words"), [(1.0, "can be taken as they are"), (3.0, "are over-confident"), (0.4, "are under-confident")]
)
def test_calibration_is_judged(power, words):
    log_p, y = draw_labels()
    report = EvaluationReport(Given((0, 1, 2), power), log_p, y)
    assert f"Its probabilities {words}" in report.summary
    page = Page(report.to_html())
    found = "would not clearly lower" if power == 1.0 else "would lower"
    assert f"Recalibration {found} the log-loss" in page.sections["calibration"]
    temperature = float(re.search(r"best temperature is ([\d.]+);", page.sections["calibration"])[1])
    assert temperature == pytest.approx(power, rel=0.2)


def test_an_error_of_calibration_is_not_denied_where_recalibration_brings_little():
    log_p, y = draw_labels(150, seed=1)
    report = EvaluationReport(Given((0, 1, 2), 0.7), log_p, y)
    assert "Its probabilities are under-confident" in report.summary
    section = Page(report.to_html()).sections["calibration"]
    assert "Recalibration would not clearly lower the log-loss" in section
    assert "no error" not in section


def test_few_rows_are_not_taken_for_many():
    """Draws from rows that are all right are all right, which says nothing about other rows."""
    log_p = np.log([[0.9, 0.1], [0.1, 0.9]])
    report = EvaluationReport(Given((0, 1)), log_p, [0, 1])
    assert "is right on 100.0 % of the rows (95 % interval 15.8 % to 100.0 %)" in report.summary
    assert "Its probabilities cannot be evaluated on fewer than 30 rows." in report.summary
    page = Page(report.to_html())
    assert "too few rows to draw a reliability curve" in page.sections["calibration"]
    assert "Recall is 100.0 % for every class." in page.sections["classes"]
    assert "Areas have no interval where a class" in page.sections["classes"]
    assert "the exact one of a binomial distribution" in page.sections["scores"]


def test_rows_keep_the_numbers_that_they_are_given():
    log_p, y = draw_labels(40, spread=4.0)
    numbers = 1000 + 10 * np.arange(40)
    weight = np.ones(40)
    weight[0] = 0.0
    page = page_of(Given((0, 1, 2)), log_p, y, weight, row_numbers=numbers)
    listed = {int(found.replace(",", "")) for found in re.findall(r"1,\d\d0", page.sections["labels"])}
    assert listed == set(numbers[1:].tolist())


def test_side_by_side(fitted):
    model, X, y = fitted
    report = EvaluationReport(model, X, y, against=model, against_name="again")
    page = Page(report.to_html())
    assert "By log-loss it is not clearly different from the other one, again" in report.summary
    assert page.sections["against"].count("no clear difference") == 4
    assert "Both predict the same class on 100.0 %" in page.sections["against"]
    log_p, labels = draw_labels(200)
    sharp = Given((0, 1, 2), 6.0)
    better = EvaluationReport(Given((0, 1, 2)), log_p, labels, against=sharp, against_name="sharp").summary
    assert "By log-loss it is better than the other one, sharp" in better
    worse = EvaluationReport(sharp, log_p, labels, against=Given((0, 1, 2)), against_name="given").summary
    assert "By log-loss it is worse than the other one, given" in worse


def test_the_other_model_may_have_other_columns_and_another_order_of_classes():
    log_p, y = draw_labels(200)
    other = Given((2, 0, 1)), log_p[:, [2, 0, 1]]
    report = EvaluationReport(Given((0, 1, 2)), log_p, y, against=other)
    one, two = report.scores["Given"], report.scores["Given (the other)"]
    assert one["log_loss"] == pytest.approx(two["log_loss"])


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (MultinomialLogisticClassifier(alpha=0.01), {"learned": "as in logistic regression"}),
        (
            LogisticRegression(),
            {"learned": "LogisticRegression learns no link", "coefficients": "has the strongest effect"},
        ),
        (
            make_pipeline(StandardScaler(), LogisticRegression()),
            {"coefficients": "x0 has the strongest effect", "training": "keeps no record"},
        ),
        (
            GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression()), {"logisticregression__C": [1.0]}, cv=2),
            {"coefficients": "has the strongest effect"},
        ),
        (
            RandomForestClassifier(5, random_state=0),
            {"coefficients": "RandomForestClassifier has no coefficients", "labels": "The model has no estimate"},
        ),
        (
            LegendreTronClassifier(alpha=0.01, link_alpha=0.01, max_epochs=5, random_state=0, label_noise=0.1),
            {
                "learned": "(composite) has no loss of its own",
                "labels": "An estimated 10.0 % of the training labels are wrong",
            },
        ),
    ],
    ids=["multinomial", "sklearn", "pipeline", "search", "forest", "composite"],
)
def test_models_of_every_kind(model, said):
    X, y = make_data(200)
    page = page_of(model.fit(X[:140], y[:140]), X[140:], y[140:])
    for section, words in said.items():
        assert words.replace("x0", "") in page.sections[section]


def test_calibrators(fitted):
    model, X, y = fitted
    calibrator = LegendreCalibrator(FrozenEstimator(model)).fit(X[:60], y[:60])
    page = page_of(calibrator, X[60:], y[60:])
    assert "the learned link" in page.sections["learned"]  # that of the model inside
    assert "fitted without an estimate of wrong labels" in page.sections["labels"]
    scores = model.predict_proba(X)
    page = page_of(LegendreCalibrator().fit(scores[:60], y[:60]), scores[60:], y[60:])
    assert "LegendreCalibrator learns no link" in page.sections["learned"]


def test_tables_with_text_and_gaps():
    X, y = make_data(160)
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["<color>"] = np.where(y == NAMES[0], "red", "blue")
    frame.loc[::7, "a"] = np.nan
    estimator = LegendreTronClassifier(alpha=0.01, link_alpha=0.01, max_epochs=5, random_state=0, label_noise=0.1)
    model = TableClassifier(estimator).fit(frame[:100], y[:100])
    page = page_of(model, frame[100:], y[100:], against=model)
    assert page.sections["card"].count("The classifier inside") == 2
    assert "kindLegendreTronClassifier" in page.sections["card"]
    assert "<color>=" in page.sections["coefficients"]
    assert "An estimated 10.0 % of the training labels are wrong" in page.sections["labels"]
    assert "(composite) has no loss of its own" in page.sections["learned"]
    assert "no logistic regression of its training rows" in page.sections["scores"]  # its penalties were given


def test_tables_with_names_and_sparse_ones(fitted):
    model, X, y = fitted
    frame = pd.DataFrame(X, columns=["a", "<b>", "c", "d", "e"])
    named = LogisticRegression().fit(frame, y)
    page = page_of(named, frame, y, np.arange(len(y)))  # the first has weight zero
    assert "<b>" in page.sections["coefficients"]
    sparse = scipy.sparse.csr_array(X)
    dense, thin = (EvaluationReport(model, rows, y) for rows in (X, sparse))
    assert thin.summary == dense.summary


def test_what_cannot_be_done_is_said():
    log_p, y = draw_labels(20)
    page = page_of(Given((0, 1, 2)), log_p, y)
    assert "no temperature scaling, because there are fewer than 30 rows" in page.sections["scores"]
    assert "too few rows for cross-validated recalibration" in page.sections["calibration"]
    X = np.where(np.arange(120).reshape(60, 2) % 7 == 0, np.nan, 1.0)
    labels = np.arange(60) % 2
    forest = RandomForestClassifier(3, random_state=0).fit(X, labels)
    page = page_of(forest, X, labels)
    assert "no logistic regression of its training rows" in page.sections["scores"]
    assert "coefficients" not in page.sections


NOISY = {"random_state": 0, "label_noise": "symmetric", "cv": 2}


@pytest.fixture(scope="module")
def noisy():
    """A model of labels of which a fifth is wrong, known at first, and found."""
    X, y = make_data(700, seed=5)
    wrong = np.random.default_rng(0).permutation(NAMES.repeat(700))[:700]
    recorded = np.where(np.random.default_rng(1).random(700) < 0.3, wrong, y)
    return MultinomialLogisticClassifier(**NOISY).fit(X[:350], recorded[:350]), X, y, recorded


def test_the_rival_is_a_logistic_regression_of_the_training_rows(noisy, tmp_path):
    model, X, _, recorded = noisy
    report = EvaluationReport(model, X[350:], recorded[350:])
    plain = model.tuning_[model.tuning_["label_noise"] == 0]
    alpha = plain.loc[plain["log_loss"].idxmin(), "alpha"]
    rival = MultinomialLogisticClassifier(alpha=alpha).fit(X[:350], recorded[:350])
    found = report.scores["Logistic regression of the same training rows"]["log_loss"].value
    assert found == pytest.approx(log_loss(recorded[350:], rival.predict_proba(X[350:])), rel=1e-4)
    assert re.search("By log-loss it is .* a logistic regression of the same training rows", report.summary)
    model.save(tmp_path / "model.safetensors")
    assert EvaluationReport(load(tmp_path / "model.safetensors"), X[350:], recorded[350:]).summary == report.summary
    page = page_of(rival, X[350:], recorded[350:])
    assert "The model is itself a logistic regression" in page.sections["scores"]
    assert "By log-loss" not in page.text


def test_networks_keep_a_rival():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = (X**2).sum(1) > 1.4
    model = LegendreNetClassifier(max_steps=300, random_state=0).fit(X[:300], y[:300])
    assert not model.is_linear_
    assert (
        "better than a logistic regression of the same training rows"
        in EvaluationReport(model, X[300:], y[300:]).summary
    )


def test_wrong_labels_that_the_model_knows_of_are_not_its_fault():
    """Its probabilities of true labels are too high for recorded ones, and those of recorded ones too low for true ones."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 3))
    p = np.exp(X @ rng.normal(size=(3, 3)) * 2)
    true = (p.cumsum(1) < p.sum(1, keepdims=True) * rng.random((2500, 1))).sum(1)
    recorded = np.where(rng.random(2500) < 0.2, (true + rng.integers(1, 3, 2500)) % 3, true)
    model = MultinomialLogisticClassifier(alpha=1e-4, label_noise=0.2).fit(X[:1500], recorded[:1500])
    report = EvaluationReport(model, X[1500:], recorded[1500:])
    assert (
        "assumes that 20.0 % of recorded labels are wrong, and the labels of these rows are compared" in report.summary
    )
    assert "Its probabilities can be taken as they are" in report.summary
    own = report.scores["MultinomialLogisticClassifier"]["log_loss"].value
    assert own == pytest.approx(log_loss(recorded[1500:], model.predict_proba_observed(X[1500:])))
    report = EvaluationReport(model, X[1500:], true[1500:], against=model)
    assert "the labels of these rows agree better with its probabilities of true labels" in report.summary
    assert "Its probabilities can be taken as they are" in report.summary
    for found in list(report.scores.values())[:2]:
        assert found["log_loss"].value == pytest.approx(log_loss(true[1500:], model.predict_proba(X[1500:])))


def test_probabilities_of_zero_are_told():
    log_p, y = draw_labels(60)
    certain = np.where(np.arange(3) == log_p.argmax(1, keepdims=True), 0.0, -2000.0)
    report = EvaluationReport(Given((0, 1, 2)), certain, y)
    wrong = int((log_p.argmax(1) != y).sum())
    assert f"a probability of zero on {wrong} rows" in Page(report.to_html()).sections["scores"]
    assert report.scores["Given"]["log_loss"].value == pytest.approx(wrong / 60 * np.log(1e15))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": ["e"] * 120}, r"y holds labels that the model does not know: 'e'; it knows"),
        ({"y": ["d"] * 120}, "y holds one class only, 'd'.*give rows of at least two classes"),
        ({"y": []}, "y must contain at least one label"),
        ({"X": np.zeros((3, 5))}, "X must have a row for each of 120 labels, got 3 rows"),
        ({"model": LogisticRegression()}, "not fitted"),
        ({"model": SVC().fit([[0], [1]], [0, 1])}, "model must be a classifier with predict_proba, got SVC"),
        ({"against": Given((0, 1))}, "against must have the classes .* as the other model has, got 0, 1"),
        ({"against": (Given(NAMES), np.zeros((2, 3)))}, "X of against must have a row for each of 120 labels, got 2"),
        ({"name": ""}, "name must be text that is not empty"),
        ({"target": ""}, "target must be text that is not empty"),
        ({"against_name": "x"}, "against_name is for a second model"),
        ({"against": (Given((0, 1)),)}, "against must be a classifier, or a pair of one and its features, got 1"),
        ({"log_proba": np.zeros((120, 3))}, "log_proba must hold the logarithms of probabilities that sum to 1"),
        ({"row_numbers": [1, 2]}, "row_numbers must contain an integer for each of 120 labels, got int64 of shape"),
        ({"random_state": -1}, "random_state must be an integer of at least 0"),
        ({"sample_weight": np.full(120, -1.0)}, "Negative values|negative"),
    ],
)
def test_bad_input_is_named(fitted, change, message):
    model, X, y = fitted
    given = {"model": model, "X": X, "y": y} | change
    with pytest.raises(ValueError, match=message) as caught:
        EvaluationReport(**given)
    assert len(str(caught.value).splitlines()) <= 1 or "sample_weight" in change


def test_saving_is_whole_or_not_at_all(report, tmp_path):
    report.save(tmp_path / "new" / "report.html")
    assert (tmp_path / "new" / "report.html").read_text() == report.to_html()
    with pytest.raises(ValueError, match="is a folder"):
        report.save(tmp_path)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["report.html"]


def test_notebooks_show_it_in_a_frame(report):
    shown = report._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert shown.count("<") == 2  # nothing of the page gets out of its frame
    assert repr(report).startswith("EvaluationReport('The model is right on")


def test_the_same_seed_gives_the_same_numbers(fitted, report):
    model, X, y = fitted
    again, other = EvaluationReport(model, X, y), EvaluationReport(model, X, y, random_state=1)
    assert again.scores == report.scores
    assert other.scores != report.scores


@pytest.mark.exhaustive
def test_a_thousand_classes():
    log_p, y = draw_labels(1500, 1000, spread=3.0)
    report = EvaluationReport(Given(tuple(range(1000))), log_p, y)
    page = Page(report.to_html())
    assert len(report.to_html()) < 5_000_000
    assert "The 12 classes of 1000 with the largest error" in page.sections["calibration"]
    assert "True classes in rows" not in page.sections["confusions"]


# --- what the guide says about time and size is what was recorded ---


ROOT = Path(__file__).resolve().parents[2]


def test_the_guide_has_the_figures_of_the_record():
    record = json.loads((ROOT / "docs" / "results" / "report_speed.json").read_text())
    assert record["shape"] == [100_000, 50, 26]
    text = " ".join((ROOT / "docs" / "guide" / "report.md").read_text().split())
    assert f"{record['processor_seconds']:.0f} s on one processor" in text
    assert f"a page of {record['megabytes']:.1f} MB" in text
