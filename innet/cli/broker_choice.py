"""Which broker is meant by what was typed. A password is not: anybody can read command lines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from innet.errors import TelemetryError
from innet.private_files import read_private
from innet.telemetry.broker_url import EMBEDDED, NONE, BrokerUrl

BROKER_VARIABLE = "INNET_BROKER"
"""Environment variable with a broker's URL, which may have a password."""
_FILE = "file:"
BROKER_SETTING = "telemetry.broker"


def typed_broker(text: str) -> str:
    """The broker that an option names: its URL, or that in a file (``file:PATH``).

    Raises:
        TelemetryError: it names none, or has a password.
        SecurityError: the file cannot be read, or can be read by others.
    """
    if text.startswith(_FILE):
        path = Path(text.removeprefix(_FILE)).expanduser()
        remedy = f"Make one readable by you alone: (umask 077; $EDITOR {path})"
        return read_private(path, "a broker's URL", remedy).decode(errors="replace")
    if text not in (EMBEDDED, NONE) and BrokerUrl.parse(text).password is not None:
        raise TelemetryError(
            "a password in a command line can be read by every user of this machine. Write the "
            "broker's URL into a file that only you can read, and give --broker file:PATH; or set "
            f"{BROKER_VARIABLE}=URL in the environment."
        )
    return text


def with_broker(assignments: Sequence[str]) -> list[str]:
    """Assignments of settings, with the broker of the environment first, and files looked up.

    Raises:
        TelemetryError, SecurityError: as :func:`typed_broker`.
    """
    chosen = [_looked_up(assignment) for assignment in assignments]
    from_environment = os.environ.get(BROKER_VARIABLE)
    return [f"{BROKER_SETTING}={from_environment}", *chosen] if from_environment else chosen


def _looked_up(assignment: str) -> str:
    key, equals, value = assignment.partition("=")
    if key.strip() != BROKER_SETTING or not equals:
        return assignment
    return f"{BROKER_SETTING}={typed_broker(value.strip())}"
