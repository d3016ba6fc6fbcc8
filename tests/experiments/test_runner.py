"""The runner on the real table of LIBSVM data sets, with small data and few epochs."""

import json
import os
import resource
import signal
from dataclasses import replace

import pytest
from sklearn.model_selection import train_test_split

import legendretron.paper.libsvm as table_module
from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.datasets import load_dataset
from legendretron.experiments import Batch, Resources, Run, read_records, sweep
from legendretron.experiments.recipes import VERSIONS, make_estimator, make_recipe
from legendretron.paper import EXPERIMENTS
from legendretron.training.history import Progress
from legendretron.trons import GLMTronClassifier

TABLE = EXPERIMENTS["table_libsvm"]
PAPERS = ("LegendreTron", "logistic regression")


def small(datasets=("iris",), models=PAPERS, seeds=2, noise=(0.0, 0.2), epochs=2):
    return TABLE.narrow(datasets=datasets, models=models, seeds=seeds, noise=noise).shorten(epochs)


def results(folder):
    """What was measured, without what depends on time and place."""
    facts = (
        "dataset", "model", "seed", "noise", "accuracy", "log_loss", "train_counts", "test_counts", "settings", "data",
    )  # fmt: skip
    return sorted(
        (record["key"], json.dumps({name: record[name] for name in facts})) for record in read_records(folder)
    )


def test_a_sweep_does_what_is_missing_and_nothing_twice(data_folder, tmp_path):
    resources = Resources(data_folder)
    first = sweep(small(seeds=1), tmp_path, resources)
    assert (first.total, first.before, first.now, first.failed) == (4, 0, 4, [])
    before = (tmp_path / "runs.jsonl").read_bytes()
    second = sweep(small(seeds=3), tmp_path, resources)
    assert (second.total, second.before, second.now) == (12, 4, 8)
    assert (tmp_path / "runs.jsonl").read_bytes().startswith(before)
    third = sweep(small(seeds=3), tmp_path, resources)
    assert (third.before, third.now) == (12, 0)
    assert third.cost_done == third.cost > 0
    assert {record["key"] for record in read_records(tmp_path)} == set(third.keys)


def test_rendering_takes_what_the_records_are_of(data_folder, tmp_path):
    """Not what data are there now: a subset stays one, and nothing is dropped."""
    experiment = small(datasets=("iris", "Sensorless"), models=PAPERS[1:], seeds=1)
    done = sweep(experiment, tmp_path / "out", Resources(data_folder))
    (tmp_path / "empty").mkdir()
    again = sweep(experiment, tmp_path / "out", Resources(tmp_path / "empty"), render_only=True)
    assert again.keys == done.keys
    assert (again.before, again.total, again.skipped) == (4, 4, {})
    nothing = sweep(experiment, tmp_path / "none", Resources(data_folder), render_only=True)
    assert (nothing.total, nothing.keys) == (0, [])
    assert not (tmp_path / "none").exists()


def test_records_hold_what_a_reader_needs(data_folder, tmp_path):
    sweep(small(), tmp_path, Resources(data_folder), command="how to")
    records = read_records(tmp_path)
    assert len(records) == 8
    for record in records:
        assert record["command"] == "how to"
        assert record["data"]["rows"] == 150
        assert record["settings"]["estimator"].endswith("Classifier")
        assert record["settings"]["max_epochs"] == 2
        assert record["versions"]["torch"]
        assert record["device"].startswith("cpu")
        assert sum(record["train_counts"]) == 120
        assert sum(record["test_counts"]) == 30
        assert record["batch_runs"] == 4
        assert record["seconds"] > 0
    by_noise = {noise: [r["train_counts"] for r in records if r["noise"] == noise] for noise in (0.0, 0.2)}
    assert by_noise[0.0] != by_noise[0.2]
    # the same split for both models, and test labels without noise
    for seed in (0, 1):
        assert len({tuple(r["test_counts"]) for r in records if r["seed"] == seed}) == 1


def test_each_run_is_what_a_fit_of_its_own_gives(data_folder, tmp_path):
    sweep(small(models=PAPERS[:1], epochs=5), tmp_path, Resources(data_folder))
    iris = load_dataset("iris", data_folder)
    for record in read_records(tmp_path):
        X, X_test, y, y_test = train_test_split(iris.X, iris.y, test_size=0.2, random_state=record["seed"])
        y = table_module.noisy_labels(y, record["noise"], 3, record["seed"])
        alone = LegendreTronClassifier.from_paper("libsvm", max_epochs=5, random_state=record["seed"]).fit(X, y)
        assert record["accuracy"] == pytest.approx(100 * alone.score(X_test, y_test), abs=1e-4)


def test_subsets_are_labeled_and_kept_apart(data_folder, tmp_path):
    experiment = small(datasets=("Sensorless", "aloi"), models=("logistic regression",))
    state = sweep(experiment, tmp_path, Resources(data_folder))
    assert list(state.skipped) == ["aloi"]
    assert "108,000" in state.skipped["aloi"]
    assert "https://" in state.skipped["aloi"]
    (record, *_) = read_records(tmp_path)
    assert record["data"]["label"] == "Sensorless (55 of 58,509 rows)"
    assert record["data"]["source"] == "subset of 55"
    whole = Batch("table_libsvm", "iris", "LegendreTron", {}, "complete", (Run("iris", "LegendreTron", 0.0, None, 0),))
    assert whole.run_keys() != replace(whole, source="subset of 55").run_keys()
    text = experiment.report(read_records(tmp_path), tmp_path)[0].read_text()
    assert "Sensorless (55 of 58,509 rows)" in text
    assert "subset" in text


def test_training_that_was_interrupted_is_no_result(data_folder, tmp_path, monkeypatch):
    # not by a timer: a signal that arrives while an object is deleted is lost
    monkeypatch.setattr(Progress, "update", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        sweep(small(epochs=10**6), tmp_path, Resources(data_folder))
    assert read_records(tmp_path) == []


def test_other_processes_give_the_same_results(data_folder, tmp_path):
    experiment = small(datasets=("iris", "wine"), seeds=1)
    sweep(experiment, tmp_path / "alone", Resources(data_folder))
    state = sweep(experiment, tmp_path / "loky", Resources(data_folder), n_jobs=2)
    assert state.now == 8
    assert results(tmp_path / "alone") == results(tmp_path / "loky")


def test_a_full_disk_loses_nothing(data_folder, tmp_path, monkeypatch):
    """The disk fills up while the second result is written: the first stays, and the sweep goes on later."""
    path, limits = tmp_path / "runs.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(handle):  # after the first result
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100, limits[1]))

    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fill)
            with pytest.raises(OSError, match="File too large"):
                sweep(small(), tmp_path, Resources(data_folder))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(read_records(tmp_path)) == 4, "what is half written does not count"
    state = sweep(small(), tmp_path, Resources(data_folder))
    assert (state.before, state.now) == (4, 4)
    assert len(read_records(tmp_path)) == 8


def test_a_line_that_was_not_written_to_its_end_is_written_again(data_folder, tmp_path):
    sweep(small(), tmp_path, Resources(data_folder))
    path, whole = tmp_path / "runs.jsonl", results(tmp_path)
    path.write_bytes(path.read_bytes()[:-100])
    assert 0 < len(read_records(tmp_path)) < len(whole)
    sweep(small(), tmp_path, Resources(data_folder))
    assert results(tmp_path) == whole
    first, *others = path.read_text().splitlines(keepends=True)
    path.write_text(first + '{"runs": [\n' + "".join(others))
    with pytest.raises(ValueError, match=r"line 2 of .*runs.jsonl' is not a line of results"):
        sweep(small(), tmp_path, Resources(data_folder))


def test_parts_do_not_depend_on_what_is_missing(data_folder, tmp_path):
    """Whichever parts are done, the others stay as they are: only so are results after a kill the same bits."""
    experiment = small(models=PAPERS[:1], seeds=7, noise=(0.0,))
    sweep(experiment, tmp_path, Resources(data_folder), batch_size=3)
    path = tmp_path / "runs.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    assert sorted(len(json.loads(line)["runs"]) for line in lines) == [1, 3, 3]
    for number, line in enumerate(lines):
        path.write_text("".join(lines[:number] + lines[number + 1 :]))
        sweep(experiment, tmp_path, Resources(data_folder), batch_size=3)
        again = path.read_text().splitlines()[-1]
        assert json.loads(again)["runs"] == json.loads(line)["runs"]


def test_runs_that_do_not_fit_are_trained_in_parts(data_folder, tmp_path, monkeypatch):
    experiment = replace(small(models=PAPERS[:1], seeds=4, noise=(0.0,)), bytes_per_run=lambda model, dataset: 1.0)
    monkeypatch.setattr(os, "sysconf", lambda name: 2)  # 4 bytes in all, of which models may take 2
    sweep(experiment, tmp_path, Resources(data_folder))
    assert [record["batch_runs"] for record in read_records(tmp_path)] == [2] * 4


@pytest.mark.parametrize(("wrong", "message"), [
    ({"datasets": ["mnist"]}, "there is no 'mnist'"),
    ({"models": ["SVM"]}, r"models of table_libsvm are 'LegendreTron', .* there is no 'SVM'"),
    ({"seeds": 0}, "seeds must be an integer of at least 1, got 0"),
    ({"noise": [1.5]}, r"noise must contain numbers from 0 to below 1, got \[1.5\]"),
    ({"sizes": [50]}, "table_libsvm has one training set size; leave sizes out"),
    ({"noise": [0.1, 0.1]}, "noise of table_libsvm must not be empty or contain duplicates"),
    ({"sizes": [0]}, "has one training set size"),
])  # fmt: skip
def test_narrowing_to_what_is_not_there(wrong, message):
    with pytest.raises(ValueError, match=message):
        TABLE.narrow(**wrong)


def test_a_run_that_diverges_fails_its_batch_and_no_other(data_folder, tmp_path, monkeypatch):
    from legendretron.experiments import recipes

    whole = recipes.fit_whole

    def diverging(*arguments):
        fitted = whole(*arguments)
        if len(fitted.model.weight[0]) == 4:  # iris
            fitted.model.flat[1] = float("nan")
        return fitted

    monkeypatch.setattr(recipes, "fit_whole", diverging)
    state = sweep(small(datasets=("iris", "wine"), models=PAPERS[:1]), tmp_path, Resources(data_folder))
    ((batch, why),) = state.failed
    assert batch.dataset == "iris"
    assert "training diverged: seed 1 at noise 0" in why
    assert {record["dataset"] for record in read_records(tmp_path)} == {"wine"}


# --- recipes say what identifies a run; records are found again by them ---


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_recipes_are_json_and_name_the_length_of_training(name):
    experiment = EXPERIMENTS[name]
    for model in experiment.models:
        for dataset in experiment.datasets:
            recipe = experiment.settings(model, dataset)
            assert json.loads(json.dumps(recipe)) == recipe
            assert {"max_epochs", "max_iter", "epochs"} & set(recipe)


@pytest.mark.parametrize(
    "estimator",
    [
        LegendreTronClassifier(),
        LegendreTronClassifier("canonical", link_params={"n_nests": 2}, alpha=0.1, early_stopping=0.2),
        LegendreTronClassifier.from_paper("aloi", decay=0.9),
        MultinomialLogisticClassifier(label_noise=[[0.9, 0.1], [0.2, 0.8]]),
        GLMTronClassifier(standardize=False),
    ],
    ids=repr,
)
def test_a_recipe_makes_the_estimator_again(estimator):
    recipe = json.loads(json.dumps(make_recipe(estimator)))
    again = make_estimator(recipe, seed=3)
    seed = {"random_state": 3} if "random_state" in estimator.get_params() else {}
    assert again.get_params() == estimator.get_params() | seed


def test_seed_and_device_are_not_part_of_a_recipe():
    one, other = LegendreTronClassifier(random_state=1), LegendreTronClassifier(device="cuda", verbose=2)
    assert make_recipe(one) == make_recipe(other) != make_recipe(LegendreTronClassifier(alpha=0.1))


def test_a_new_version_is_another_run(monkeypatch):
    def key():
        recipe, run = make_recipe(LegendreTronClassifier()), Run("iris", "m", 0.0, None, 0)
        return Batch("x", "iris", "m", recipe, "complete", (run,)).run_keys()[0]

    before = key()
    monkeypatch.setitem(VERSIONS, "LegendreTronClassifier", 99)
    assert key() != before
