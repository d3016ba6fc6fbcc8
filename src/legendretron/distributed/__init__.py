"""One model trained by many processes, on this machine or a cluster: by Ray, or by torchrun."""

from legendretron.distributed.on_ray import fit_ray
from legendretron.distributed.on_torchrun import fit_torchrun

__all__ = ["fit_ray", "fit_torchrun"]
