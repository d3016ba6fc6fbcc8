"""Files of results do not depend on the last digits of a machine's arithmetic."""

import json
import math

import numpy as np
import pytest

from legendretron.experiments import Batch, Outcome, Run, Store, read_records
from legendretron.experiments.rendering import write_csv
from legendretron.experiments.statistics import Mean, mean_difference, mean_of, paired_test
from legendretron.experiments.store import rounded, rounded_difference


def neighbours(value):
    """The value as other processors may have it."""
    return [value, math.nextafter(value, math.inf), math.nextafter(value, -math.inf)]


@pytest.mark.parametrize("value", [200 / 3, -0.1, 1.23e-41 / 7, 1 / 3e7, 1e300 / 7])
def test_tables_do_not_depend_on_the_last_digit(value, tmp_path):
    rows = [[{"label": "iris", "p": near}] for near in neighbours(value)]
    written = {write_csv(tmp_path / "table.csv", row).read_bytes() for row in rows}
    assert len(written) == 1
    assert float(written.pop().splitlines()[1].split(b",")[1]) == pytest.approx(value, rel=1e-9)


def test_records_do_not_depend_on_the_last_digit(tmp_path):
    batch = Batch("x", "iris", "m", {}, "complete", (Run("iris", "m", 0.0, None, 0),))
    contents = []
    for number, near in enumerate(neighbours(1 / 3)):
        outcome = Outcome({"rows": 150, "scale": near}, [{"factor": near, "loss": [near, -0.0], "n_iter": 9}])
        Store(tmp_path / str(number)).add(batch, outcome, 1.0, {}, "")
        (record,) = read_records(tmp_path / str(number))
        contents.append(json.dumps(record))
    assert len(set(contents)) == 1
    assert record["factor"] == record["data"]["scale"] == 0.3333333333
    assert (record["loss"], record["n_iter"]) == ([0.3333333333, 0.0], 9)


def test_what_is_zero_but_for_rounding_is_zero():
    for noise in (1e-17, -3e-18, 98.1 - 98.0 - 0.1, -0.0):
        assert str(rounded_difference(noise)) == "0.0"
    assert str(rounded(-0.0)) == "0.0"
    assert Mean(0.1 + 0.2, 1.0, 20).minus(Mean(0.3, 1.0, 20)) == 0.0
    assert mean_difference([0.3, 90.1], [0.1 + 0.2, 90.1]) == Mean(0.0, 0.0, 2)


@pytest.mark.parametrize("n", [2, 3, 7, 20, 49])
def test_equal_values_have_no_error(n):
    """56.666667, added up and divided again, need not be what it was."""
    assert mean_of([56.666667] * n) == Mean(56.666667, 0.0, n)


def test_means_are_exact_in_any_order():
    values = np.random.default_rng(0).uniform(50, 100, 20).round(6)
    means = {mean_of(order) for order in (values, values[::-1], np.sort(values))}
    assert len(means) == 1
    assert paired_test(values, values[::-1]) == paired_test(values[::-1], values)
