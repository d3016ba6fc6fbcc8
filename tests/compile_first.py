"""Compile what takes Numba longest, once: ``python -m tests.compile_first``.

Without it each of several processes of pytest would compile the same functions, side by side, for a minute of its time.
"""

import subprocess
import sys


def compile_for(name):
    """Use all functions of links in a precision: Numba keeps on disk what it has compiled."""
    import numpy as np
    import torch

    from legendretron import CanonicalLoss, LegendreNetClassifier, LegendreTronClassifier, MultinomialLogisticClassifier
    from legendretron.accelerate.inverse import link_from_log
    from legendretron.accelerate.log_proba import log_proba
    from legendretron.links import CanonicalLink, CompositeLink

    # each precision in another order, so that its process seldom writes to the same file as the other's
    kinds = (CompositeLink, CanonicalLink) if name == "float64" else (CanonicalLink, CompositeLink)
    X, y = np.arange(12.0).reshape(6, 2) % 5, np.arange(6) % 3
    if name == "float64":
        MultinomialLogisticClassifier(alpha=0.1).fit(X, y)
    else:  # what networks are trained in
        LegendreNetClassifier((8,), max_steps=2, n_folds=2).fit(np.tile(X, (9, 1)), np.tile(y, 9))
    dtype, labels = getattr(torch, name), torch.zeros(4, dtype=torch.long)
    for make in kinds:
        given = {"alpha": 0.1, "link_alpha": 0.1, "max_epochs": 1}
        kind = "composite" if make is CompositeLink else "canonical"
        LegendreTronClassifier(kind, **given, dtype=name).fit(X, y).predict_proba(X)
        link, z = make(3, dtype=dtype), torch.zeros(4, 2, dtype=dtype)
        log_p = link(z, by=log_proba)
        log_p.sum().backward()
        link_from_log(link, log_p.detach())
        # of two classes every link has a loss, by a table or by nests
        loss = CanonicalLoss(make(2, dtype=dtype))
        loss(torch.zeros(4, 1, dtype=dtype, requires_grad=True), labels).backward()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        compile_for(sys.argv[1])
    else:
        started = [
            subprocess.Popen([sys.executable, "-m", "tests.compile_first", name]) for name in ("float64", "float32")
        ]
        sys.exit(max(process.wait() for process in started))
