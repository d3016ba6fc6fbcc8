"""Processes that find each other in a store that others have used before."""

from concurrent.futures import ThreadPoolExecutor

from torch.distributed import HashStore

from legendretron.distributed.fitting import fresh_store


def test_each_attempt_has_a_store_of_its_own():
    store, size = HashStore(), 3
    seen = []
    for attempt in range(3):
        with ThreadPoolExecutor(size) as pool:
            # the first process comes last: others must not take the list of the attempt before for their own
            ranks = (1, 2, 0)
            found = list(pool.map(lambda rank: fresh_store(store, rank, size), ranks))
        assert not any(one.check(["address"]) for one in found)
        found[0].set("address", str(attempt))
        assert {one.get("address").decode() for one in found} == {str(attempt)}
        seen.append(found[0])
    assert [one.get("address").decode() for one in seen] == ["0", "1", "2"]
