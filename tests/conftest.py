import os

import torch
from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("repeatable")

# a second thread on tiny tensors costs more than it brings
torch.set_num_threads(int(os.environ.get("LEGENDRETRON_TEST_THREADS", "1")))
