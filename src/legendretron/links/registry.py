"""The registry of links: which names exist, and how to build a link from its name and JSON settings.

A link knows its own settings, see :class:`~legendretron.links.Link`; the registry only holds its name. Users register their
own links in the same way as the library does.
"""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, TypeVar

import torch

from legendretron._internal.json_values import as_json
from legendretron._internal.parameters import ParameterError, spell
from legendretron.links.base import Link

#: Group of the entry points by which installed packages register links.
ENTRY_POINTS = "legendretron.links"

#: Keys of a config besides the settings; no setting can have these names.
_RESERVED = ("kind", "n_classes", "dtype")
_LINKS: dict[str, type[Link]] = {}
#: Modules of rooms above that register a link, imported when the link is asked for.
_ABOVE = {
    "calibrated": "legendretron.calibration.link",
    "piecewise_linear": "legendretron.trons.piecewise_link",
    "trigonometric": "legendretron.trons.trigonometric_link",
}
AnyLink = TypeVar("AnyLink", bound=Link)


def register_link(name: str) -> Callable[[type[AnyLink]], type[AnyLink]]:
    """Return a decorator that registers a link class under a name.

    The name selects the link in :class:`~legendretron.LegendreTronClassifier`, :class:`~legendretron.nn.LegendreHead` and
    :func:`make_link`, and is saved with fitted models. To load such a model, import the module of the class first, or install
    it with an entry point of the group ``legendretron.links``.

    Parameters
    ----------
    name : str
        A Python identifier that is not in use.

    Raises
    ------
    ValueError
        If the name is taken, or the class is not a link or has a setting that cannot be saved.

    Examples
    --------
    >>> from legendretron.links import SoftmaxLink
    >>> @register_link("plain")
    ... class PlainLink(SoftmaxLink):
    ...     pass
    >>> make_link("plain", 3)
    PlainLink(n_classes=3, is_canonical=True)
    """
    if not _is_name(name):
        raise ValueError(f"name must be a Python identifier such as 'my_link', and not 'object', got {name!r}.")

    def register(cls: type[AnyLink]) -> type[AnyLink]:
        if not (isinstance(cls, type) and issubclass(cls, Link)):
            raise ValueError(f"register_link is for subclasses of Link, got {cls!r}.")
        if inspect.isabstract(cls):
            missing = ", ".join(sorted(cls.__abstractmethods__))
            raise ValueError(f"{cls.__name__} cannot be registered, since it does not define {missing}.")
        if reserved := [setting for setting in cls.setting_names() if setting in _RESERVED]:
            raise ValueError(f"{cls.__name__} has a setting {reserved[0]!r}; {', '.join(_RESERVED)} are reserved.")
        before = _LINKS.get(name)
        if before is not None and not _is_same(before, cls):
            raise ValueError(
                f"the name {name!r} is taken by {before.__module__}.{before.__qualname__}; choose another."
            )
        _LINKS[name] = cls
        return cls

    return register


def link_names() -> tuple[str, ...]:
    """Names of all links, including those of installed packages.

    Examples
    --------
    >>> {"softmax", "composite", "canonical"} <= set(link_names())
    True
    """
    installed = (entry.name for entry in entry_points(group=ENTRY_POINTS) if _is_name(entry.name))
    return tuple(sorted({*_LINKS, *_ABOVE, *installed}))


def names_without_settings() -> tuple[str, ...]:
    """Names of the links that need no settings, so that the name alone says all; those of packages not yet imported, too."""
    names = (name for name in link_names() if name not in _ABOVE)
    return tuple(name for name in names if name not in _LINKS or not _required_settings(_LINKS[name]))


def _required_settings(cls: type[Link]) -> list[str]:
    """Settings of a link that have no default."""
    arguments = inspect.signature(cls.__init__).parameters
    empty = inspect.Parameter.empty
    return [name for name in cls.setting_names() if name not in arguments or arguments[name].default is empty]


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name) and name != "object"


def link_class(name: str) -> type[Link]:
    """Return the link class with a name, or raise a ``ValueError`` that lists the names.

    Examples
    --------
    >>> link_class("canonical").setting_names()
    ('n_nests',)
    """
    if isinstance(name, str) and name not in _LINKS and name in _ABOVE:
        import_module(_ABOVE[name])
    if not isinstance(name, str) or name not in _LINKS:
        for entry in entry_points(group=ENTRY_POINTS):
            if entry.name == name and _is_name(name):
                try:
                    return register_link(name)(entry.load())
                except (ImportError, AttributeError) as error:
                    raise ValueError(
                        f"link {name!r}, an installed package's {entry.value!r}, cannot be imported: {error}"
                    ) from error
        known = ", ".join(map(repr, names_without_settings()))
        raise ValueError(
            f"link must be one of {known}, or an object, got {name!r}. A link of your own gets its name by "
            "@register_link when its module is imported: import that first."
        )
    return _LINKS[name]


def _is_same(cls: type, other: type) -> bool:
    """Not by identity: a notebook cell may have been run twice, or a module reloaded."""
    return (cls.__module__, cls.__qualname__) == (other.__module__, other.__qualname__)


def make_link(
    kind: str,
    n_classes: int,
    *,
    init: str | None = None,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    **settings: Any,
) -> Link:
    """Return a link by its name.

    Parameters
    ----------
    kind : str
        One of :func:`link_names`.
    n_classes : int
        ``C``.
    init : str, optional
        Initialization, for links that have more than one.
    generator, device, dtype : optional
        Random generator, device and dtype of the parameters; links without parameters need none.
    **settings
        Settings of the link; an unknown one raises a ``ValueError``.

    Examples
    --------
    >>> make_link("canonical", 3, n_nests=2).is_canonical
    True
    """
    cls = link_class(kind)
    names = cls.setting_names()
    if unknown := [name for name in settings if name not in names]:
        raise ValueError(
            f"{unknown[0]} is not a setting of link {kind!r}, which has {_join_names(names)}; leave it out."
        )
    if init is not None and init not in cls.starts:
        raise ValueError(f"init={init!r} is not valid for link {kind!r}, which accepts {_join_names(cls.starts)}.")
    if missing := [name for name in _required_settings(cls) if name not in settings]:
        raise ValueError(
            f"link {kind!r} needs the setting {missing[0]}; an estimator takes it in {spell('link_params')}, a head by its "
            "name."
        )
    try:
        link = cls.from_settings(n_classes, settings, init=init, generator=generator, device=device, dtype=dtype)
    except torch.OutOfMemoryError:
        raise
    except (TypeError, RuntimeError) as error:
        reason = str(error)
        if "memory" in reason or "overflow" in reason:  # torch's words for tensors that are too large
            reason = f"it takes more memory than there is for n_classes={n_classes}; give smaller settings."
        raise ValueError(f"link {kind!r} cannot be built with {settings or 'its defaults'}: {reason}") from error
    link.settings()  # raises now, and not after training, if one was not kept
    return link


def _join_names(names: tuple[str, ...]) -> str:
    return ", ".join(names) if names else "none"


def check_settings(link: str | Link, settings: object, where: str) -> dict[str, Any]:
    """Return settings that were given for a link, with ``init``; raise a ``ValueError`` if it does not have one of them.

    ``where`` is what holds them, for errors.
    """
    if isinstance(link, Link):
        names: tuple[str, ...] = ()
        which = f"a link that is an object, {type(link).__name__}, and has its own settings"
    else:
        cls = link_class(link)
        names, which = (*cls.setting_names(), *(("init",) if cls.starts else ())), spell("link", link)
    if not isinstance(settings, Mapping) or not all(isinstance(name, str) for name in settings):
        raise ParameterError(where, f"must be a dict of settings of the link, or None, got {settings!r}.")
    if unknown := [name for name in settings if name not in names]:
        raise ParameterError(
            where, f"holds {unknown[0]!r}, which does not apply to {which}; there it can hold {_join_names(names)}."
        )
    return dict(settings)


def link_config(link: Link) -> dict[str, Any]:
    """Return the JSON settings that build a link of the same shape; its tensors are in its state dict.

    Examples
    --------
    >>> link_config(make_link("canonical", 3))
    {'kind': 'canonical', 'n_classes': 3, 'n_nests': 4}
    """
    kind = next((name for name, cls in _LINKS.items() if _is_same(cls, type(link))), None)
    if kind is None:
        raise ValueError(f"{type(link).__name__} has no name, so it cannot be saved; give it one by @register_link.")
    settings = link.settings()
    try:
        settings = {name: as_json(value, name) for name, value in settings.items()}
    except ValueError as error:
        raise ValueError(f"the settings of {type(link).__name__} cannot be saved: {error}") from error
    return {"kind": kind, "n_classes": link.n_classes, **settings}
