"""Which rows are held out."""

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit

from legendretron.tuning import folds as module
from legendretron.tuning.folds import make_folds

X = np.zeros((100, 1))
y = np.repeat([0, 1, 2], [60, 30, 10])
ROWS = np.arange(100)


def held_out_once(folds, rows):
    return sorted(np.concatenate([held for _, held in folds]).tolist()) == sorted(rows.tolist())


def apart(folds):
    return all(not set(train) & set(held) for train, held in folds)


@pytest.mark.parametrize("cv", [None, 2, 5, np.int64(7)])
def test_every_row_is_held_out_once_and_classes_in_equal_shares(cv):
    folds = make_folds(cv, X, y, ROWS, None, 0)
    folds = folds[:5] if cv is None else folds  # below 1,000 rows, there are more repeats
    assert len(folds) == (cv or 5)
    assert held_out_once(folds, ROWS)
    assert apart(folds)
    for train, held in folds:
        assert len(train) + len(held) == 100
        counts = np.bincount(y[held], minlength=3) - np.array([60, 30, 10]) / len(folds)
        assert np.abs(counts).max() < 1.0
    sizes = [len(held) for _, held in folds]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("cv", [None, 4, GroupKFold(4)])
def test_groups_are_never_divided(cv):
    groups = np.array([f"patient {k}" for k in np.arange(100) % 13])
    folds = make_folds(cv, X, y, ROWS, groups, 0)
    assert len(folds) == (4 if cv else 5)
    assert held_out_once(folds, ROWS)
    for train, held in folds:
        assert not set(groups[train]) & set(groups[held])


def test_splitters_and_pairs():
    splitter = KFold(3, shuffle=True, random_state=0)
    expected = list(splitter.split(X))
    masks = [(np.isin(ROWS, train), np.isin(ROWS, held)) for train, held in expected]
    lists = [(train.tolist(), held.tolist()) for train, held in expected]
    small = [(train.astype(np.uint8), held.astype(np.uint8)) for train, held in expected]  # torch takes them for masks
    for cv in (splitter, expected, masks, lists, small, iter(expected)):
        folds = make_folds(cv, X, y, ROWS, None, 0)
        for found, wanted in zip(folds, expected, strict=True):
            assert np.array_equal(found[0], wanted[0])
            assert np.array_equal(found[1], wanted[1])
            assert found[0].dtype == np.int64
    assert len(make_folds(ShuffleSplit(2, test_size=0.3, random_state=0), X, y, ROWS, None, 0)[0][1]) == 30


@pytest.mark.parametrize(
    ("cv", "grouped"),
    [(None, True), (5, False), (3, False), (GroupKFold(3), True), (KFold(3, shuffle=True, random_state=0), False)],
)
def test_rows_that_do_not_count_are_in_no_fold(cv, grouped):
    rows = ROWS[ROWS % 4 != 0]
    folds = make_folds(cv, X, y, rows, ROWS % 11 if grouped else None, 0)
    assert held_out_once(folds, rows)
    for train, _ in folds:
        assert (train % 4 != 0).all()


def test_classes_of_a_single_row():
    labels = np.array([0] * 10 + [1] * 10 + [2])
    folds = make_folds(5, X[:21], labels, np.arange(21), None, 0)
    assert len(folds) == 5
    held = np.concatenate([held for _, held in folds])
    assert 20 not in held  # where it is held out, nothing is known of its class
    assert len(held) == 20
    assert sum(20 in train for train, _ in folds) == 4
    two = np.array([0] * 10 + [1])  # the fold that holds it out has one class, which is no problem to learn
    assert all(10 in train for train, _ in make_folds(None, X[:11], two, np.arange(11), None, 0))


def test_too_few_rows():
    assert make_folds(None, X[:3], np.arange(3), np.arange(3), None, 0) == []
    assert make_folds(None, X[:1], np.zeros(1), np.arange(1), None, 0) == []
    assert make_folds(None, X[:9], np.zeros(9), np.arange(9), None, 0) == []  # one class counts
    few = make_folds(None, X[:4], np.array([0, 0, 1, 1]), np.arange(4), None, 0)
    assert len(few) == 2 * 3
    assert held_out_once(few[:2], np.arange(4))


def test_small_data_are_divided_several_times(monkeypatch):
    folds = make_folds(None, X, y, ROWS, None, 0)
    assert len(folds) == 15
    assert len({tuple(held) for _, held in folds}) == 15
    assert all(held_out_once(folds[5 * k : 5 * k + 5], ROWS) for k in range(3))
    monkeypatch.setattr(module, "TOLD_APART", 100)
    once = make_folds(None, X, y, ROWS, None, 0)
    assert len(once) == 5
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(once, folds, strict=False))


def test_one_split_of_large_data(monkeypatch):
    monkeypatch.setattr(module, "ONE_SPLIT_FROM", 100)
    ((train, held),) = make_folds(None, X, y, ROWS, None, 0)
    assert len(held) == 20
    assert np.bincount(y[held]).tolist() == [12, 6, 2]
    assert not set(train) & set(held)
    assert len(make_folds(None, X, y, ROWS[:99], None, 0)) == 15
    assert len(make_folds(5, X, y, ROWS, None, 0)) == 5  # as it is asked for
    assert len(make_folds(None, X, y, ROWS, ROWS % 10, 0)) == 5


@pytest.mark.parametrize(
    "labels", [np.append(y[:-1], 7), np.where(ROWS < 10, 40, ROWS % 40)], ids=["single row", "many classes"]
)
def test_one_split_that_cannot_be_stratified(monkeypatch, labels):
    monkeypatch.setattr(module, "ONE_SPLIT_FROM", 100)
    ((train, held),) = make_folds(None, X, labels, ROWS, None, 0)
    assert set(labels[held]) <= set(labels[train])
    assert len(train) == 80


@pytest.mark.parametrize(
    ("rows", "groups", "message"),
    [
        (ROWS, np.zeros(99), r"one entry per row, 100, got shape \(99,\)"),
        (ROWS, np.zeros(100), "needs at least 2"),
        (ROWS[::2], ROWS % 2, "needs at least 2"),  # only the rows that count are looked at
    ],
)
def test_groups_that_cannot_be_used(rows, groups, message):
    with pytest.raises(ValueError, match=f"groups .*{message}"):
        make_folds(None, X, y, rows, groups, 0)


def test_groups_of_classes_with_few_rows():
    y = np.array([0, 0, 1, 1, 2, 2])
    folds = make_folds(5, np.zeros((6, 1)), y, np.arange(6), groups=np.arange(6) % 3, seed=0)
    assert len(folds) == 2


@pytest.mark.parametrize(
    "cv",
    [
        [1, 2],
        b"x",
        [("a", "b")],
        [(np.arange(5),)],
        [],
        KFold,
        [(np.arange(5), [10])],
        [(np.arange(5), [-1])],
        [(np.ones(3, bool), [1])],
    ],
)
def test_what_cannot_be_folds(cv):
    with pytest.raises(ValueError, match=r"^cv must be a number of folds.*got (?!.*\d, \d, \d, \d, \d, \d)"):
        make_folds(cv, np.zeros((10, 2)), np.arange(10) % 2, np.arange(10), None, 0)
