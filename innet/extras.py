"""Libraries that the core does without, and the extra of innet that installs each."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from innet.errors import InnetError

EXTRAS: Final = {
    "matplotlib": "plots",
    "scapy": "packets",
    "ray": "ray",
    "torch": "torch",
    "starlette": "web",
    "uvicorn": "web",
    "msgpack": "events",
    "msgspec": "events",
}
"""Extras of ``pyproject.toml`` by the library that they install."""


def is_installed(library: str) -> bool:
    """Whether ``library`` can be imported."""
    return find_spec(library) is not None


def install_command(library: str) -> str:
    """The command that installs ``library``.

    >>> install_command("matplotlib")
    "pip install 'innet[plots]'"
    """
    return f"pip install 'innet[{EXTRAS[library]}]'"


def require(library: str, purpose: str) -> None:
    """Require a library of :data:`EXTRAS`.

    Args:
        purpose: what needs it, as the subject of the message.

    Raises:
        InnetError: it is not installed; the message says how to install it.
    """
    if not is_installed(library):
        raise InnetError(
            f"{purpose} needs {library}, which is not installed. Install it: "
            f"{install_command(library)}"
        )
