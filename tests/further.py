"""Which combinations of the property tests are marked `exhaustive`: sizes and shapes between those that are not."""

from collections import defaultdict
from zlib import crc32

#: Entries of the catalogue that are others with other settings.
VARIANTS = {
    "ficnn_h1_m1", "ficnn_identity", "cpflow_odd", "cpflow_h1_m1", "nested_one", "nested_identity", "composite_identity",
    "canonical_identity", "one_knot", "cosines", "brier",
}  # fmt: skip


def is_further(params):
    """Whether the parameters of a test make it one of these."""
    name, c, dim = (params.get(key) for key in ("name", "c", "dim"))
    if (isinstance(name, str) and name in VARIANTS) or (isinstance(c, int) and c in (10, 100)) or (dim == 99):
        return True
    if {"leading", "runs"} <= set(params):  # none of these axes, or all
        return (params["leading"], params["runs"]) not in (((), ()), ((2, 3), (3,)))
    return params.get("leading") == (5,)


#: Cases that take seconds, beside quicker ones of the same kind.
SLOW = (
    "diagnostics/test_softmax_test.py::test_softmax_is_seldom_rejected_where_it_is_right[20-1000]",
    "tuning/test_noise.py::test_classes_that_merely_overlap_have_no_noise[7005]",
    "tuning/test_noise.py::test_classes_that_merely_overlap_have_no_noise[7022]",
    "report/test_report.py::test_models_of_every_kind[search]",
    "report/test_report.py::test_models_of_every_kind[sklearn]",
    "estimators/test_soft_labels.py::test_votes_that_are_often_wrong[networks]",
    "plots/test_wrapped_models.py::test_displays_look_inside[search in a table]",
    "tuning/test_noise.py::test_labels_that_are_a_matter_of_chance_are_not_wrong",
    "losses/test_properties.py::test_proper[canonical_nested-3]",
    "nn/test_label_noise.py::test_exports_the_side_of_its_mode[learn]",
    "nn/test_transformers.py::test_fine_tuning_starts_at_the_start_and_what_was_trained_is_read_again[composite]",
    "estimators/test_calibrator.py::test_onnx[any-one proba]",
    "estimators/test_fit_stream.py::test_a_fit_that_was_stopped_is_resumed[a small window]",
    "estimators/test_fit_stream.py::test_a_fit_that_was_stopped_is_resumed[steps]",
    "estimators/test_label_noise.py::test_a_matrix_is_found_in_the_order_of_the_classes",
    "estimators/test_table_classifier.py::test_onnx[titanic]",
    "estimators/test_table_classifier.py::test_onnx[made up]",
    "estimators/test_soft_labels.py::test_shares_are_fitted[link]",
    "estimators/test_tuned.py::test_a_learned_link_is_chosen_beside_noise_that_was_found",
    "experiments/test_benchmarks.py::test_a_small_study_of_networks",
    "trons/test_estimators.py::test_link_and_loss_where_there_is_an_inverse[isgp]",
    "trons/test_estimators.py::test_single_precision_is_close_to_double[isgp]",
    "trons/test_estimators.py::test_sparse_is_dense[isgp]",
    "trons/test_estimators.py::test_class_weights_are_weights_of_rows[bregmantron]",
    "cli/test_mixed_tables.py::test_leading_zeros_are_categories[stream0]",
    "report/test_report.py::test_models_of_every_kind[pipeline]",
    "report/test_report.py::test_models_of_every_kind[forest]",
    "nn/test_transformers.py::test_fine_tuning_starts_at_the_start_and_what_was_trained_is_read_again[cpflow]",
    "cli/test_fit_predict.py::test_few_rows_are_worth_a_word[stream1]",
    "accelerate/test_losses.py::test_as_by_plain_operations[1.0-sines]",
    "accelerate/test_losses.py::test_as_by_plain_operations[0.1-sines]",
    "potentials/test_properties.py::test_parameter_gradients[cpflow]",
)
#: Rooms whose tests run one property over many links, sizes and precisions.
ROOMS_OF_FORMULAS = ("accelerate", "calibration", "links", "losses", "nn", "potentials", "training", "trons")
#: Cases of a test there that are always run, at most.
ALWAYS = 8


def values_of(item):
    """Values of the parameters of a case, by name; of others than plain ones, which object it is."""
    plain = (str, int, float, bool, type(None))
    return {(name, value if isinstance(value, plain) else id(value)) for name, value in item.callspec.params.items()}


def with_every_value(cases):
    """The first cases that have a value of a parameter that none before them has."""
    seen, found = set(), []
    for item in cases:
        if not values_of(item) <= seen:
            seen |= values_of(item)
            found.append(item)
    return found


def find_further(items):
    """Items of pytest that are marked: those above, and cases of a test that combine what other cases have.

    A test of two parameters is run with every value of each, but not with every combination.

    Cases are looked at in an order that is drawn by their names, so that they are the same everywhere.
    """
    further, cases = [], defaultdict(list)
    for item in items:
        if item.nodeid.endswith(SLOW):
            further.append(item)
        elif not hasattr(item, "callspec") or item.get_closest_marker("exhaustive") is not None:
            continue
        elif is_further(item.callspec.params):
            further.append(item)
        elif item.path.stem != "test_sklearn_checks":
            cases[item.path, item.originalname].append(item)
    for (path, _), of_one_test in cases.items():
        ordered = sorted(of_one_test, key=lambda item: crc32(item.name.encode()))
        most = ALWAYS if path.parent.name in ROOMS_OF_FORMULAS else len(ordered)
        kept = {id(item) for item in with_every_value(ordered)[:most]}
        further += [item for item in ordered if id(item) not in kept]
    return further
