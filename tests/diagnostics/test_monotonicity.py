"""The report counts what is there."""

import numpy as np
import pytest
from scipy.special import expit

from legendretron.diagnostics import monotonicity


def test_an_inverse_link_passes():
    report = monotonicity(expit, np.linspace(-5, 5, 101))
    assert report.is_link
    assert report.to_dict()["n_points"] == 101


def test_falls_flats_and_values_outside_are_counted():
    values = np.array([-0.1, 0.2, 0.2, 0.5, 0.3, 1.0, 1.2])
    report = monotonicity(lambda z: values, np.arange(7.0))
    assert report.falling_share == pytest.approx(1 / 6)
    assert report.flat_share == pytest.approx(1 / 6)
    assert report.largest_fall == pytest.approx(0.2)
    assert report.outside_share == pytest.approx(2 / 7)
    assert report.saturated_share == pytest.approx(1 / 7)
    assert (report.lowest, report.highest) == (-0.1, 1.2)
    assert not report.is_link


@pytest.mark.parametrize(("link", "z", "message"), [
    (3, [0.0, 1.0], "inverse_link must be a function, got int"),
    (expit, [1.0, 1.0], "z must contain at least two distinct finite points, got 1"),
    (lambda z: np.where(z >= 1, np.nan, 0.5), [0.0, 1.0, 2.0], "inverse_link must return finite values, .* first at z=1"),
    (lambda z: np.where(z >= 1, np.inf, 0.5), [0.0, 1.0, 2.0], "inverse_link must return finite values"),
    (lambda z: 0.5, [0.0, 1.0], "must return the shape it is given"),
])  # fmt: skip
def test_errors(link, z, message):
    with pytest.raises(ValueError, match=message):
        monotonicity(link, z)
