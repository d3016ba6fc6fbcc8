"""Set-up of pytest for tests and for the examples in docstrings."""

import importlib.util
import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before any kernel is defined: run them on the CPU

collect_ignore = [] if importlib.util.find_spec("triton") else ["src/legendretron/links/fused.py"]
