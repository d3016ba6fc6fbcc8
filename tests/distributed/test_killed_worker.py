"""Apart from the other tests with Ray: it marks the processes of a cluster of its own."""

import pytest

from tests.distributed.test_processes import killed_workers

pytestmark = [pytest.mark.exhaustive, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def test_a_worker_is_killed():
    found = killed_workers.compare(killed_workers.by_ray, rows=20_000, epochs=4, kills=1)
    assert found["kills"] == 1
    assert found["largest_difference"] <= 1e-6
