"""Observes an engine's own functions: a file says what it loads, not what it has loaded since."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

Result = TypeVar("Result")

_log = logging.getLogger(__name__)


def observe(module: str, owner: str, method: str, observer: Callable[..., Any]) -> bool:
    """Let ``observer`` call a class's method, which is its first argument, from now on.

    Returns:
        Whether this version of the engine has the method.
    """
    try:
        found = getattr(import_module(module), owner)
        original = getattr(found, method)
    except (ImportError, AttributeError):
        return False

    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        return observer(original, *args, **options)

    setattr(found, method, call)
    return True


class WeightReplacements:
    """Whether a model's weights were replaced while it served, as trainers do.

    Its blocks then depend on more than its files, and an engine's own cache may have blocks of
    both.

    Args:
        what: the methods do, for the log.

    Attributes:
        method: that has replaced them; empty: they are those of the files.
    """

    def __init__(self, what: str = "replaces the model's weights") -> None:
        self._what = what
        self.method = ""

    def observe(self, module: str, owner: str, methods: tuple[str, ...]) -> None:
        """Observe the methods that replace weights."""
        for method in methods:
            observe(module, owner, method, functools.partial(self._replace, method))

    def _replace(
        self, method: str, replace: Callable[..., Result], *args: Any, **options: Any
    ) -> Result:
        if not self.method:
            _log.warning(
                "%s %s: from now on this engine neither loads blocks from the pool nor saves any. "
                "Restart it to share blocks again",
                method,
                self._what,
            )
        self.method = method
        return replace(*args, **options)
