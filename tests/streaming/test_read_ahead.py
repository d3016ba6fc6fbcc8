"""Reading ahead: in order, with errors in their place, and without threads left behind."""

import threading
import time

import numpy as np
import pytest

from legendretron.streaming.read_ahead import read_ahead
from legendretron.streaming.row_check import HELD_OUT, SAMPLE, row_share


def readers():
    return [thread for thread in threading.enumerate() if thread.name == "legendretron-read-ahead"]


def test_all_items_in_order():
    assert list(read_ahead(iter(range(100)), depth=2)) == list(range(100))
    assert readers() == []


def test_errors_come_after_the_items_before_them():
    def items():
        yield 1
        raise ValueError("broken")

    reading = read_ahead(items())
    assert next(reading) == 1
    with pytest.raises(ValueError, match="broken"):
        next(reading)
    assert readers() == []


def test_no_more_than_asked_for_is_read():
    read = []

    def items():
        for number in range(100):
            read.append(number)
            yield number

    reading = read_ahead(items(), depth=3)
    next(reading)
    time.sleep(0.1)
    assert len(read) <= 5  # one is taken, three wait, and one is in hand
    reading.close()
    assert readers() == []


def test_closing_closes_what_is_read():
    closed = []

    def items():
        try:
            yield from range(1000)
        finally:
            closed.append(threading.current_thread().name)

    reading = read_ahead(items())
    next(reading)
    reading.close()
    assert closed == ["legendretron-read-ahead"]


def test_hashes_of_rows():
    numbers = np.arange(100_000)
    share = row_share(numbers, 3, HELD_OUT)
    np.testing.assert_array_equal(row_share(numbers[::-1], 3, HELD_OUT), share[::-1])
    # uniform, and independent of neighbours, seeds and purposes
    counts = np.bincount((share * 10).astype(int), minlength=10)
    assert np.abs(counts - 10_000).max() < 500
    for other in (row_share(numbers + 1, 3, HELD_OUT), row_share(numbers, 4, HELD_OUT), row_share(numbers, 3, SAMPLE)):
        assert abs(np.corrcoef(share, other)[0, 1]) < 0.02


def test_hashes_are_these_on_every_machine():
    """Rows that are held out must not move with the next version."""
    found = row_share(np.array([0, 1, 2**40]), seed=0, purpose=HELD_OUT)
    np.testing.assert_allclose(found, [0.5079605879681605, 0.17601256256594233, 0.4203751505444301], rtol=0, atol=1e-15)
