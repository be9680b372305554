"""Observes an engine's own functions: a file says what it loads, not what it has loaded since."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final, TypeVar

import torch

Result = TypeVar("Result")

_LOAD: Final = "load_weights"

_log = logging.getLogger(__name__)


def observe(module: str, owner: str, method: str, observer: Callable[..., Any]) -> bool:
    """Let ``observer`` call a class's method, which is its first argument, from now on.

    Returns:
        Whether this version of the engine has the method.
    """
    try:
        found = getattr(import_module(module), owner)
        getattr(found, method)
    except (ImportError, AttributeError):
        return False
    _wrap(found, method, observer)
    return True


def _wrap(owner: type, method: str, observer: Callable[..., Any]) -> None:
    original = getattr(owner, method)

    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        return observer(original, *args, **options)

    setattr(owner, method, call)


def _subclasses(base: type) -> Iterator[type]:
    derived: list[type] = base.__subclasses__()
    for each in derived:
        yield each
        yield from _subclasses(each)


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
        found = [
            observe(module, owner, method, functools.partial(self.replace, method))
            for method in methods
        ]
        if not any(found):
            _log.warning(
                "this version of the engine has no %s.%s with %s: innet does not notice when it "
                "%s. Restart the engine after it did, or use a tested version",
                module, owner, " or ".join(methods), self._what,
            )  # fmt: skip

    def observe_models(self) -> None:
        """Observe how the models of this process load weights. Trainers call it in functions of
        their own, such as vLLM's ``--worker-extension-cls``."""
        for model in set(_subclasses(torch.nn.Module)):
            if _LOAD in vars(model):
                _wrap(model, _LOAD, functools.partial(self.replace, _LOAD))

    def replace(
        self, method: str, replace: Callable[..., Result], *args: Any, **options: Any
    ) -> Result:
        """Let a method replace weights."""
        if not self.method:
            _log.warning(
                "%s %s: from now on this engine neither loads blocks from the pool nor saves any. "
                "Restart it to share blocks again",
                method,
                self._what,
            )
        self.method = method
        return replace(*args, **options)
