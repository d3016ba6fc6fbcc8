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


def test_errors():
    with pytest.raises(ValueError, match="inverse_link must be a function, got int"):
        monotonicity(3, [0.0, 1.0])
    with pytest.raises(ValueError, match="z must hold at least two distinct finite points, got 1"):
        monotonicity(expit, [1.0, 1.0])
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"inverse_link must return finite values, .* first at z=1"):
            monotonicity(lambda z, bad=bad: np.where(z >= 1, bad, 0.5), [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match=r"must return the shape it is given, \(2,\), got \(\)"):
        monotonicity(lambda z: 0.5, [0.0, 1.0])
