import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_iris, load_wine
from sklearn.preprocessing import minmax_scale


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory):
    """A folder with iris, wine, and 55 made-up rows that stand for a subset of Sensorless."""
    folder = tmp_path_factory.mktemp("data")
    for name, load in (("iris.scale", load_iris), ("wine.scale", load_wine)):
        X, y = load(return_X_y=True)
        dump_svmlight_file(minmax_scale(X, (-1, 1)), y + 1, str(folder / name), zero_based=False)
    rng = np.random.default_rng(0)
    y = np.arange(55) % 11
    X = rng.uniform(-0.2, 0.2, (55, 48))
    X[:, :11] += np.eye(11)[y]
    dump_svmlight_file(X, y + 1, str(folder / "Sensorless.subset55.scale"), zero_based=False)
    return folder
