"""Which combinations of the property tests are marked `exhaustive`: sizes and shapes between those that are not."""

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
