"""Compile what takes Numba longest, once: ``python -m tests.compile_first``.

Without it each of several processes of pytest would compile the same functions, side by side, for a minute of its time.
"""

import numpy as np
import torch

from legendretron import CanonicalLoss, LegendreTronClassifier
from legendretron.accelerate.inverse import link_from_log
from legendretron.accelerate.log_proba import log_proba
from legendretron.links import CanonicalLink, CompositeLink


def main():
    """Numba keeps on disk what it has compiled."""
    X, y = np.arange(12.0).reshape(6, 2) % 5, np.arange(6) % 3
    for dtype in (torch.float64, torch.float32):
        name, labels = str(dtype).removeprefix("torch."), torch.zeros(4, dtype=torch.long)
        for kind, make in (("composite", CompositeLink), ("canonical", CanonicalLink)):
            given = {"alpha": 0.1, "link_alpha": 0.1, "max_epochs": 1}
            LegendreTronClassifier(kind, **given, dtype=name).fit(X, y).predict_proba(X)
            link, z = make(3, dtype=dtype), torch.zeros(4, 2, dtype=dtype)
            log_p = link(z, by=log_proba)
            log_p.sum().backward()
            link_from_log(link, log_p.detach())
            # of two classes every link has a loss, by a table or by nests
            loss = CanonicalLoss(make(2, dtype=dtype))
            loss(torch.zeros(4, 1, dtype=dtype, requires_grad=True), labels).backward()


if __name__ == "__main__":
    main()
