"""Parameters: checks of plain values, without torch; how messages spell them; errors that carry their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real


class ParameterError(ValueError):
    """A parameter has a value that cannot be used; ``reason`` is the rest of the sentence.

    Examples
    --------
    >>> error = ParameterError("alpha", "must not be negative, got -1.")
    >>> str(error), error.parameter
    ('alpha must not be negative, got -1.', 'alpha')
    """

    def __init__(self, parameter: str, reason: str) -> None:
        super().__init__(parameter, reason)
        self.parameter, self.reason = parameter, reason

    def __str__(self) -> str:
        return f"{spell(self.parameter)} {self.reason}"


def _as_code(name: str, *value: object) -> str:
    return f"{name}={value[0]!r}" if value else name


# not a context variable: messages are also made in threads
_spell: Callable[..., str] = _as_code


def spell(name: str, *value: object, code: str | None = None) -> str:
    """Return a parameter, or a parameter with a value, as users write it: in Python, unless inside :func:`spelling`.

    ``code`` is what to write in Python, where that is no parameter.

    Examples
    --------
    >>> spell("alpha"), spell("solver", "adam")
    ('alpha', "solver='adam'")
    """
    return code if code is not None and _spell is _as_code else _spell(name, *value)


@contextmanager
def spelling(how: Callable[[str], str | None], say: Callable[[str, object], str]) -> Iterator[None]:
    """Inside the block, call parameters as ``how`` does, if not None, and write such a name with a value as ``say`` does."""
    global _spell

    def spell_otherwise(name: str, *value: object) -> str:
        other = how(name)
        if other is None:
            return _as_code(name, *value)
        return say(other, value[0]) if value else other

    before, _spell = _spell, spell_otherwise
    try:
        yield
    finally:
        _spell = before


def check_integer(name: str, value: object, minimum: int) -> int:
    """Return ``value`` as an int, or raise if it is not an integer of at least ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise ParameterError(name, f"must be an integer of at least {minimum}, got {value!r}.")
    return int(value)


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """Return ``value``, or raise if it is not one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise ParameterError(name, f"must be one of {', '.join(map(repr, choices))}, got {value!r}.")
    return value


def check_open_unit(name: str, value: object) -> float:
    """Return ``value`` as a float, or raise if it is not strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise ParameterError(name, f"must be a number strictly between 0 and 1, got {value!r}.")
    return float(value)
