"""LegendreTron: the loss learned together with a linear classifier."""

from __future__ import annotations

import copy
import math
from numbers import Integral, Real
from typing import Any, ClassVar

import torch

from legendretron._internal.parameters import ParameterError, spell
from legendretron._internal.sklearn_compat import Interval, StrOptions
from legendretron._internal.validation import check_choice
from legendretron.estimators.base import LinearLinkClassifier
from legendretron.estimators.convex import get_link, has_same_values, is_fixed
from legendretron.estimators.settings import SHARED_CONSTRAINTS, Protocol, Strengths, hidden_for
from legendretron.links import CompositeLink, Link, NoisyLink, SoftmaxLink, link_class, make_link
from legendretron.links.registry import check_settings
from legendretron.links.runs import check_single_link
from legendretron.losses import CanonicalLoss, CompositeLoss

#: The paper's table of hyperparameters, by group of data sets.
_PAPER: dict[str, dict[str, Any]] = {
    "libsvm": {"learning_rate": 0.01, "decay": 0.95, "max_epochs": 240, "batch_size": 64, "alpha": 0.01},
    "mnist": {"learning_rate": 0.001, "decay": 0.7, "max_epochs": 200, "batch_size": 128, "alpha": 0.001},
    "aloi": {"learning_rate": 0.01, "decay": 0.95, "max_epochs": 360, "batch_size": 64, "alpha": 0.01},
}
_PAPER_LINKS: dict[str, dict[str, Any]] = {
    "libsvm": {"n_blocks": 2, "hidden": 2, "depth": 4, "network": "cpflow"},
    "mnist": {"n_blocks": 1, "hidden": 4, "depth": 4, "network": "cpflow"},
    "aloi": {"n_blocks": 2, "hidden": 2, "depth": 4, "network": "cpflow"},
}


class LegendreTronClassifier(LinearLinkClassifier):
    r"""Linear classifier whose link, and with it the proper loss, is learned from the data.

    Probabilities are :math:`p(x) = \psi^{-1}(W x + b)` with a link :math:`\psi` from a learnable family; ``W``, ``b`` and
    the link are trained together by the log-loss,

    .. math:: \min_{W, b, \psi} \; -\tfrac1n \sum_i \log p_{y_i}(x_i)
              + \tfrac{\alpha}{2} |W|^2 + \tfrac{\alpha_{\mathrm{link}}}{2} |\theta_\psi|^2 .

    Parameters
    ----------
    link : {"composite", "canonical", "softmax"}, name of another link, Link or loss, default="composite"
        The paper's link, which is the most flexible; a link with a convex loss (``loss_``); logistic regression; or a link of
        your own. Training starts from a link object. A **loss**, or a link whose parameters are all **frozen**, is kept
        fixed: see Notes.
    link_params : dict, default=None
        Settings of the link. Composite: ``n_blocks`` networks (2), ``hidden`` units per layer (8, or 4 below 300 rows),
        ``depth`` layers (4). Canonical: ``n_nests`` softmaxes (4). Any link: ``init``.
    alpha : float or "auto", default="auto"
        Strength of the penalty on ``W``. The loss is a mean, so scikit-learn's ``C`` is ``1 / (alpha * n)``, where ``n``
        is the sum of the sample weights. ``"auto"``: chosen by cross-validated log-loss on the training data, see ``cv``.
    link_alpha : float or "auto", default="auto"
        Strength of the penalty on the link's distance from softmax. ``"auto"``: chosen together with ``alpha``. Logistic
        regression is kept unless a learned link is better by more than the standard error of the difference.
    solver : {"auto", "adam", "lbfgs"}, default="auto"
        ``"adam"`` uses minibatches; ``"lbfgs"`` uses all rows in each step, and suits small data. ``"auto"``: Adam for a
        learned link, and Newton's method or L-BFGS for logistic regression.
    learning_rate : float or "auto", default="auto"
        Initial learning rate of Adam, which follows a cosine schedule; ``"auto"`` is 0.03, or 0.01 in ``partial_fit``.
    max_epochs : int or "auto", default="auto"
        Passes over the data, or iterations of L-BFGS. ``"auto"``: from a few hundred passes for small data to a few
        passes for a million rows, see :mod:`legendretron.tuning.rules`; at most 1,000 iterations of L-BFGS.
    batch_size : int or "auto", default="auto"
        Rows per step; ``"auto"`` is 64, all rows if there are fewer, and up to 256 for large data.
    early_stopping : bool or float, default=False
        Fraction of the rows to hold out, 0.1 if True; of the groups, if ``fit`` has ``groups``. Training stops when the
        log-loss on these rows has not improved by ``tol`` for 10 epochs, and the best weights are kept. Penalties are chosen
        on the other rows.
    tol : float, default=1e-6
        Smallest improvement that early stopping counts; for L-BFGS, the tolerance on the largest entry of the gradient.
    class_weight : dict or "balanced", default=None
        Weights of the classes.
    warm_start : bool, default=False
        Whether ``fit`` continues from the previous fit.
    standardize : bool, default=True
        Whether to center and scale the features internally (sparse features are only scaled). ``coef_`` always refers to the
        original features; the penalty acts on the coefficients of the scaled features.
    device : str, default="cpu"
        ``"cpu"``, ``"cuda"``, ``"cuda:1"``, or ``"auto"`` for a GPU if there is one. The fitted model is on the CPU.
    dtype : {"float32", "float64"}, default=None
        Precision; ``None`` is that of ``X``, or float32 for a learned link whose penalties are chosen automatically.
    random_state : int, RandomState or None, default=None
        Seed of the folds, the initialization, the order of batches and the validation split.
    verbose : int, default=0
        1: a progress bar on a terminal. 2: one line per epoch.
    checkpoint : path, default=None
        File from which an interrupted fit resumes, with the same result; it is removed at the end. Needs Adam and an integer
        ``random_state``, and a path of its own for every fit. Chosen penalties are kept next to it, in ``.strengths``.
    cv : int, cross-validation generator or iterable, default=None
        Folds used to choose ``alpha`` and ``link_alpha``. ``None``: five folds, repeated three times for logistic regression
        below 1,000 rows. From 5,000 rows, links are tried on one fold; from 50,000, a fifth of the rows is held out once.
    label_noise : {"auto", "symmetric", "class-conditional"}, float, array-like or None, default="auto"
        ``"auto"``: predict labels like those in ``y``, with a noise floor if that is better. ``"symmetric"`` (one rate),
        ``"class-conditional"`` (a rate per pair of classes), a known rate, or a matrix, whose rows are true classes: some
        labels in ``y`` are wrong, predict true ones. See Notes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted. The reference class is the last one; with two classes, the first.
    coef_ : ndarray of shape (n_classes - 1, n_features)
        Coefficients ``W``.
    intercept_ : ndarray of shape (n_classes - 1,)
        Intercepts ``b``.
    link_ : Link
        The learned link, without noise: a torch module on the CPU, with classes in the order of ``link_classes_``. It is a
        ``SoftmaxLink`` if logistic regression was chosen.
    alpha_, link_alpha_ : float
        The strengths that were used; ``link_alpha_`` is infinite if the link was not learned, as in logistic regression and
        with a fixed link.
    gradient_norm_, converged_ : float, bool
        With a fixed link only: the largest entry of the gradient of the penalized loss at the solution, for scaled features,
        and whether it is at most ``tol``, or 100 times the rounding error of ``dtype`` if that is larger.
    noise_rate_ : float
        Share of the training labels that a uniform part explains: wrong labels, or chance; 0 if it does not fit them better.
        Present if it was estimated or given.
    noise_rate_interval_ : tuple of float
        Interval of ``noise_rate_``: covers the estimates from training and from held-out rows, 2.5 standard errors each.
    noise_matrix_ : ndarray of shape (n_classes, n_classes)
        Probabilities of observed labels (columns) for each true class (rows), in the order of ``classes_``.
    predicts_recorded_ : bool
        Whether ``predict_proba`` is of labels as they are recorded in ``y``, or of true ones.
    tuning_ : DataFrame
        If penalties were chosen: the candidates, the chosen one first, with mean and standard error of the held-out log-loss
        and of its difference from logistic regression. See :class:`~legendretron.plots.TuningDisplay`.
    set_calibration_ : SetCalibration
        The rows that :meth:`predict_set` is calibrated on, and the coverage that they guarantee.
    loss_ : CanonicalLoss or CompositeLoss
        The learned loss: canonical if the link is, else the strictly proper composite loss of the link.
    link_classes_ : ndarray of shape (n_classes,)
        ``classes_`` in the order of the link: with two classes the second comes first, since the predictor is for that class.
    history_ : History
        Losses, accuracy, learning rate and time per epoch; ``history_.to_frame()`` is a data frame.
    n_iter_ : int
        Number of epochs.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    **Loss transfer.** With a fixed link, ``W`` and ``b`` minimize its canonical loss, which is convex,

    .. math:: \min_{W, b} \; \tfrac1n \sum_i F(W x_i + b) - (W x_i + b)_{y_i} + \tfrac{\alpha}{2} |W|^2 .

    The link must be canonical, and have the same number of classes. For a composite link of three or more classes,
    :func:`~legendretron.links.distill` gives the nearest canonical link. ``alpha`` is chosen as for logistic regression.

    **Wrong labels.** Labels alone do not tell wrong ones from chance. So by default, ``predict_proba`` is of labels as they
    are recorded in ``y``. A noise floor, and a transition matrix if there are enough rows, are candidates beside softmax and
    learned links, chosen by the log-loss of held-out labels, by more than one standard error. If a floor was chosen and
    ``noise_rate_interval_`` excludes 0, ``fit`` warns once (:class:`~legendretron.LabelNoiseWarning`). If ``label_noise``
    says that labels are wrong, ``predict_proba`` is of true labels, and ``predict_proba_observed`` of recorded ones. If both
    penalties are given, ``"auto"`` means ``None``.

    **Lower bound.** If penalties are chosen and noise is looked for, a learned link predicts ``(1 - u) p + u / C``, where
    ``p`` are the probabilities of ``link_``. The share ``u`` is at least a quarter of one of ``n`` rows, ``1 / (4 n)``; it is
    larger with a noise floor, or if true labels are predicted and the noise rate is uncertain. So the log-loss of a row is
    at most ``log(4 n C)``.

    References
    ----------
    Lam, Walder, Penev, Nock (2023), LegendreTron: Uprising Proper Multiclass Loss Learning, ICML.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LegendreTronClassifier(random_state=0).fit(X, y)
    >>> clf.predict_proba(X[:1]).shape
    (1, 3)
    >>> clf.score(X, y) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SHARED_CONSTRAINTS,
        "link": [str, Link, CanonicalLoss, CompositeLoss],
        "link_alpha": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "link_params": [dict, None],
    }

    def __init__(
        self,
        link: str | Link | CanonicalLoss | CompositeLoss = "composite",
        *,
        link_params: dict[str, Any] | None = None,
        alpha: float | str = "auto",
        link_alpha: float | str = "auto",
        solver: str = "auto",
        learning_rate: float | str = "auto",
        max_epochs: int | str = "auto",
        batch_size: int | str = "auto",
        early_stopping: bool | float = False,
        tol: float = 1e-6,
        class_weight: dict[Any, float] | str | None = None,
        warm_start: bool = False,
        standardize: bool = True,
        device: str = "cpu",
        dtype: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
        checkpoint: Any = None,
        cv: Any = None,
        label_noise: Any = "auto",
    ) -> None:
        super().__init__(
            alpha=alpha, solver=solver, learning_rate=learning_rate, max_epochs=max_epochs, batch_size=batch_size,
            early_stopping=early_stopping, tol=tol, class_weight=class_weight, warm_start=warm_start,
            standardize=standardize, device=device, dtype=dtype, random_state=random_state, verbose=verbose,
            checkpoint=checkpoint, cv=cv, label_noise=label_noise,
        )  # fmt: skip
        self.link = link
        self.link_params = link_params
        self.link_alpha = link_alpha

    @classmethod
    def from_paper(cls, group: str, **parameters: Any) -> LegendreTronClassifier:
        """Return an estimator with the settings of the paper's tables.

        It has the parameters of this class and some that only the paper needs, see
        :class:`~legendretron.estimators.legendretron.PaperLegendreTronClassifier`.

        With ``random_state=seed``, initial weights and batches equal those of the authors' code after
        ``torch.manual_seed(seed)``. On the published LIBSVM files, this reproduces the authors' scores seed by seed.

        Parameters
        ----------
        group : {"libsvm", "mnist", "aloi"}
            Which of the paper's groups of data sets.
        **parameters
            Parameters to override, such as ``random_state``. Entries of ``link_params`` are overridden one by one.
        """
        check_choice("group", group, tuple(_PAPER))
        settings = {**_PAPER[group], **parameters}
        given = settings.get("link_params")
        # other links do not have these settings; fit refuses what is not a dict
        if parameters.get("link", "composite") == "composite" and (given is None or isinstance(given, dict)):
            settings["link_params"] = {**_PAPER_LINKS[group], **(given or {})}
        return PaperLegendreTronClassifier(**settings)

    def _link_settings(self) -> dict[str, Any]:
        """Settings of the link that were given; a ``ValueError`` if one was that the link does not have."""
        return check_settings(get_link(self.link), {} if self.link_params is None else self.link_params, "link_params")

    def _make_link(self, n_classes: int, generator: torch.Generator, dtype: torch.dtype, n_rows: int) -> Link:
        settings = self._link_settings()
        if is_fixed(self.link):
            return SoftmaxLink(n_classes)  # a stand-in: nothing of the link is trained
        kind = self._link_class()
        if isinstance(self.link, Link):
            return copy.deepcopy(check_single_link(self.link, n_classes=n_classes))
        if issubclass(kind, CompositeLink):
            settings.setdefault("hidden", hidden_for(n_rows, n_classes))
        settings["init"] = self._link_init(kind)
        return make_link(str(self.link), n_classes, generator=generator, dtype=dtype, **settings)

    def _link_class(self) -> type[Link]:
        """Return the class of the link to train; raise a ``ValueError`` if it is unknown, or has noise of its own."""
        kind = type(self.link) if isinstance(self.link, Link) else link_class(self.link)  # type: ignore[arg-type]
        if issubclass(kind, NoisyLink):
            reason = f"must be that of the true labels, got {self.link!r}; give the noise by {spell('label_noise')}."
            raise ParameterError("link", reason)
        return kind

    def _link_init(self, kind: type[Link]) -> str | None:
        """The start of a new link of this class: as given, or that of the estimator where the link has it."""
        usual = self._protocol().init
        given: str | None = (self.link_params or {}).get("init")
        return given if given is not None else usual if usual in kind.starts else None

    def _check_resumed_link(self) -> None:
        link, was_fixed = self.link_, hasattr(self, "gradient_norm_")
        if self._has_fixed_link or was_fixed:
            same = self._has_fixed_link and was_fixed and has_same_values(get_link(self.link), link)
        elif math.isinf(self.link_alpha_):  # logistic regression was chosen in place of the link
            same = self.link_alpha in ("auto", None) or isinstance(self._any_link(), SoftmaxLink)
        else:
            given, fitted = self._link_settings(), link.settings()
            same = type(link) is self._link_class()
            same = same and all(name == "init" or fitted.get(name) == value for name, value in given.items())
        if not same:
            raise ValueError(
                f"training continues with the {'fixed' if was_fixed else 'learned'} link of the first fit, "
                f"{type(link).__name__} with {link.settings()}, but link, link_params or link_alpha has been changed; set "
                "warm_start=False, or clone the estimator, to start over."
            )

    def _strengths(self) -> Strengths:
        alpha = None if self.alpha == "auto" else float(self.alpha)
        if is_fixed(self.link):
            return Strengths(alpha)
        link = self._any_link()
        if next(link.parameters(), None) is None:
            # a link of your own is not logistic regression, though nothing in it is penalized
            return Strengths(alpha, math.inf if isinstance(link, SoftmaxLink) else 0.0)
        link_alpha = None if self.link_alpha in ("auto", None) else float(self.link_alpha)
        return Strengths(alpha, link_alpha, tied=self.link_alpha is None)

    def _any_link(self) -> Link:
        """A link of this kind for two classes, or the one given."""
        if isinstance(self.link, Link):
            return self.link
        return self._make_link(2, torch.Generator(), torch.float32, 1)

    def _is_centered(self) -> bool:
        usual = self._protocol().init
        if isinstance(self.link, str) and "centred" in (kind := link_class(self.link)).starts:
            return self._link_init(kind) == "centred"
        return usual == "centred"


class PaperLegendreTronClassifier(LegendreTronClassifier):
    """LegendreTron, or logistic regression with ``link="softmax"``, trained as in the paper; made by ``from_paper``.

    Defaults are those of the paper's table of hyperparameters. What the table omits (initialization, one penalty on all
    parameters, float64, unscaled features) follows the authors' public code. ``from_paper`` sets ``link_params`` to the
    paper's network.

    Parameters
    ----------
    schedule, decay, decay_every, init, penalize_intercept
        See :class:`~legendretron.estimators.settings.Protocol`.
    link_alpha : float, "auto" or None, default=None
        As in :class:`LegendreTronClassifier`; None uses ``alpha``, as the paper does.
    link, link_params, alpha, solver, learning_rate, max_epochs, batch_size, early_stopping, tol, class_weight, warm_start
        See :class:`LegendreTronClassifier`.
    standardize, device, dtype, random_state, verbose, checkpoint, cv, label_noise
        See :class:`LegendreTronClassifier`.

    Examples
    --------
    >>> LegendreTronClassifier.from_paper("libsvm").schedule
    'step'
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LegendreTronClassifier._parameter_constraints,
        "schedule": [StrOptions({"constant", "step", "cosine"})],
        "decay": [Interval(Real, 0, 1, closed="right")],
        "decay_every": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions({"identity", "centred", "paper"})],
        "penalize_intercept": ["boolean"],
        "link_alpha": [*LegendreTronClassifier._parameter_constraints["link_alpha"], None],
    }

    def __init__(
        self,
        link: Any = "composite",
        *,
        link_params: dict[str, Any] | None = None,
        alpha: float | str = 0.01,
        link_alpha: float | str | None = None,
        solver: str = "adam",
        learning_rate: float | str = 0.01,
        schedule: str = "step",
        decay: float = 0.95,
        decay_every: int = 4,
        max_epochs: int | str = 240,
        batch_size: int | str = 64,
        early_stopping: bool | float = False,
        tol: float = 1e-6,
        class_weight: dict[Any, float] | str | None = None,
        warm_start: bool = False,
        standardize: bool = False,
        init: str = "paper",
        penalize_intercept: bool = True,
        device: str = "cpu",
        dtype: str | None = "float64",
        random_state: Any = None,
        verbose: int = 0,
        checkpoint: Any = None,
        cv: Any = None,
        label_noise: Any = None,
    ) -> None:
        super().__init__(
            link, link_params=link_params, alpha=alpha,
            link_alpha=link_alpha,  # type: ignore[arg-type]  # None ties it to alpha
            solver=solver, learning_rate=learning_rate, max_epochs=max_epochs, batch_size=batch_size,
            early_stopping=early_stopping, tol=tol, class_weight=class_weight, warm_start=warm_start,
            standardize=standardize, device=device, dtype=dtype, random_state=random_state, verbose=verbose,
            checkpoint=checkpoint, cv=cv, label_noise=label_noise,
        )  # fmt: skip
        self.schedule = schedule
        self.decay = decay
        self.decay_every = decay_every
        self.init = init
        self.penalize_intercept = penalize_intercept

    def _protocol(self) -> Protocol:
        return Protocol(
            self.schedule, float(self.decay), int(self.decay_every), self.init, bool(self.penalize_intercept), False
        )

    def _make_link(self, n_classes: int, generator: torch.Generator, dtype: torch.dtype, n_rows: int) -> Link:
        if self.init == "paper" and self.link == "softmax":
            # the authors' code draws LegendreTron's link here too, without using it, which changes the order of the batches
            CompositeLink(n_classes, network="cpflow", init="paper", generator=generator, dtype=dtype)
        return super()._make_link(n_classes, generator, dtype, n_rows)
