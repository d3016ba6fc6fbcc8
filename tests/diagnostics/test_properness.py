import pytest
import torch

from legendretron import CanonicalLoss, CompositeLink, properness
from legendretron.losses import AsymmetricBinaryLoss, LogLoss


@pytest.mark.parametrize("c", [2, 10])
def test_finds_the_violation_of_an_improper_loss(c):
    """The linear loss rewards certainty: under p the best prediction is the corner of the likeliest class."""
    report = properness(lambda q: 1 - q, c)
    assert report.worst_violation > 0.05
    p, q = torch.tensor(report.p), torch.tensor(report.q)
    own, other = (p * (1 - p)).sum(), (p * (1 - q)).sum()
    assert ((own - other) / (1 + own)).item() == pytest.approx(report.worst_violation, rel=1e-4)


@pytest.mark.parametrize("c", [2, 3, 10, 100])
def test_finds_a_slight_violation(c):
    """A log-loss that scores a slightly tempered prediction is proper for nobody."""
    report = properness(lambda q: -torch.log_softmax(1.001 * torch.log(q), -1), c, n_starts=16)
    assert report.worst_violation > 1e-8


def test_takes_precision_from_the_loss():
    # few rounds: a link that learns makes a table of its potential in each
    assert properness(CanonicalLoss(CompositeLink(2)), n_starts=8, n_rounds=4).worst_violation < 1e-5


@pytest.mark.parametrize(("loss", "given", "message"), [
    (3, (3,), "loss must be a ProperLoss or a function, got int"),
    (LogLoss(), (), "n_classes must be given"),
    (AsymmetricBinaryLoss(0.2), (3,), "n_classes must be 2 for this loss, got 3"),
    (LogLoss(), (1,), "n_classes must be an integer of at least 2"),
])  # fmt: skip
def test_bad_input(loss, given, message):
    with pytest.raises(ValueError, match=message):
        properness(loss, *given)
