"""The shape check of the test suite: jaxtyping's, with beartype, which asks nothing twice.

Whether a call fits its annotations follows from the types, dtypes and sizes of its arguments and its result, and from
the values of words. Annotations name sizes, so which sizes are equal tells all; only 1 is a number in them. A call like
one that has passed is not checked again: a search asks the same few things of the model thousands of times.
"""

from collections.abc import Callable, Hashable
from functools import partial, wraps
from types import FunctionType
from typing import Any

import jaxtyping
from torch import Tensor
from torch.nn import Parameter

_jaxtyped = jaxtyping.jaxtyped
_plain_kinds: set[type] = set()  # of which annotations can tell nothing but the type: modules, numbers, None


def install() -> None:
    """Let what pytest's option ``--jaxtyping-packages`` decorates be checked in this way."""
    jaxtyping.jaxtyped = lambda *, typechecker: partial(check_once, typechecker=typechecker)


def check_once(function: Any, *, typechecker: Callable[..., Any]) -> Any:
    """``jaxtyped``: ``function``, checked at its first call of each pattern. What fails is checked each time."""
    if isinstance(function, type):
        return _jaxtyped(function, typechecker=typechecker)
    checked = _jaxtyped(function, typechecker=typechecker)
    passed: dict[Hashable, set[Hashable]] = {}  # the forms of arguments, and of results with them
    patterns: set[Hashable] = set()

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if jaxtyping.config.jaxtyping_disable:
            return function(*args, **kwargs)
        given = _form((args, kwargs)) if kwargs else _form(args)
        fits = passed.get(given)
        if fits is None:
            if _pattern(given) not in patterns:
                result = checked(*args, **kwargs)
                patterns.update([_pattern(given), _pattern((given, _form(result)))])
                return result
            fits = passed[given] = set()
        result = function(*args, **kwargs)
        got = _form(result)
        if got not in fits:
            if _pattern((given, got)) not in patterns:
                _jaxtyped(_returning(result, function), typechecker=typechecker)(*args, **kwargs)
                patterns.add(_pattern((given, got)))
            fits.add(got)
        return result

    return call


def _returning(result: Any, function: FunctionType) -> Callable[..., Any]:
    """A function of the same signature that gives ``result``."""

    def given(*_: Any, **__: Any) -> Any:
        return result

    with_names = FunctionType(given.__code__, function.__globals__, closure=given.__closure__)
    return wraps(function)(with_names)


def _form(value: Any) -> Hashable:
    """All that annotations can tell of a value, with its sizes."""
    kind = type(value)
    if kind is Tensor or kind is Parameter:
        return value.shape, value.dtype
    if kind in _plain_kinds:
        return kind
    if kind is tuple:
        return tuple([_form(one) for one in value])
    return _form_of_rare(value)


def _form_of_rare(value: Any) -> Hashable:
    kind = type(value)
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return kind, *map(_form, value)
    if isinstance(value, dict):
        return *value, *map(_form, value.values())
    if isinstance(value, Tensor):
        return kind, value.shape, value.dtype
    _plain_kinds.add(kind)
    return kind


def _pattern(form: Hashable) -> Hashable:
    """A form in which each size above 1 is the place where it comes first: what annotations by names can tell."""
    places: dict[int, int] = {}

    def rename(part: Any) -> Hashable:
        if isinstance(part, tuple):
            return tuple(map(rename, part))
        return f"size {places.setdefault(part, len(places))}" if type(part) is int and part > 1 else part

    return rename(form)
