"""One step of training: gather, predict, differentiate, update by Adam. On CUDA it is captured once and replayed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from legendretron.accelerate.forms import fits_kernels, trained_form
from legendretron.accelerate.support import compiled_applies, kernels_apply
from legendretron.training.features import DenseFeatures, Features, SparseFeatures
from legendretron.training.layout import Layout
from legendretron.training.model import LinearModel, Model, Penalty, StepArrays
from legendretron.training.problem import Sample

if TYPE_CHECKING:
    from legendretron.accelerate.cuda.training import LinkStep


class Adam:
    """Adam (Kingma and Ba, 2015) for parameters of shape (R, P), one row per run, which it updates in place.

    The count of steps is a tensor on the device, so that a step can be captured in a CUDA graph. There a step is one
    pass over memory, the penalty included, if Triton is available.
    """

    eps = 1e-8

    def __init__(self, parameters: Tensor, betas: tuple[float, float] = (0.9, 0.999)) -> None:
        self.parameters = parameters
        self.betas = betas
        self.first = torch.zeros_like(parameters)
        self.second = torch.zeros_like(parameters)
        self.count = torch.zeros((), dtype=torch.float64, device=parameters.device)
        self.fused = kernels_apply(parameters) and parameters.is_contiguous()
        self._root = torch.empty_like(parameters) if not self.fused else None

    def moments(self) -> tuple[Tensor, ...]:
        """What :meth:`load` needs to resume."""
        return self.first, self.second, self.count

    def load(self, moments: tuple[Tensor, ...]) -> None:
        """Resume from the moments of another optimizer of the same shape."""
        for mine, other in zip(self.moments(), moments, strict=True):
            mine.copy_(other)

    def step(self, gradient: Tensor, rate: Tensor, penalty: Penalty | None = None, *, clear: bool = False) -> None:
        """Update with a gradient of shape (R, P), plus that of a penalty, and rates of shape (R, 1).

        The gradient given may be overwritten; ``clear`` leaves zeros in it.
        """
        if self.fused:
            self._fused_step(gradient.contiguous(), rate, penalty, clear)
            return
        if penalty is not None:
            penalty.add_gradient(gradient)
        self._plain_step(gradient, rate)
        if clear:
            gradient.zero_()

    def _fused_step(self, gradient: Tensor, rate: Tensor, penalty: Penalty | None, clear: bool) -> None:
        from legendretron.accelerate.cuda.training import adam_step

        options: dict[str, Any] = {}
        if penalty is not None and penalty.active:
            penalty.add_center(gradient)
            penalty.spare_free(gradient)
            options = {"strengths": penalty.strengths, "shared": penalty.shared_gradient(), "bounds": penalty.bounds}
        adam_step(
            self.parameters,
            gradient,
            self.first,
            self.second,
            self.count,
            rate,
            betas=self.betas,
            eps=self.eps,
            clear=clear,
            **options,
        )

    def _plain_step(self, gradient: Tensor, rate: Tensor) -> None:
        b1, b2 = self.betas
        self.count += 1
        # a number on the CPU, which saves a dozen tiny operations; on CUDA the host must not wait for it
        t: Tensor | float = self.count if self.count.is_cuda else float(self.count)
        self.first.lerp_(gradient, 1.0 - b1)
        self.second.mul_(b2).addcmul_(gradient, gradient, value=1.0 - b2)
        # p -= rate / (1 - b1^t) * m / (sqrt(v / (1 - b2^t)) + eps), with the corrections moved onto small tensors
        correction = (1.0 - b2**t) ** 0.5
        factor = -correction / (1.0 - b1**t)
        root = torch.sqrt(self.second, out=self._root).add_(self.eps * correction)
        if isinstance(factor, float) and len(rate) == 1:
            self.parameters.addcdiv_(self.first, root, value=float(rate) * factor)
        else:
            self.parameters.addcdiv_(self.first * (rate * factor), root)


#: Seconds of compiled steps in one call, during which Ctrl-C is not heard.
_SECONDS_AT_ONCE = 0.1
_WARM_UP_STEPS = 3


class Step:
    """A step for batches of one size, ``n_rows`` on all processes together.

    It reads learning rates from ``rate`` of shape (R, 1), and adds weighted sums of losses and of hits to ``totals`` of
    shape (2, R). With a layout of several processes, gradients are added up in one message.
    """

    def __init__(
        self,
        model: Model,
        features: Features,
        penalty: Penalty | None,
        optimizer: Adam,
        rate: Tensor,
        totals: Tensor,
        n_rows: int,
        layout: Layout | None = None,
    ) -> None:
        self.model, self.features, self.penalty, self.optimizer = model, features, penalty, optimizer
        self.rate, self.totals, self.n_rows, self.layout = rate, totals, n_rows, layout
        self.gradient = torch.zeros_like(model.flat)
        # sparse rows are added to a gradient of zeros, which the optimizer restores where it was written
        self.clear = layout is None and isinstance(features, SparseFeatures) and features.by_kernels(model.flat)
        self.kernels = _kernels_for(model) if layout is None else None

    @property
    def changing(self) -> list[Tensor]:
        """All that a step changes, beside the gradient."""
        return [self.model.flat, *self.optimizer.moments(), self.totals, self.rate, *self.model.mutable_tensors()]

    @torch.no_grad()
    def __call__(self, rows: Tensor, labels: Tensor, weight: Tensor) -> None:
        """Train on rows of shape (R, n) with their labels and weights, which are shares of the whole batch.

        Of several processes, one may have no row.
        """
        model, gradient = self.model, self.gradient
        if self.kernels is not None:
            assert isinstance(model, LinearModel)
            z, write_gradient = self.features.product(rows, model.weight, model.bias.unsqueeze(1))
            dz = self.kernels(z, labels, weight, gradient, self.totals)
            write_gradient(dz, model.views(gradient)[0], self.clear)
        elif rows.shape[1]:
            batch = Sample(self.features, rows, labels, weight)
            nll, hit = model.loss_gradient(batch, gradient, cleared=self.clear)
            self.totals[0].add_((nll * weight).sum(-1), alpha=self.n_rows)
            self.totals[1].add_((hit * weight).sum(-1), alpha=self.n_rows)
        else:
            gradient.zero_()
        if self.layout is not None:
            gradient = self.layout.sum_over_rows(gradient)
        model.shrink(self.rate)
        self.optimizer.step(gradient, self.rate, self.penalty, clear=self.clear)

    def take_all(self, rows: Tensor, labels: Tensor, weights: Tensor, rates: Tensor) -> None:
        """Take ``S`` steps on rows with labels and weights of shape (S, R, n_rows), at rates of shape (S, R) or (1, R)."""
        for number, batch in enumerate(zip(rows, labels, weights, strict=True)):
            if number == 0 or len(rates) > 1:
                self.rate.copy_(rates[number].unsqueeze(1))
            self(*batch)


def _kernels_for(model: Model) -> LinkStep | None:
    """Triton kernels for the link and its derivatives, where there are some."""
    if not isinstance(model, LinearModel) or not kernels_apply(model.flat):
        return None
    form = trained_form(model.link)
    if form is None or form.known_matrix is not None or not fits_kernels(form):
        return None
    from legendretron.accelerate.cuda.training import LinkStep

    return LinkStep(form, model.flat, model.n_weights)


def capture_graph(
    step: Callable[[], None], device: torch.device, warm_up: int = _WARM_UP_STEPS
) -> torch.cuda.CUDAGraph:
    """Record a step that reads and writes fixed tensors on a CUDA device; ``replay`` runs it again in one launch.

    Capturing needs some steps to warm up, on a stream of their own: the caller restores what they have changed.
    """
    with torch.cuda.device(device):  # a graph is captured on the current device
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(warm_up):
                step()
        torch.cuda.current_stream(device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
    return graph


class CapturedStep:
    """A :class:`Step` with shapes that do not vary, recorded as a CUDA graph: one launch for one step, or for several."""

    #: Steps of the longer graph: enough for the host to stay ahead of the device.
    at_once = 16

    def __init__(self, step: Step) -> None:
        self.step = step  # its buffers are what the graphs read and write
        device = step.model.flat.device
        shape = (self.at_once, step.model.n_runs, step.n_rows)
        self.rows = torch.zeros(shape, dtype=torch.int64, device=device)
        self.labels = torch.zeros_like(self.rows)
        self.weights = torch.ones(shape, dtype=step.model.flat.dtype, device=device)
        self.rates = torch.zeros(self.at_once, step.model.n_runs, 1, dtype=step.rate.dtype, device=device)
        saved = [tensor.clone() for tensor in step.changing]
        self.one = capture_graph(lambda: self._steps(1), device)
        self.many = capture_graph(lambda: self._steps(self.at_once), device, warm_up=0)  # the first has warmed up
        for tensor, value in zip(step.changing, saved, strict=True):  # as before the warm-up
            tensor.copy_(value)

    def _steps(self, count: int) -> None:
        for number in range(count):
            self.step.rate.copy_(self.rates[number])
            self.step(self.rows[number], self.labels[number], self.weights[number])

    def take_all(self, rows: Tensor, labels: Tensor, weights: Tensor, rates: Tensor) -> None:
        """As that of :class:`Step`."""
        done, rates = 0, rates.expand(len(rows), -1).unsqueeze(-1)
        buffers = self.rows, self.labels, self.weights, self.rates
        while done < len(rows):
            many = len(rows) - done >= self.at_once
            count = self.at_once if many else 1
            for buffer, values in zip(buffers, (rows, labels, weights, rates), strict=True):
                buffer[:count].copy_(values[done : done + count])
            (self.many if many else self.one).replay()
            done += count


@contextmanager
def _flush_subnormals(dtype: torch.dtype) -> Iterator[None]:
    """Inside, numbers below 1e-38 count as 0 in single precision.

    Adam's moments of a link often get there, and processors take a hundred times as long for such numbers.
    """
    flushed = np.float32(1e-40) * np.float32(1.0) == 0.0  # by the user
    if dtype != torch.float32 or flushed or not torch.set_flush_denormal(True):
        yield
        return
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


class CompiledStep:
    """A :class:`Step` on the CPU in one compiled function, without the overhead of hundreds of small operations.

    It works on the memory of the model and of the optimizer, so that nothing else has to know of it. ``train`` takes steps
    from rows, labels, weights and rates, as arrays.
    """

    def __init__(self, step: Step, train: Callable[..., None]) -> None:
        self.model, self.rate = step.model, step.rate
        self._at_once, self._train = 1, train

    def take_all(self, rows: Tensor, labels: Tensor, weights: Tensor, rates: Tensor) -> None:
        """As that of :class:`Step`, in pieces between which Ctrl-C is heard."""
        done, rates = 0, rates.expand(len(rows), -1)
        while done < len(rows):
            part = slice(done, done + self._at_once)
            arrays = [values[part].contiguous().numpy() for values in (rows, labels, weights.to(rates), rates)]
            n_steps, began = len(arrays[0]), time.perf_counter()
            with _flush_subnormals(self.rate.dtype):
                self._train(*arrays)
            self.model.advance(n_steps)
            done += n_steps
            # the first call may include compilation; later ones approach the number of steps that fits
            allowed = int(_SECONDS_AT_ONCE * n_steps / (time.perf_counter() - began))
            self._at_once = max(1, min(4 * self._at_once, allowed))
        self.rate.copy_(rates[-1].unsqueeze(1))


def _get_arrays(features: Features, dtype: torch.dtype) -> np.ndarray | tuple[np.ndarray, ...] | None:
    """The matrix as arrays that share its memory; None if it is of another kind or precision."""
    if isinstance(features, DenseFeatures) and features.x.dtype == dtype and features.x.is_contiguous():
        return features.x.numpy()
    if isinstance(features, SparseFeatures) and features.values.dtype == dtype:
        return tuple(part.numpy() for part in (features.starts, features.columns, features.values))
    return None


def _compile_step(step: Step) -> CompiledStep | None:
    """The step as compiled code, where there is some for it."""
    model, flat, optimizer = step.model, step.model.flat, step.optimizer
    if not compiled_applies(flat) or any(t.dtype != flat.dtype for t in (step.rate, step.totals)):
        return None
    state = tuple(t.numpy() for t in (flat, optimizer.first, optimizer.second, optimizer.count.view(1)))
    penalty, numbers = step.penalty, (*optimizer.betas, optimizer.eps)
    of_penalty = None
    if penalty is not None:
        strengths = penalty.strengths.contiguous(), penalty.shared_strength().to(flat), penalty.center
        of_penalty = tuple(tensor.numpy() for tensor in strengths)
    features = _get_arrays(step.features, flat.dtype)
    train = model.compile_steps(StepArrays(features, state, step.totals.numpy(), of_penalty, numbers, step.n_rows))
    return None if train is None else CompiledStep(step, train)


AnyStep = Step | CapturedStep | CompiledStep


def make_step(step: Step) -> AnyStep:
    """Capture the step on CUDA, unless sparse features are multiplied by plain operations; compile it on the CPU.

    Where neither is possible, it is the step itself.
    """
    flat, features = step.model.flat, step.features
    # their shapes depend on the rows, and are read by the host
    varies = isinstance(features, SparseFeatures) and not features.by_kernels(flat)
    if flat.is_cuda:
        return step if varies else CapturedStep(step)
    return _compile_step(step) or step
