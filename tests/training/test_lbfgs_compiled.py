"""L-BFGS with a link takes loss and gradient from the compiled step, which equal those of plain operations."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
import torch

from legendretron.accelerate.support import has_numba
from legendretron.links import CompositeLink, SoftmaxLink
from legendretron.training import LinearModel, Sample, TrainingSettings, as_features
from legendretron.training.lbfgs import _Run

pytestmark = pytest.mark.skipif(not has_numba(), reason="needs Numba")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(
    ("n", "d", "c", "link"), [(1, 1, 2, "softmax"), (70, 5, 2, "composite"), (150, 3, 6, "composite")]
)
def test_compiled_equals_plain(n, d, c, link, sparse, dtype):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d))
    features = as_features(scipy.sparse.csr_array(x) if sparse else x, dtype, torch.device("cpu"))
    rows, labels = torch.arange(n).unsqueeze(0), torch.as_tensor(rng.integers(0, c, (1, n)))
    sample = Sample(features, rows, labels, torch.as_tensor(rng.random((1, n)) + 0.1, dtype=dtype))
    torch.manual_seed(0)
    of_class = CompositeLink(c, hidden=4) if link == "composite" else SoftmaxLink(c)
    model = LinearModel(torch.zeros(1, d, c - 1, dtype=dtype), torch.zeros(1, c - 1, dtype=dtype), [of_class.to(dtype)])
    strength = torch.tensor([0.1], dtype=torch.float64)
    settings = TrainingSettings(
        alpha=strength,
        link_alpha=0.1 * strength,
        learning_rate=strength,
        generators=[torch.Generator()],
        symmetric=True,
    )
    fast = _Run(model, 0, sample, settings, None)
    plain = _Run(model, 0, sample, replace(settings, compiled=False), None)
    assert fast.compiled is not None
    assert plain.compiled is None
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    for _ in range(2):  # the second time, nothing is left of the first
        at = (model.flat[0] + 0.3 * torch.randn(model.flat.shape[1]).to(dtype)).double().numpy()
        (value, gradient), (expected, slope) = fast.objective(at), plain.objective(at)
        assert value == pytest.approx(expected, rel=tolerance)
        np.testing.assert_allclose(gradient, slope, rtol=tolerance, atol=tolerance)
        assert fast.accuracy == pytest.approx(plain.accuracy, abs=1e-6)
