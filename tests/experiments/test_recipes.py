"""Recipes say what identifies a run; records are found again by them."""

import json

import numpy as np
import pytest

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.experiments import Batch, Run
from legendretron.experiments.recipes import VERSIONS, make_estimator, make_recipe
from legendretron.paper import EXPERIMENTS
from legendretron.trons import GLMTronClassifier


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
        MultinomialLogisticClassifier.from_paper("mnist"),
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


def test_a_matrix_of_label_noise_is_json():
    matrix = [[0.9, 0.1], [0.2, 0.8]]
    recipe = make_recipe(LegendreTronClassifier(label_noise=np.array(matrix)))
    assert recipe["label_noise"] == matrix
    assert make_estimator(json.loads(json.dumps(recipe))).label_noise == matrix
