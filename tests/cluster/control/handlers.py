"""Handlers for servers in tests."""

from __future__ import annotations

import os

from innet.errors import ControlError
from innet.node.requests import Handler


def _echo(**words: object) -> dict[str, object]:
    return words


def _fail() -> None:
    raise ControlError("not today")


HANDLERS: dict[str, Handler] = {"echo": _echo, "fail": _fail, "pid": os.getpid}
