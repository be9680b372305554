"""Imports at the first use of a name, and without the garbage collector.

A program that needs one module of a package does not load the others with it.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Keep the collector off during imports.

    They create many objects and no garbage: a collection visits all objects, and finds nothing.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package, see PEP 562.

    Args:
        package: its ``__name__``.
        homes: by name, the module of the package that defines it.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with no_garbage_collection():
            return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)

    return load
