"""Records outlive the code: their runs are found, and their settings mean the same, when constructors change."""

import inspect
import json
from pathlib import Path

import pytest

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.experiments import Batch, Resources, Run, sweep
from legendretron.experiments.recorded_defaults import LATER_DEFAULTS, RECORDED_DEFAULTS
from legendretron.experiments.recorded_estimators import (
    _CLASSES,
    estimator_of,
    estimator_settings,
    identifying_settings,
    recorded_settings,
)
from legendretron.paper import EXPERIMENTS
from legendretron.paper.libsvm.report import DEFAULT
from tests.experiments.test_compare_logistic import benchmark
from tests.experiments.test_defaults import benchmark as defaults

#: the paper's experiments and those of benchmarks
DECLARED = {**EXPERIMENTS, "compare_logistic": benchmark.COMPARE_LOGISTIC, "defaults": defaults.EXPERIMENT}
RESULTS = Path(__file__).parents[2] / "docs" / "results"
#: files of results, with what they hold
RECORDED = {path: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*/runs/*.json"))}


def batch_of(content, **changed):
    """The batch of a file of results, perhaps with other settings, as a recipe of today would have it."""
    dataset, model = content["dataset"], content["model"]
    runs = tuple(Run(dataset, model, run["noise"], run["size"], run["seed"]) for run in content["runs"])
    settings = identifying_settings({**content["settings"], **changed})
    return Batch(content["experiment"], dataset, model, settings, content["data"]["source"], runs)


def recorded_keys():
    return {path: [run["key"] for run in content["runs"]] for path, content in RECORDED.items()}


def asked_keys():
    """Keys of a run of every model on every data set, as the experiments would do it now.

    Our default is left out: its runs are of today, whatever the defaults are.
    """
    keys = []
    for experiment in EXPERIMENTS.values():
        for dataset in experiment.datasets:
            for model in (model for model in experiment.models if model != DEFAULT):
                run = Run(dataset, model, experiment.noise[0], experiment.sizes[0], 0)
                settings = experiment.settings(model, dataset)
                keys += Batch(experiment.name, dataset, model, settings, "complete", (run,)).run_keys()
    return keys


def set_default(monkeypatch, kind, name, default):
    """Give a class a further parameter, or another default of one that it has."""
    plain = kind.__init__
    signature = inspect.signature(plain)

    def __init__(self, *arguments, **parameters):
        if name in signature.parameters:
            parameters.setdefault(name, default)
        else:
            setattr(self, name, parameters.pop(name, default))
        plain(self, *arguments, **parameters)

    new = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
    others = [parameter for parameter in signature.parameters.values() if parameter.name != name]
    __init__.__signature__ = signature.replace(parameters=[*others, new])
    monkeypatch.setattr(kind, "__init__", __init__)
    assert kind().get_params()[name] == default


OURS = [_CLASSES[name] for name in RECORDED_DEFAULTS]


def test_keys_and_names_of_all_records_follow_from_their_settings():
    papers = [content for content in RECORDED.values() if content["experiment"] in EXPERIMENTS]
    assert sum(len(content["runs"]) for content in papers if content["model"] != DEFAULT) == 3016
    for path, content in RECORDED.items():
        assert batch_of(content).run_keys() == [run["key"] for run in content["runs"]]
        assert path.stem == batch_of(content).name


@pytest.mark.parametrize("name", DECLARED)
def test_a_sweep_finds_all_records(name):
    own = [content for content in RECORDED.values() if content["experiment"] == name]
    state = sweep(DECLARED[name], RESULTS / name, Resources(), render_only=True)
    assert state.before == sum(len(content["runs"]) for content in own) > 0


def test_a_parameter_that_comes_later_changes_no_key(monkeypatch):
    before = asked_keys()
    for kind in OURS:
        set_default(monkeypatch, kind, "novelty", None)
    assert asked_keys() == before
    for path, keys in recorded_keys().items():
        content = RECORDED[path]
        assert batch_of(content).run_keys() == keys
        if content["settings"].get("estimator") in RECORDED_DEFAULTS:
            again = estimator_settings(estimator_of(content["settings"]))  # as a record of today has it
            assert again["novelty"] is None
            assert batch_of(content, **again).run_keys() == keys
            assert batch_of(content, **{**again, "novelty": 3}).run_keys() != keys


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_a_new_default_changes_neither_keys_nor_what_records_stand_for(kind, monkeypatch):
    before = asked_keys()
    partial = {"estimator": kind.__name__}
    named, made = identifying_settings(partial), estimator_of(partial).get_params()
    set_default(monkeypatch, kind, "tol", 0.5)
    assert asked_keys() == before
    assert identifying_settings(partial) == named
    assert estimator_of(partial).get_params() == made
    for path, keys in recorded_keys().items():
        content = RECORDED[path]
        if content["settings"].get("estimator") == kind.__name__:
            assert batch_of(content).run_keys() == keys
            assert estimator_of(content["settings"]).tol == content["settings"]["tol"]
    assert identifying_settings(estimator_settings(kind())) != named, "what runs by the new default is another run"


def test_a_later_parameter_may_change_its_default(monkeypatch):
    """Once listed, what it was before counts for records that do not name it."""
    kind = LegendreTronClassifier
    plain = identifying_settings(estimator_settings(kind()))
    set_default(monkeypatch, kind, "novelty", "new")
    monkeypatch.setitem(LATER_DEFAULTS, "novelty", None)
    assert estimator_of(plain).novelty is None
    assert identifying_settings({**plain, "novelty": None}) == plain
    assert identifying_settings(estimator_settings(kind())) == {**plain, "novelty": "new"}


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_parameters_that_matter_change_the_key(kind):
    settings = {"estimator": kind.__name__}
    plain = Batch("x", "iris", "m", settings, "complete", (Run("iris", "m", 0.0, None, 0),))
    others = [{**settings, name: "another"} for name in estimator_settings(kind()) if name != "estimator"]
    others += [{**settings, "tuning": [1.0]}, {**settings, "estimator": "LogisticRegression"}]
    keys = {Batch("x", "iris", "m", other, "complete", plain.runs).run_keys()[0] for other in [settings, *others]}
    assert len(keys) == len(others) + 1


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_nothing_is_filled_into_settings_of_ones_own(kind):
    """They may be made from today's defaults, and what differs in them is another run."""
    partial = {"estimator": kind.__name__}
    settings = [
        partial,
        {**partial, **RECORDED_DEFAULTS[kind.__name__]},
        estimator_settings(kind()) | {"later": None},
        *({**partial, name: value} for name, value in RECORDED_DEFAULTS[kind.__name__].items()),
    ]
    run = Run("iris", "m", 0.0, None, 0)
    assert len({Batch("x", "iris", "m", own, "complete", (run,)).run_keys()[0] for own in settings}) == len(settings)


@pytest.mark.parametrize("own", [{"estimator": {"kind": "forest"}}, {"estimator": ["a", "b"]}, {"estimator": None}, {}])
def test_an_estimator_may_be_said_in_other_ways(own):
    assert identifying_settings(own) == own
    assert len(Batch("x", "iris", "m", own, "complete", (Run("iris", "m", 0.0, None, 0),)).run_keys()) == 1


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_recipes_are_what_names_their_runs(kind, monkeypatch):
    recipe = recorded_settings(kind)
    assert recipe == identifying_settings(recipe)
    assert set(recipe) == {"estimator", *RECORDED_DEFAULTS[kind.__name__]}
    set_default(monkeypatch, kind, "novelty", None)
    assert recorded_settings(kind) == recipe
    assert recorded_settings(kind, novelty=3) == {**recipe, "novelty": 3}


def test_settings_of_other_estimators_are_taken_as_they_are():
    """Those of scikit-learn say only what is not its default, which changes with versions."""
    settings = {"estimator": "LogisticRegression", "solver": "lbfgs", "tuning": {"C": [1.0]}}
    assert identifying_settings(settings) == settings


@pytest.mark.parametrize(
    ("table", "dataset", "group"),
    [("table_libsvm", "iris", "libsvm"), ("table_libsvm", "aloi", "aloi"), ("table_auc", "MNIST, class 0", "mnist")],
)
def test_the_papers_recipes_are_those_of_the_presets(table, dataset, group):
    """A preset that leaves a parameter to a default which changes is no longer the paper's."""
    for kind, model in (
        (LegendreTronClassifier, "LegendreTron"),
        (MultinomialLogisticClassifier, "logistic regression"),
    ):
        recipe = EXPERIMENTS[table].settings(model, dataset)
        assert identifying_settings(estimator_settings(kind.from_paper(group))) == identifying_settings(recipe)


def test_a_recipe_with_a_parameter_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="Invalid parameter 'hiden'"):
        recorded_settings(LegendreTronClassifier, hiden=3)
