"""Paths that begin with ``~``, the home directory of a user."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

PathText = TypeVar("PathText", str, Path)


def with_home(path: PathText) -> PathText:
    """The path with the home directory in place of ``~``.

    >>> with_home("/srv/~")
    '/srv/~'

    Raises:
        ValueError: there is no such user, or no home directory is known.
    """
    if not str(path).startswith("~"):
        return path
    try:
        return type(path)(Path(path).expanduser())
    except RuntimeError:
        raise ValueError(
            f"the home directory in {str(path)!r} is not known; give the whole path, or ./~ for a "
            "file of that name"
        ) from None
