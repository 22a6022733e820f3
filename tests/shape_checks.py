"""The type checker of the test suite: beartype, which asks nothing twice.

Whether a call fits its annotations follows from the types, shapes and dtypes of its arguments and its result, and from
the values of words and whole numbers. So a call like one that has passed is not checked again: a search asks the same
few things of the model thousands of times.
"""

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any

from beartype import beartype
from torch import Tensor


def check_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, checked by beartype at its first call of each form; what fails is checked again each time."""
    checked, passed = beartype(function), set[Hashable]()

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        form = _form(args), *kwargs, _form(tuple(kwargs.values()))
        if form in passed:
            return function(*args, **kwargs)
        result = checked(*args, **kwargs)
        passed.add(form)
        return result

    return call


def _form(value: Any) -> Hashable:
    """All that annotations can tell of a value."""
    if isinstance(value, Tensor):
        return type(value), value.dtype, value.shape
    if isinstance(value, list | tuple):
        return type(value), *map(_form, value)
    if isinstance(value, dict):
        return dict, *value, _form(tuple(value.values()))
    return (type(value), value) if isinstance(value, str | int) or value is None else type(value)
