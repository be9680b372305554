"""Functions whose parameters have changed, and that take those of the last version for one more."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def also_takes(
    renew: Callable[..., Mapping[str, Any]],
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorator: the function also takes the arguments of the last version, with a warning.

    Args:
        renew: has the parameters of the last version, and returns today's arguments by name.
    """
    old = inspect.signature(renew)

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        new = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if _fit(new, args, kwargs) or not _fit(old, args, kwargs):
                return function(*args, **kwargs)
            what = f"the parameters of {function.__qualname__} are now {', '.join(new.parameters)}"
            warnings.warn(what, DeprecationWarning, stacklevel=2)
            renewed: Any = function
            result: T = renewed(**renew(*args, **kwargs))
            return result

        return call

    return decorate


def _fit(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True
