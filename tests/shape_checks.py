"""The shape check of the test suite: jaxtyping's, with beartype, which asks nothing twice.

Whether a call fits its annotations follows from the types, shapes and dtypes of its arguments and its result, and from
the values of words and whole numbers. So a call like one that has passed is not checked again: a search asks the same
few things of the model thousands of times.
"""

from collections.abc import Callable, Hashable
from functools import partial, wraps
from types import FunctionType
from typing import Any

import jaxtyping
from torch import Tensor
from torch.nn import Parameter

_jaxtyped = jaxtyping.jaxtyped


def install() -> None:
    """Let what pytest's option ``--jaxtyping-packages`` decorates be checked in this way."""
    jaxtyping.jaxtyped = lambda *, typechecker: partial(check_once, typechecker=typechecker)


def check_once(function: Any, *, typechecker: Callable[..., Any]) -> Any:
    """``jaxtyped``: ``function``, checked at its first call of each form. What fails is checked each time."""
    if isinstance(function, type):
        return _jaxtyped(function, typechecker=typechecker)
    checked = _jaxtyped(function, typechecker=typechecker)
    passed: dict[Hashable, set[Hashable]] = {}

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if jaxtyping.config.jaxtyping_disable:
            return function(*args, **kwargs)
        form = _form((args, kwargs)) if kwargs else _form(args)
        if form not in passed:
            result = checked(*args, **kwargs)
            passed[form] = {_form(result)}
            return result
        result = function(*args, **kwargs)
        if _form(result) not in passed[form]:
            _jaxtyped(_returning(result, function), typechecker=typechecker)(*args, **kwargs)
            passed[form].add(_form(result))
        return result

    return call


def _returning(result: Any, function: FunctionType) -> Callable[..., Any]:
    """A function of the same signature that gives ``result``."""

    def given(*_: Any, **__: Any) -> Any:
        return result

    with_names = FunctionType(given.__code__, function.__globals__, closure=given.__closure__)
    return wraps(function)(with_names)


def _form(value: Any) -> Hashable:
    """All that annotations can tell of a value."""
    kind = type(value)
    if kind is Tensor or kind is Parameter:
        return value.shape, value.dtype
    if kind is tuple:
        return tuple([_form(one) for one in value])
    if kind is int or kind is str or kind is bool:
        return kind, value
    if isinstance(value, list | tuple):
        return kind, *map(_form, value)
    if isinstance(value, dict):
        return *value, *map(_form, value.values())
    return (kind, value.shape, value.dtype) if isinstance(value, Tensor) else kind
