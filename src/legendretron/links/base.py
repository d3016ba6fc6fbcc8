r"""The interface of a link: the map between predictors and probabilities."""

from __future__ import annotations

import copy
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, ClassVar, NoReturn, Self

import torch
from torch import Tensor, nn
from torch.func import functional_call

from legendretron._internal.offloading import bring_tensors
from legendretron._internal.process_groups import n_ranks
from legendretron._internal.start import set_start
from legendretron._internal.tensor_cache import TensorCache
from legendretron._internal.validation import (
    at_least_single,
    check_integer,
    check_last_axis,
    check_precision,
    check_proba,
    check_run_shape,
    full_precision,
    has_values,
)
from legendretron.links.binary_potential import BinaryPotential, PotentialTable, split_panels
from legendretron.simplex import append_reference, log_softmax_plus, log_softmax_plus_inverse

#: From a link, rows, and whether they are logits of all classes, to log-probabilities.
LogProba = Callable[["Link", Tensor, bool], Tensor]
#: Arguments of a constructor that are not settings: what a link can represent does not depend on them.
_NO_SETTINGS = ("self", "n_classes", "init", "run_shape", "generator", "device", "dtype")
#: How far below the largest a logit must be to count as masked; masks are commonly -1e9.
_LOWEST_MASK = 5e8
#: Distance of the largest logit from the last, and size of a predictor, beyond which float32 is computed in float64.
_FAR = 128.0


class NotCanonicalError(ValueError):
    """Raised for the potential, or the canonical loss, of a link that is not the gradient of a potential.

    Examples
    --------
    >>> from legendretron.links import CompositeLink
    >>> CompositeLink(n_classes=3).potential(torch.zeros(2))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    legendretron.links.base.NotCanonicalError: ...
    """


class Link(nn.Module, ABC):
    r"""An invertible map between predictors ``z`` in :math:`\mathbb{R}^{C-1}` and probabilities of ``C`` classes.

    Calling the module returns log-probabilities, for ``torch.nn.NLLLoss``. The log-loss of any link is strictly proper
    composite. A link is **canonical** if its inverse is the gradient of a convex potential :math:`F`; then it is
    monotone, and :math:`F(z) - z_y` is a proper loss that is convex in ``z``.

    Subclasses define at least two methods: ``_log_odds`` (or ``_log_proba``) and its inverse ``_from_log_odds``. Methods
    with a leading underscore take rows, tensors of shape ``(*run_shape, n, K)``, and treat each row independently. A link
    also describes itself to the rest of the library: its settings (:meth:`settings`), how it is built from them
    (:meth:`from_settings`) and how it is split by class (:meth:`class_axes`).
    :func:`~legendretron.links.register_link` gives it a name. See "Writing a link" in the documentation.

    Parameters
    ----------
    n_classes : int
        ``C``, at least 2.
    run_shape : tuple of int
        Run axes: with ``(R,)``, one module contains ``R`` independent links, and inputs have shape ``(R, ..., K)``.
        Parameters have these axes in front; buffers have none, and are shared by all runs.

    Examples
    --------
    >>> from legendretron.links import SoftmaxLink
    >>> link = SoftmaxLink(n_classes=3)  # a subclass
    >>> p = link.inverse(torch.tensor([1.0, -1.0]))
    >>> bool(torch.allclose(link.link(p), torch.tensor([1.0, -1.0]), atol=1e-5))
    True
    """

    #: Values of the constructor's argument ``init`` that this link accepts; empty if it has no such argument.
    starts: ClassVar[tuple[str, ...]] = ()

    def __init__(self, n_classes: int, run_shape: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.n_classes = check_integer("n_classes", n_classes, 2)
        self.run_shape = check_run_shape(run_shape)
        self._quadrature_cache: TensorCache[BinaryPotential] = TensorCache()
        self._polynomial_cache: TensorCache[PotentialTable] = TensorCache()

    # --- description of the link, used to build, save and split it ---

    @classmethod
    def setting_names(cls) -> tuple[str, ...]:
        """Names of the settings: by default the constructor's arguments that decide what the link can represent."""
        arguments = inspect.signature(cls.__init__).parameters.values()
        named = [a.name for a in arguments if a.kind not in (a.VAR_POSITIONAL, a.VAR_KEYWORD)]
        return tuple(name for name in named if name not in _NO_SETTINGS)

    def settings(self) -> dict[str, Any]:
        """Settings of this link by name, as JSON values; by default the attributes of these names."""
        names = self.setting_names()
        if missing := [name for name in names if not hasattr(self, name)]:
            raise ValueError(
                f"{type(self).__name__} must keep its setting {missing[0]!r} as an attribute of that name, or define "
                "settings()."
            )
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_settings(
        cls,
        n_classes: int,
        settings: Mapping[str, Any],
        *,
        init: str | None = None,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> Self:
        """Return a new link with these settings; ``init`` and ``generator`` are for constructors that have them."""
        made: dict[str, Any] = {"init": init, "generator": generator, "device": device, "dtype": dtype}
        known = inspect.signature(cls.__init__).parameters
        link = cls(n_classes, **settings, **{k: v for k, v in made.items() if k in known and v is not None})
        return link.to(device=device, dtype=dtype)  # a constructor need not have these arguments

    def penalty_centre(self) -> dict[str, float]:
        """Values of parameters, by name, towards which a centered penalty pulls; 0 for those that are not listed.

        The link should be simplest there, for most links softmax+.
        """
        return {}

    def unpenalized(self) -> tuple[str, ...]:
        """Names of parameters that no penalty pulls anywhere; they must be the last ones."""
        return ()

    def class_axes(self) -> dict[str, int] | None:
        """Axis of each parameter or buffer that runs over the ``C - 1`` predictors; those that have none are not listed.

        A link that defines it can be split by class over processes. Its ``_log_odds`` then gets distributed tensors, split
        along these axes. The default is None, for a link that cannot be split.
        """
        return None

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Restore the start of the constructor, drawn anew, also in memory that holds no values yet.

        All parameters and buffers are written, so that it can follow ``to_empty``. Of a link that is sharded over processes,
        all of them must call it. By default, tensors are those of a new link with the same settings; a link that is not
        built from its settings alone, such as one given by a table, should override it.
        """
        tensors = dict(chain(self.named_parameters(), self.named_buffers()))
        if not tensors:
            return
        device, init = next(iter(tensors.values())).device, getattr(self, "init", None)
        made: dict[str, Any] = {"init": init, "generator": generator, "device": device}
        runs = [
            self.from_settings(self.n_classes, self.settings(), **made).state_dict()
            for _ in range(math.prod(self.run_shape))
        ]
        trained = {name for name, _ in self.named_parameters()}
        for name, tensor in tensors.items():
            start = torch.stack([run[name] for run in runs]) if name in trained else runs[0][name]
            set_start(tensor, start.reshape(tensor.shape))

    # --- for subclasses, on rows ---

    @property
    def is_canonical(self) -> bool:
        """Whether the inverse is the gradient of a convex function, by construction; always true for two classes."""
        return self.n_classes == 2

    def _log_odds(self, z: Tensor) -> Tensor:
        r"""Logarithms :math:`\log(p_k / p_C)`, ``(*run_shape, n, K) -> (*run_shape, n, K)``."""
        if type(self)._log_proba is Link._log_proba:
            raise NotImplementedError(f"{type(self).__name__} must define _log_odds, or _log_proba.")
        log_p = self._log_proba(z)
        return log_p[..., :-1] - log_p[..., -1:]

    @abstractmethod
    def _from_log_odds(self, log_odds: Tensor) -> Tensor:
        """Predictors of log-odds, the inverse of ``_log_odds``."""

    def _log_proba(self, z: Tensor) -> Tensor:
        return log_softmax_plus(self._log_odds(z))

    def _log_proba_of_logits(self, logits: Tensor) -> Tensor:
        """Log-probabilities from logits of all classes: ``(*run_shape, n, C) -> (*run_shape, n, C)``.

        Overridden where no differences to the last logit are needed, which lose their digits if a class is masked.
        """
        z = self._predictors_of_logits(logits)
        exact = self._log_proba_in_double(logits, all_classes=True)
        return self._log_proba(z) if exact is None else exact

    def _log_proba_in_double(self, rows: Tensor, all_classes: bool) -> Tensor | None:
        """Log-probabilities computed in float64, in the precision of the rows; None if float32 is exact enough.

        Rows are predictors, or logits of all classes, whose differences lose digits if they are large.
        """
        if self._takes_masks or self.n_classes == 2 or not _can_be_widened(rows):
            return None
        x = rows.detach()
        if not bool(((x.amax(-1) - x[..., -1] if all_classes else x) > _FAR).any()):
            return None
        tensors = chain(self.named_parameters(), self.named_buffers())
        wide = {name: tensor.double() for name, tensor in tensors if tensor.is_floating_point()}
        z = _from_logits(rows.double()) if all_classes else rows.double()
        return functional_call(self, wide, (z,)).to(rows.dtype)

    def _predictors_of_logits(self, logits: Tensor) -> Tensor:
        """Differences to the last logit, on which the link is initialized if it has to be."""
        z = _from_logits(logits)
        if self.n_classes == 2:  # a class may be impossible: a large number replaces infinity, since inf * 0 is NaN
            large = torch.finfo(z.dtype).max ** 0.5
            z = torch.nan_to_num(z, nan=torch.nan, posinf=large, neginf=-large)
        self._initialize_once(z)
        return z

    @property
    def _takes_masks(self) -> bool:
        """Whether ``_log_proba_of_logits`` is exact for masked classes."""
        return False

    def _without_masks(self, logits: Tensor, *, for_canonical_loss: bool = False) -> Tensor:
        """Logits of users; NaN in rows with a masked class, or a ``ValueError`` where values can be read without waiting.

        Not for predictors, which are differences already: however large they are, none of them rounds another. A canonical
        loss takes the logits as they are, and has fewer digits than log-probabilities.
        """
        if self._takes_masks or self.n_classes == 2:  # a single difference
            return logits
        x = logits.detach()
        top, lowest, eps = x.amax(-1, keepdim=True), x.amin(-1, keepdim=True), torch.finfo(x.dtype).eps
        # the first bound is where differences of order one are rounded away; the second keeps diverging runs from being masks
        masked = top - lowest > max(1.0 / eps, _LOWEST_MASK)
        if for_canonical_loss or not _can_be_widened(x):
            # differences to the last logit have lost most digits of the others; where all logits are large, as in a run that
            # diverges, they lose no more digits than the logits have lost already
            masked |= top - x[..., -1:] > (1024.0 * top.abs()).clamp(min=eps**-0.6)
        if logits.is_cuda or not has_values(logits):
            return torch.where(masked, torch.nan, logits)
        if bool(masked.any()):
            masks = masked & (top < torch.inf)
            if not bool(masks.any()):  # rows with plus infinity: they have no probabilities, as in torch
                return torch.where(masked, torch.nan, logits)
            raise ValueError(
                f"logits hold a masked class, {float(lowest[masks].amin()):.3g}, but {type(self).__name__} compares all "
                "classes with each other. Mask the log-probabilities instead, "
                "log_softmax(link(logits).masked_fill(mask, -inf), dim), or use link='softmax' or 'canonical'."
            )
        return logits

    def _jacobian(self, z: Tensor) -> Tensor:
        return row_jacobian(lambda x: self._log_proba(x)[..., :-1].exp(), z)

    def _log_odds_slope(self, z: Tensor) -> Tensor:
        """Derivative of the log-odds of two classes; it only decides where the table of the potential is refined."""
        return row_jacobian(self._log_odds, z.detach()).squeeze(-1).detach()

    def _potential(self, z: Tensor) -> Tensor:
        if not self.is_canonical:
            self._refuse_potential()
        if self.n_classes > 2:
            raise NotImplementedError(f"{type(self).__name__} is canonical, but does not define _potential.")
        tensors = [*self.parameters(), *self.buffers()]
        if any(tensor.requires_grad for tensor in tensors):
            return self._make_quadrature(z.squeeze(-1))(z.squeeze(-1))
        return self._quadrature_cache.get(self._make_quadrature, z.squeeze(-1), tensors)(z.squeeze(-1))

    def _make_quadrature(self, like: Tensor) -> BinaryPotential:
        return BinaryPotential(self._log_odds, self._log_odds_slope, self._from_log_odds, like)

    def _make_table(self, like: Tensor) -> PotentialTable:
        twin = copy.deepcopy(self).double()
        table = twin._make_quadrature(torch.zeros(1, dtype=torch.float64, device=like.device))
        return PotentialTable(table.odds, split_panels(table.edges), like.dtype)

    @property
    def _is_tabulated(self) -> bool:
        """Whether there is no better way to the canonical losses of two classes than a table of polynomials."""
        kind = type(self)
        methods = (kind._potential, kind._canonical_losses, kind._scores_and_proba)
        return self.n_classes == 2 and methods == (Link._potential, Link._canonical_losses, Link._scores_and_proba)

    def _potential_table(self, like: Tensor) -> PotentialTable:
        tensors = [*self.parameters(), *self.buffers()]
        return self._polynomial_cache.get(self._make_table, like, tensors)

    def _canonical_losses(self, z: Tensor) -> Tensor:
        """``F(z) - z_k`` for all ``C`` classes, with ``z_C = 0``, on rows; overridden where no subtraction is needed."""
        return self._potential(z).unsqueeze(-1) - append_reference(z)

    # --- on the logits of all C classes, whose differences to the last are the predictors: rows of shape (n, C) ---

    def _scores_and_proba(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Negative canonical losses of all classes, and probabilities; overridden by links that compute both at once."""
        z = _from_logits(logits)
        if self._is_tabulated:
            return self._potential_table(z).scores_and_proba(z.squeeze(-1))
        return -self._canonical_losses(z), self._log_proba(z).exp()

    def _least_losses(self) -> Tensor:
        """Limits of the canonical losses where the label becomes certain, (C,)."""
        like = self._first_tensor()
        like = torch.empty(0) if like is None else at_least_single(like)
        return -self.conjugate(torch.eye(self.n_classes, dtype=like.dtype, device=like.device))

    def _refuse_potential(self) -> NoReturn:
        raise NotCanonicalError(
            f"{type(self).__name__} with n_classes={self.n_classes} is not the gradient of a potential. "
            "Its log-loss is strictly proper and can be used as it is; for a canonical loss to export or transfer, use "
            "CanonicalLink."
        )

    # --- for users, with any leading axes ---

    def _rows(self, name: str, value: Tensor, size: int) -> Tensor:
        return self._rows_like(name, value, size, self._first_tensor())

    def _rows_like(self, name: str, value: Tensor, size: int, first: Tensor | None) -> Tensor:
        check_last_axis(name, value, size, self.run_shape)
        value = check_precision(name, value, first)
        return value if value.dim() == len(self.run_shape) + 2 else value.reshape(*self.run_shape, -1, size)

    def _first_tensor(self) -> Tensor | None:
        """Return a tensor with the precision and device of the link; overridden by links that find it faster."""
        return next((t for t in chain(self.parameters(), self.buffers()) if t.is_floating_point()), None)

    def _losses_at(self, z: Tensor) -> Tensor:
        """As ``_canonical_losses``, on any leading axes: ``(..., C - 1) -> (..., C)``."""
        rows = self._rows("z", z, self.n_classes - 1)
        with full_precision(rows):
            return self._canonical_losses(rows).reshape(*z.shape[:-1], self.n_classes)

    def forward(self, z: Tensor, *, all_classes: bool = False, by: LogProba | None = None) -> Tensor:
        """Log-probabilities: ``(..., C - 1) -> (..., C)``.

        Computed in float32 at least, also within ``torch.autocast`` and for parameters of half precision.

        In training mode the first batch of at least two rows also initializes the link, see :meth:`initialize`. With
        ``torch.distributed`` running, the batches of all processes are used together, so all of them must take part.

        Parameters
        ----------
        z : Tensor of shape (..., C - 1)
            Predictors.
        all_classes : bool
            Whether ``z`` has an entry for the reference class, too, and shape ``(..., C)``. Predictors are the differences
            from that entry. Softmax and canonical links do not compute differences, and are exact for masked classes, see
            :class:`~legendretron.nn.LegendreLink`.
        by : callable, optional
            Function that computes log-probabilities of rows in place of the link's own maps:
            :func:`legendretron.accelerate.log_proba.log_proba`, which is faster for the links of this library.
        """
        first = self._first_tensor()
        if first is not None and first.is_meta:
            with bring_tensors(self):
                return self._evaluate_rows(z, all_classes, by, self._first_tensor())
        return self._evaluate_rows(z, all_classes, by, first)

    def _evaluate_rows(self, z: Tensor, all_classes: bool, by: LogProba | None, first: Tensor | None) -> Tensor:
        name, size = ("logits", self.n_classes) if all_classes else ("z", self.n_classes - 1)
        rows = self._rows_like(name, z, size, first)
        with full_precision(rows):
            if all_classes:
                rows = self._without_masks(rows)
            else:
                self._initialize_once(rows)
            if by is not None:
                log_p = by(self, rows, all_classes)
            elif all_classes:
                log_p = self._log_proba_of_logits(rows)
            else:
                exact = self._log_proba_in_double(rows, all_classes=False)
                log_p = self._log_proba(rows) if exact is None else exact
            return self._reshape(log_p, z)

    def _reshape(self, log_proba: Tensor, z: Tensor) -> Tensor:
        """Log-probabilities with the leading axes of ``z``; no view if they match, since FSDP warns about views."""
        if log_proba.shape[-1] != self.n_classes:
            raise ValueError(
                f"{type(self).__name__} gives {log_proba.shape[-1]} log-probabilities for n_classes={self.n_classes}: its "
                f"_log_odds must return {self.n_classes - 1} entries for each row, or its _log_proba {self.n_classes}."
            )
        if log_proba.dim() != len(self.run_shape) + 2:
            raise ValueError(
                f"{type(self).__name__} with run_shape={self.run_shape} gives log-probabilities of shape "
                f"{tuple(log_proba.shape)}; stacked parameters are for torch.func.vmap, or for a link with run_shape."
            )
        return log_proba if log_proba.dim() == z.dim() else log_proba.reshape(*z.shape[:-1], self.n_classes)

    def _initialize_once(self, rows: Tensor) -> None:
        """In training mode, initialize the link on the first batch; all processes or none must call this."""
        if not self.training or not self.needs_batch or (rows.shape[-2] < 2 and n_ranks() == 1):
            return
        # private, but there is no public way to ask whether torch.func is active
        transformed = not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None
        if transformed or torch.compiler.is_exporting():
            raise ValueError(
                f"{type(self).__name__} must be initialized by a first batch before it is exported or transformed in "
                "training mode: call link.initialize(z) with a batch of predictors, or model.eval()."
            )
        self.initialize(rows.detach(), across_ranks=True)

    def inverse(self, z: Tensor) -> Tensor:
        """Probabilities: ``(..., C - 1) -> (..., C)``."""
        rows = self._rows("z", z, self.n_classes - 1)
        with full_precision(rows):
            return self._reshape(self._log_proba(rows), z).exp()

    def link(self, p: Tensor) -> Tensor:
        """Predictors of probabilities inside the simplex: ``(..., C) -> (..., C - 1)``."""
        check_proba("p", p, self.n_classes, interior=True, run_shape=self.run_shape)
        return self.link_from_log(torch.log(at_least_single(p)))

    def link_from_log(self, log_p: Tensor) -> Tensor:
        """As :meth:`link`, from log-probabilities: exact also where probabilities underflow. Values are not checked."""
        rows = self._rows("log_p", log_p, self.n_classes)
        with full_precision(rows):
            z = self._from_log_odds(log_softmax_plus_inverse(rows))
        return z.reshape(*log_p.shape[:-1], self.n_classes - 1)

    def jacobian(self, z: Tensor) -> Tensor:
        r"""Jacobian :math:`\partial \tilde p_i / \partial z_j`: ``(..., K) -> (..., K, K)``."""
        k = self.n_classes - 1
        rows = self._rows("z", z, k)
        with full_precision(rows):
            return self._jacobian(rows).reshape(*z.shape, k)

    def potential(self, z: Tensor) -> Tensor:
        r"""Return the convex function whose gradient is the inverse link: ``(..., C - 1) -> (...)``.

        Raises
        ------
        NotCanonicalError
            If there is none.
        """
        rows = self._rows("z", z, self.n_classes - 1)
        with full_precision(rows):
            return self._potential(rows).reshape(z.shape[:-1])

    def conjugate(self, p: Tensor) -> Tensor:
        r"""Conjugate potential, :math:`F^*(\tilde p) = \langle z, \tilde p\rangle - F(z)`: ``(..., C) -> (...)``.

        Its negative is the Bayes risk of the link's canonical loss. Entries of zero are replaced by the smallest
        positive number, which gives the limit.
        """
        if not self.is_canonical:
            self._refuse_potential()
        check_proba("p", p, self.n_classes, run_shape=self.run_shape)
        p = at_least_single(p)
        p = p.clamp(min=torch.finfo(p.dtype).tiny)
        z = self.link_from_log(torch.log(p))
        # as sum_k p_k (z_k - F(z)), which does not subtract large numbers
        return -(p * self._losses_at(z)).sum(-1)

    @property
    def needs_batch(self) -> bool:
        """Whether the link still has to be initialized by :meth:`initialize`."""
        return False

    @torch.no_grad()
    def initialize(self, z: Tensor, weight: Tensor | None = None, *, across_ranks: bool = False) -> None:
        """Initialize what depends on a first batch ``(..., C - 1)``, optionally with weights ``(...)``.

        Most links have nothing to initialize. With ``across_ranks``, the batch is this process's part of a batch that is
        spread over all processes of the default group, and all of them must call this method.
        """

    def keep_start(self) -> None:
        """Mark as initialized what :meth:`initialize` would set: from now on only training changes it."""

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        for name, tensor in chain(self.named_parameters(), self.named_buffers()):  # buffers, if the link is frozen
            saved = state_dict.get(prefix + name)
            if saved is not None and saved.shape != tensor.shape:
                raise ValueError(
                    f"{prefix}{name} has shape {tuple(saved.shape)} in the state dict, but {tuple(tensor.shape)} in this "
                    f"{type(self).__name__} for n_classes={self.n_classes}: they differ in n_classes or in another setting. "
                    "Build the link with the settings it was saved with."
                )
        before = {name: (buffer, buffer.clone()) for name, buffer in self._buffers.items() if buffer is not None}
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        try:
            if all(map(has_values, self.buffers())):
                self._check_buffers()
        except ValueError:
            for name, (buffer, values) in before.items():
                self._buffers[name] = buffer.copy_(values)
            raise

    def _check_buffers(self) -> None:
        """Raise a ``ValueError`` if the buffers do not make a valid link, for instance after loading a state dict."""

    def extra_repr(self) -> str:
        """Text inside the parentheses of ``repr``."""
        runs = f", run_shape={self.run_shape}" if self.run_shape else ""
        return f"n_classes={self.n_classes}{runs}, is_canonical={self.is_canonical}"


def _from_logits(logits: Tensor) -> Tensor:
    """Predictors of the logits of all classes: their differences to the last."""
    return logits[..., :-1] - logits[..., -1:]


def _can_be_widened(logits: Tensor) -> bool:
    """Whether there is a dtype with more digits, and values can be read, without waiting, to see where it is needed."""
    return logits.dtype == torch.float32 and not logits.is_cuda and has_values(logits)


def row_jacobian(f: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """Jacobian of a map of rows by automatic differentiation, ``(..., K) -> (..., J, K)``."""
    graph = torch.is_grad_enabled()
    with torch.inference_mode(False), torch.enable_grad():
        leaf = z if z.requires_grad else z.clone().requires_grad_()
        columns = f(leaf).unbind(-1)
        rows = [torch.autograd.grad(y.sum(), leaf, create_graph=graph, retain_graph=True)[0] for y in columns]
    return torch.stack(rows, dim=-2)
