"""Fits by two workers of Ray, which really run."""

import numpy as np
import pytest

from legendretron import LegendreTronClassifier
from legendretron.datasets.streams import source_of
from legendretron.distributed import fit_ray
from legendretron.distributed.fitting import fit_shards
from legendretron.training.layout import Layout
from tests.distributed.made_up import write_table

# a cluster takes its time to start
pytestmark = [pytest.mark.exhaustive, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
SETTINGS = {"alpha": 1e-3, "link_alpha": 1e-3, "random_state": 0, "max_epochs": 2, "batch_size": 64, "dtype": "float64"}


@pytest.fixture(scope="module")
def cluster():
    from legendretron._internal.ray_cluster import ray_cluster

    with ray_cluster(3) as ray:
        yield ray


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("ray") / "table")


@pytest.fixture(scope="module")
def alone(table):
    estimator = LegendreTronClassifier(**SETTINGS)
    fit_shards(estimator, source_of(table, target="label", weight="w"), Layout.alone(), n_shards=2)
    return estimator


@pytest.mark.parametrize("class_parallel", [1, 2])
def test_two_workers_are_one_on_the_joint_batches(cluster, table, alone, class_parallel, monkeypatch):
    """By a relative path, although workers run in other folders."""
    monkeypatch.chdir(table.parent)
    together = LegendreTronClassifier(**SETTINGS)
    fitted = fit_ray(
        together, table.name, target="label", weight="w", num_workers=2, n_shards=2, class_parallel=class_parallel
    )
    assert fitted is together
    np.testing.assert_allclose(together.coef_, alone.coef_, atol=1e-5)
    np.testing.assert_allclose(together.intercept_, alone.intercept_, atol=1e-5)
    assert together.feature_names_in_.tolist() == ["x0", "x1", "x2", "x3"]


def test_what_is_wrong_with_the_data_is_said_once(cluster, table):
    with pytest.raises(ValueError, match="no target column 'lable'"):
        fit_ray(LegendreTronClassifier(**SETTINGS), table, target="lable", num_workers=2)
