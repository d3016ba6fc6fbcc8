"""Heads that the tests of networks share: seven rows of six features, five classes."""

import torch

from legendretron.nn import LegendreHead

D, C = 6, 5
LINKS = {
    "softmax": {"link": "softmax"},
    "composite": {"link": "composite", "init": "paper"},
    "cpflow": {"link": "composite", "network": "cpflow", "init": "paper"},
    "canonical": {"link": "canonical"},
}


def make_head(settings, label_noise=None, **more):
    """A head whose link has had its first batch."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    head = LegendreHead(D, C, **{"label_noise": label_noise, **settings}, generator=generator, **more)
    if head.link.needs_batch:
        head.link.initialize(torch.randn(50, C - 1))
    return head


def features(n=7, d=D):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(2))
