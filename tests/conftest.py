import os
import signal
import threading

import torch
from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("repeatable")

# a second thread on tiny tensors costs more than it brings
torch.set_num_threads(int(os.environ.get("LEGENDRETRON_TEST_THREADS", "1")))

# A shell that starts a job in the background has it ignore Ctrl-C, and so would the processes that tests start.
if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
