"""The settings of the experiments are those that the published results were recorded with, whatever the defaults become."""

import json
from pathlib import Path

import pytest

from legendretron.experiments.recorded_estimators import identifying_settings
from legendretron.paper.auc import methods
from legendretron.paper.training_size import experiment as training_size

RESULTS = Path(__file__).parents[2] / "docs/results"


@pytest.mark.parametrize(
    ("folder", "recipe"),
    [
        ("table_auc", methods.recipe),
        ("figure_proper_losses", methods.recipe),
        ("figure_training_size", training_size.recipe),
    ],
)
def test_recipes_are_as_recorded(folder, recipe):
    records = [json.loads(path.read_text()) for path in sorted((RESULTS / folder / "runs").glob("*.json"))]
    assert records
    for record in records:
        # parameters that came later do not count as long as they change nothing
        settings = json.loads(json.dumps(recipe(record["model"], record["dataset"])))
        assert identifying_settings(settings) == identifying_settings(record["settings"])
