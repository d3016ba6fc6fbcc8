"""Links and losses by compiled functions: Numba on the CPU, Triton on CUDA.

Plain operations of torch in ``links`` and ``potentials`` are the truth; tests compare this room with them. A link is known by
its exact type, in one table, :mod:`legendretron.accelerate.forms`; for any other, and where something else wants to see each
operation, every function here falls back to the link's own maps. Compiled code takes addresses: :func:`can_read
<legendretron.accelerate.support.can_read>` decides, before each call, whether tensors are those of the form. The functions:

- :func:`~legendretron.accelerate.log_proba.log_proba`: log-probabilities as one node of autograd's graph;
- :func:`~legendretron.accelerate.inverse.link_from_log`: predictors of log-probabilities;
- :func:`~legendretron.accelerate.steps.nll_step`: gradients of the log-loss for many models side by side;
- :func:`~legendretron.accelerate.predictions.row_probabilities`: probabilities of rows of arrays;
- :func:`~legendretron.accelerate.losses.row_losses`: canonical losses of frozen links.
"""

from __future__ import annotations

__all__: list[str] = []  # import from the modules: they load compilers
