"""Which combinations of the property tests are marked `exhaustive`: sizes and shapes between those that are not."""

from collections import defaultdict
from zlib import crc32

#: Entries of the catalogue that are others with other settings.
VARIANTS = {
    "ficnn_h1_m1",
    "ficnn_identity",
    "cpflow_odd",
    "cpflow_h1_m1",
    "nested_one",
    "nested_identity",
    "composite_identity",
    "canonical_identity",
    "one_knot",
    "cosines",
    "brier",
}


def is_further(params):
    """Whether the parameters of a test make it one of these."""
    name, c, dim = (params.get(key) for key in ("name", "c", "dim"))
    if (isinstance(name, str) and name in VARIANTS) or (isinstance(c, int) and c in (10, 100)) or (dim == 99):
        return True
    if {"leading", "runs"} <= set(params):  # none of these axes, or all
        return (params["leading"], params["runs"]) not in (((), ()), ((2, 3), (3,)))
    return params.get("leading") == (5,)


#: Rooms whose tests run one property over many links, sizes and precisions.
ROOMS_OF_FORMULAS = ("accelerate", "calibration", "links", "losses", "nn", "potentials", "training", "trons")
#: Cases of a test there that are always run.
ALWAYS = 8


def find_further(items):
    """Items of pytest that are marked: those above and, in rooms of formulas, all but a few cases of a test.

    The few are drawn by the name of the case, so that they have all kinds of parameters, and are the same everywhere.
    """
    further, cases = [], defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and is_further(item.callspec.params):
            further.append(item)
        elif item.path.parent.name in ROOMS_OF_FORMULAS and item.path.stem != "test_sklearn_checks":
            cases[item.path, getattr(item, "originalname", item.name)].append(item)
    for of_one_test in cases.values():
        further += sorted(of_one_test, key=lambda item: crc32(item.name.encode()))[ALWAYS:]
    return further
