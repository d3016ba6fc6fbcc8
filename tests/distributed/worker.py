"""What the tests of fits by several processes run in each of two; the first writes the models.

Started by ``torchrun``, see test_processes.py.
"""

import os
import sys
from pathlib import Path

import torch.distributed as dist

from legendretron import LegendreTronClassifier
from legendretron.distributed import fit_torchrun

SETTINGS = {"alpha": 1e-3, "link_alpha": 1e-3, "random_state": 0, "max_epochs": 3, "batch_size": 64, "dtype": "float64"}
#: Fits by two processes; each must be that of one, whatever the processes divide.
CASES = {
    "rows": {},
    "rows, early stopping": {"early_stopping": True},
    "rows, canonical": {"link": "canonical"},
    "rows, cpflow": {"link_params": {"network": "cpflow", "init": "paper"}},
    "rows, logistic": {"link": "softmax", "link_alpha": "auto"},
    "rows, noise": {"label_noise": "symmetric"},
    "classes": {},
    "classes, canonical": {"link": "canonical"},
    "classes, cpflow": {"link_params": {"network": "cpflow", "init": "paper"}, "early_stopping": True},
    "classes, logistic": {"link": "softmax", "link_alpha": "auto"},
    "classes, noise": {"label_noise": "symmetric"},
}
N_SHARDS = 3  # not a multiple of the processes


def make(case: str) -> LegendreTronClassifier:
    return LegendreTronClassifier(**{**SETTINGS, **CASES[case]})


def main(table: str, out: str) -> None:
    dist.init_process_group("gloo")
    for case in CASES:
        classes = case.startswith("classes")
        path = Path(out, f"{case}.safetensors")
        fit_torchrun(
            make(case), table, target="label", weight="w", n_shards=N_SHARDS, class_parallel=2 if classes else 1,
            checkpoint=Path(out, "state"), checkpoint_steps=5, out=path,
        )  # fmt: skip
    try:
        fit_torchrun(make("rows"), table, target="lable")
    except ValueError as error:
        Path(out, f"error-{dist.get_rank()}").write_text(f"{type(error).__name__}: {error}")
    dist.barrier()
    sys.stdout.flush()
    # without the clean-up of a Python process: gloo's threads sometimes abort in it, long after all is written
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
