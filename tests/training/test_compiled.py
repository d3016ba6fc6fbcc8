"""Compiled steps do what plain ones do."""

import numpy as np
import pytest
import scipy.sparse
import torch

from legendretron.accelerate import support as support_module
from legendretron.accelerate.forms import link_form
from legendretron.links import CanonicalLink, CompositeLink, NoisyLink, SoftmaxLink, SymmetricNoise, TransitionNoise
from legendretron.potentials import CPFlowNetwork
from legendretron.training import LinearModel, as_features, train
from legendretron.training import engine as engine_module
from legendretron.training import step as step_module
from legendretron.training.step import Adam, CompiledStep, Step, make_step
from tests.training.conftest import make_penalty

RTOL = {torch.float64: 1e-10, torch.float32: 2e-4}


def made_link(c, settings, generator):
    """Softmax for None, nests if there are some, else a chain."""
    if settings is None:
        return SoftmaxLink(c)
    if "n_nests" in settings:
        return CanonicalLink(c, **settings, init="random", generator=generator)
    link = CompositeLink(c, **settings, init="paper", generator=generator)
    link.initialize(2.0 * torch.randn(20, c - 1, generator=generator))  # of networks that are normalized
    return link


class Pair:
    """A plain and a compiled step on copies of the same model."""

    def __init__(
        self, *, runs=1, rows=24, d=5, c=3, link=None, sparse=False, scale=1.0, dtype=torch.float64,
        symmetric=False, centred=False, intercept=True, noise=None,
    ):  # fmt: skip
        generator = torch.Generator().manual_seed(runs + 10 * c)
        self.runs, self.rows, self.c, self.dtype = runs, rows, c, dtype
        x = scale * torch.randn(50, d, generator=generator, dtype=torch.float64).numpy()
        if sparse:
            x = scipy.sparse.csr_array(x * (np.abs(x) > 0.7))
        features = as_features(x, dtype, torch.device("cpu"))
        weight = 0.5 * torch.randn(runs, d, c - 1, generator=generator, dtype=torch.float64)
        bias = torch.randn(runs, c - 1, generator=generator, dtype=torch.float64)
        links = [made_link(c, link, generator) for _ in range(runs)]
        if noise is not None:
            made = noise if isinstance(noise, TransitionNoise) else SymmetricNoise(c, noise[0], learned=noise[1])
            links = [NoisyLink(one, made) for one in links]
        alpha = torch.linspace(0.1, 0.3, runs, dtype=dtype)
        self.steps = []
        for _ in range(2):
            model = LinearModel(weight.to(dtype), bias.to(dtype), [one.to(dtype) for one in links])
            penalty = make_penalty(model, alpha, 2 * alpha, intercept=intercept, symmetric=symmetric, centred=centred)
            rate, totals = torch.linspace(0.01, 0.02, runs, dtype=dtype)[:, None], torch.ones(2, runs, dtype=dtype)
            self.steps.append(Step(model, features, penalty, Adam(model.flat), rate, totals, rows))
        self.plain, state = self.steps
        self.compiled = make_step(state)
        assert isinstance(self.compiled, CompiledStep)

    def batches(self, steps, seed=0):
        generator = torch.Generator().manual_seed(seed)
        shape = (steps, self.runs, self.rows)
        weights = torch.rand(shape, generator=generator, dtype=self.dtype) / self.rows
        return [
            torch.randint(50, shape, generator=generator),
            torch.randint(self.c, shape, generator=generator),
            weights * (weights > 0.2 / self.rows),
        ]

    def take(self, rows, labels, weights, factors=None):
        """Take steps by both, at multiples of the rate."""
        factors = torch.ones(len(rows)) if factors is None else factors
        rates = factors[:, None].to(self.dtype) * self.plain.rate.T
        for step in (self.plain, self.compiled):
            step.take_all(rows, labels, weights, rates)

    def take_one(self, rtol=None):
        """Take one step by both, and compare totals and gradients."""
        rtol = RTOL[self.dtype] if rtol is None else rtol
        self.take(*self.batches(1))
        one, other = (step.optimizer.first for step in self.steps)
        torch.testing.assert_close(other, one, rtol=rtol, atol=rtol * float(one.abs().max()))
        torch.testing.assert_close(self.steps[1].totals, self.plain.totals, rtol=rtol, atol=0.0)

    def compare(self, rtol=None):
        one, other = self.steps
        rtol = RTOL[self.dtype] if rtol is None else rtol
        assert float(one.optimizer.count) == float(other.optimizer.count)
        pairs = zip(
            (one.totals, one.optimizer.first, one.optimizer.second, one.model.flat),
            (other.totals, other.optimizer.first, other.optimizer.second, other.model.flat),
            strict=True,
        )
        for a, b in pairs:
            torch.testing.assert_close(b, a, rtol=rtol, atol=rtol * float(a.abs().max()), equal_nan=True)


LINKS = [
    None,
    {"n_blocks": 1, "hidden": 1, "depth": 1},
    {"n_blocks": 2, "hidden": 2, "depth": 4},
    {"n_blocks": 2, "hidden": 8, "depth": 4},
    {"n_blocks": 3, "hidden": 5, "depth": 2},
    {"n_blocks": 2, "hidden": 2, "depth": 4, "network": "cpflow"},
    {"n_blocks": 3, "hidden": 5, "depth": 3, "network": "cpflow"},
    {"n_nests": 1},
    {"n_nests": 4},
]
CPFLOW = {"n_blocks": 2, "hidden": 4, "depth": 3, "network": "cpflow"}
NESTS = {"n_nests": 4}


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("c", [2, 3, 11])
@pytest.mark.parametrize("runs", [1, 3])
def test_one_step_is_that_of_plain_operations(link, c, runs):
    """The first moment after one step is a tenth of the gradient, so this compares the gradients of all parameters."""
    pair = Pair(link=link, c=c, runs=runs)
    pair.take(*pair.batches(1))
    pair.compare()
    # all parameters have a gradient, but the bias of a last unit without a softplus: it only adds a constant
    unused = link["n_blocks"] if link is not None and "network" in link else 0
    assert ((pair.plain.optimizer.first == 0).sum(1) == unused).all()


@pytest.mark.parametrize("link", [link for link in LINKS if link is not None and "n_blocks" in link])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_many_classes(link, dtype):
    Pair(link=link, c=120, runs=2, rows=40, dtype=dtype).take_one()


def _take(pair, steps):
    pair.take(*pair.batches(steps), torch.linspace(1.0, 0.5, steps))


@pytest.mark.parametrize("link", [None, LINKS[2], LINKS[3], CPFLOW, NESTS])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_many_steps_at_rates_of_their_own(link, sparse, dtype):
    pair = Pair(link=link, c=4, runs=3, d=7, rows=70, sparse=sparse, dtype=dtype)
    _take(pair, 6)
    if dtype == torch.float64:
        pair.compare(1e-9)
    else:  # Adam divides by what may be rounding alone where a gradient vanishes, so the losses are compared
        torch.testing.assert_close(pair.steps[1].totals, pair.plain.totals, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("rows", [1, 16, 17, 64, 65, 200])
@pytest.mark.parametrize("link", [LINKS[2], CPFLOW, NESTS])
def test_batches_of_any_size(rows, dtype, link):
    Pair(link=link, rows=rows, runs=2, dtype=dtype).take_one()


@pytest.mark.parametrize("c", [2, 5])
@pytest.mark.parametrize("settings", [{"symmetric": True}, {"centred": True}, {"symmetric": True, "intercept": False}])
@pytest.mark.parametrize("link", [LINKS[2], CPFLOW, NESTS])
def test_penalties(settings, c, link):
    pair = Pair(link=link, c=c, runs=3, **settings)
    _take(pair, 3)
    pair.compare()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_nests_with_offsets_far_apart(dtype):
    """The largest exponent of a nest may be far below its largest offset."""
    pair = Pair(link=NESTS, c=4, dtype=dtype)
    for step in pair.steps:
        step.model.link.nests.offsets.data[0, 1, 0] = 600.0
        step.model.link.nests.offsets.data[0, 2] = torch.tensor([-50.0, -3000.0, 20.0])
    pair.take_one()
    assert torch.isfinite(pair.steps[1].optimizer.first).all()


@pytest.mark.parametrize(("dtype", "scale"), [(torch.float64, 1000.0), (torch.float32, 100.0)])
def test_nests_whose_gates_vanish(dtype, scale):
    """What is improbable in the likely nest may be explained by one that has nearly no share."""
    pair = Pair(link={"n_nests": 2}, c=3, dtype=dtype, scale=scale)
    for step in pair.steps:
        step.model.link.nests.log_mu.data[0] = torch.log(torch.tensor([5.0, 0.5]))
        step.model.link.nests.gate_bias.data[0] = torch.tensor([0.0, -scale])
    pair.take_one()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("link", [None, LINKS[3], CPFLOW, NESTS])
def test_extreme_features(link, dtype):
    pair = Pair(link=link, c=4, scale=1e4, dtype=dtype)
    pair.take_one(1e-9 if dtype == torch.float64 else 1e-3)
    assert torch.isfinite(pair.steps[1].model.flat).all()
    assert float(pair.steps[1].totals[0]) > 100


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("link", [None, LINKS[2], CPFLOW, NESTS])
def test_what_is_not_finite_reaches_the_loss_of_its_own_run_only(link, value):
    pair = Pair(link=link, runs=3)
    for step in pair.steps:
        step.model.weight[1, 0, 0] = value
    _take(pair, 2)
    for step in pair.steps:
        assert torch.isfinite(step.totals[0]).tolist() == [True, False, True]
        assert torch.isfinite(step.model.flat).all(1).tolist() == [True, False, True]
    kept = [0, 2]
    torch.testing.assert_close(pair.steps[1].model.flat[kept], pair.plain.model.flat[kept], rtol=1e-9, atol=1e-9)


def test_a_rate_of_zero_changes_no_parameter():
    pair = Pair(link=LINKS[2], runs=3)
    rows, labels, weights = pair.batches(4)
    before = pair.steps[1].model.flat.clone()
    rates = torch.full((4, 3), 0.01, dtype=pair.dtype)
    rates[:, 1] = 0.0
    pair.compiled.take_all(rows, labels, weights, rates)
    assert torch.equal(pair.steps[1].model.flat[1], before[1])
    assert (pair.steps[1].model.flat[[0, 2]] != before[[0, 2]]).all()
    assert (pair.steps[1].optimizer.first[1] != 0).all()


def test_a_tie_is_a_hit_for_the_first_class_or_the_last_of_two():
    for c, hit in ((2, 1), (3, 0)):
        for label in range(c):
            pair = Pair(c=c, rows=1, d=2, scale=0.0)
            pair.steps[1].model.flat.zero_()
            pair.steps[1].totals.zero_()
            one = torch.ones(1, 1, 1, dtype=torch.int64)
            pair.compiled.take_all(one, label * one, one.to(pair.dtype), one[0].to(pair.dtype))
            assert float(pair.steps[1].totals[1]) == (label == hit)


@pytest.mark.parametrize("link", ["softmax", "composite", "cpflow", "canonical"])
def test_without_numba_the_same_is_trained_by_plain_operations(problem, link, monkeypatch):
    trained, made = [], []
    real = step_module.make_step

    def noted(*arguments):
        made.append(type(real(*arguments)))
        return real(*arguments)

    monkeypatch.setattr(engine_module, "make_step", noted)
    for present in (True, False):
        monkeypatch.setattr(support_module, "has_numba", lambda present=present: present)
        model = problem.model(link, [1, 2])
        result = train(model, problem.sample([1, 2]), problem.settings([1, 2]))
        trained.append((model.flat, torch.tensor(result.history["train_loss"])))
    assert made == [CompiledStep, CompiledStep, Step, Step]  # whole batches and the rest, in each
    for one, other in zip(*trained, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-8)


def test_other_links_and_precisions_stay_with_plain_operations():
    mixture = CompositeLink(3)
    mixture.blocks[1] = CPFlowNetwork(2)
    assert link_form(mixture) is None
    assert not support_module.compiled_applies(torch.zeros(2, 2, dtype=torch.float16))
    assert not support_module.compiled_applies(torch.zeros(2, 2).T[:1])

    class Own(SoftmaxLink):
        pass

    class OwnChain(CompositeLink):
        pass

    class OwnNests(CanonicalLink):
        pass

    assert link_form(Own(3)) is None
    assert link_form(OwnNests(3)) is None
    assert link_form(OwnChain(3)) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_are_accurate(dtype):
    x = np.concatenate([np.linspace(-800, 800, 40001), np.linspace(-20, 20, 10002), [0.0, -0.0, 1e30, -1e30]])
    x = np.append(x, [np.nan, np.inf, -np.inf]).astype(dtype)
    positive, slope, e = (np.empty_like(x) for _ in range(3))
    top, total = np.abs(x), np.zeros_like(x)
    _apply(x, positive, slope, np.zeros_like(x), top, e, total)
    for found, of_others in ((positive, [np.nan, np.inf, 0]), (slope, [np.nan, 1, 0]), (e, [np.nan, 0, 0])):
        np.testing.assert_array_equal(found[-3:], np.array(of_others, dtype))
    x, positive, slope, e, total = (values[:-3] for values in (x, positive, slope, e, total))
    exact = x.astype(np.float64)
    small = np.exp(-np.abs(exact))
    tiny, eps = np.finfo(dtype).tiny, np.finfo(dtype).eps
    for found, expected in (
        (positive, np.maximum(exact, 0) + np.log1p(small)),
        (slope, np.where(exact >= 0, 1, small) / (1 + small)),
        (e, small),
    ):
        np.testing.assert_allclose(found, expected, rtol=5 * eps, atol=1.1 * tiny)
    np.testing.assert_array_equal(total, e)


def _apply(*arrays):
    from numba import njit

    from legendretron.accelerate.cpu.vectors import activate, exp_differences

    @njit
    def apply(x, positive, slope, y, top, e, total):
        activate(x, 0, positive, slope, 0, x.shape[0])
        exp_differences(y, 0, top, e, 0, total, x.shape[0])

    apply(*arrays)


def test_a_library_that_cannot_be_written_to_is_compiled_anew(monkeypatch):
    from legendretron.accelerate.cpu import compiling

    asked, real = [], compiling.njit

    def no_place(**options):
        asked.append(options)
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    monkeypatch.setattr(compiling, "njit", no_place)
    assert compiling.cached(lambda x: x + 1)(1) == 2
    assert [options.get("cache", False) for options in asked] == [True, False]


@pytest.mark.parametrize(("rate", "learned"), [
    (0.01, True), (0.4, False), *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in ((0.01, False), (0.4, True)))
])  # fmt: skip
@pytest.mark.parametrize("link", [None, LINKS[2], LINKS[3], CPFLOW, NESTS])
@pytest.mark.parametrize("c", [2, 5])
def test_labels_of_which_some_are_wrong(link, c, rate, learned):
    pair = Pair(link=link, c=c, runs=3, centred=True, noise=(rate, learned))
    pair.take(*pair.batches(1))
    pair.compare()
    _take(pair, 5)
    pair.compare(1e-8)
    if learned:
        assert not torch.allclose(
            pair.plain.model.link.noise.rate(), torch.tensor(rate, dtype=torch.float64), atol=1e-4
        )


def transition(c):
    raw = torch.randn(c, c, dtype=torch.float64, generator=torch.Generator().manual_seed(c))
    return TransitionNoise(torch.softmax(raw + 2.0 * torch.eye(c, dtype=torch.float64), dim=1))


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("link", [None, LINKS[2], LINKS[3]])
@pytest.mark.parametrize("c", [2, 5])
def test_labels_that_are_wrong_by_a_matrix(link, c, sparse):
    pair = Pair(link=link, c=c, runs=3, centred=True, sparse=sparse, noise=transition(c))
    _take(pair, 1)
    pair.compare()
    _take(pair, 5)
    pair.compare(1e-8)


ZEROS = TransitionNoise(torch.tensor([[1.0, 0, 0], [0.1, 0.9, 0], [0, 0.2, 0.8]]).double())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    ("noise", "least", "most"),
    [((0.2, True), 0.0, 24 * np.log(3 / 0.2) + 1), (transition(3), 1.0, np.inf), (ZEROS, 700.0, np.inf)],
    ids=["rate", "matrix", "zeros"],
)
def test_noise_with_extreme_features(dtype, noise, least, most):
    """With zeros, a label may come only from classes whose probabilities have vanished."""
    pair = Pair(c=3, scale=1e4, dtype=dtype, noise=noise)
    pair.take_one(1e-9 if dtype == torch.float64 else 1e-3)
    assert least < float(pair.plain.totals[0]) < most


def test_a_rate_is_not_penalized():
    pair = Pair(link=LINKS[2], c=3, noise=(0.2, True), centred=True)
    plain = pair.plain
    for penalty in (step.penalty for step in pair.steps):
        assert penalty.n_free == 1
    gradient = torch.zeros_like(plain.model.flat)
    plain.penalty.add_gradient(gradient)
    assert float(gradient[0, -1]) == 0.0
    assert float(gradient[0, -2]) != 0.0
    before = plain.penalty.value()
    plain.model.flat[:, -1] += 3.0
    assert torch.equal(plain.penalty.value(), before)
    spared = torch.zeros_like(gradient)
    plain.penalty.spare_free(spared)
    expected = -plain.penalty.strengths[:, 2] * plain.model.flat[:, -1]
    assert torch.equal(spared[:, -1], expected)
    assert float(spared[:, :-1].abs().max()) == 0.0
