import pytest
import torch

from legendretron import properness
from legendretron.losses import AsymmetricBinaryLoss, LogLoss


@pytest.mark.parametrize("c", [2, 3, 10])
def test_finds_the_violation_of_an_improper_loss(c):
    """The linear loss rewards certainty: under p the best prediction is the corner of the likeliest class."""
    report = properness(lambda q: 1 - q, c)
    assert report.worst_violation > 0.05
    p, q = torch.tensor(report.p), torch.tensor(report.q)
    own, other = (p * (1 - p)).sum(), (p * (1 - q)).sum()
    assert ((own - other) / (1 + own)).item() == pytest.approx(report.worst_violation, rel=1e-4)


def test_finds_a_slight_violation():
    """A log-loss that scores a slightly tempered prediction is proper for nobody."""
    report = properness(lambda q: -torch.log_softmax(1.01 * torch.log(q), -1), 3)
    assert report.worst_violation > 1e-6


def test_repeatable():
    assert properness(LogLoss(), 3, seed=1) == properness(LogLoss(), 3, seed=1)


def test_number_of_classes():
    assert len(properness(AsymmetricBinaryLoss(0.2)).p) == 2
    with pytest.raises(ValueError, match="n_classes must be given"):
        properness(LogLoss())
    with pytest.raises(ValueError, match="n_classes must be 2 for this loss, got 3"):
        properness(AsymmetricBinaryLoss(0.2), 3)
    with pytest.raises(ValueError, match="n_classes must be an integer of at least 2, got 1"):
        properness(LogLoss(), 1)
