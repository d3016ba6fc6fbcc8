import os
import re
import signal
import threading

import pytest
import torch
from hypothesis import settings

from tests.further import find_further

# there are no examples in them, and what they import takes seconds
collect_ignore = ["nn/bert.py", "nn/worker.py", "distributed/worker.py"]

settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """A folder for what takes long and is the same for all workers of pytest: the first writes it, behind a lock."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture
def mesh_of_one():
    """A device mesh of this process alone: formulas of parts of the classes, without the start of others."""
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh  # which takes a second

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        yield init_device_mesh("cpu", (1,))
    finally:
        distributed.destroy_process_group()


@pytest.hookimpl(tryfirst=True)  # before those that are not wanted are left out
def pytest_collection_modifyitems(items):
    for item in find_further(items):
        item.add_marker(pytest.mark.exhaustive)
    # what they import takes seconds: those who do it come first, so that one worker of pytest has most of them
    items.sort(key=lambda item: re.search("onnx|export|operator", item.nodeid) is None)


# a second thread on tiny tensors costs more than it brings
torch.set_num_threads(int(os.environ.get("LEGENDRETRON_TEST_THREADS", "1")))

# A shell that starts a job in the background has it ignore Ctrl-C, and so would the processes that tests start.
if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
