"""The file with a job's certificates: one packet in a line, in base64."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path

from innet.errors import SecurityError

CERTIFICATES_SUFFIX = ".certificates"
"""Of the file in the run directory that is called after the job, with all of them."""


def save_packets(path: Path, packets: Iterable[bytes]) -> None:
    """Write packets, for :func:`load_packets`."""
    path.write_text("".join(f"{base64.b64encode(packet).decode()}\n" for packet in packets))


def load_packets(path: Path) -> list[bytes]:
    """The packets in a file that :func:`save_packets` wrote.

    Raises:
        SecurityError: it cannot be read.
    """
    try:
        return [base64.b64decode(line) for line in path.read_text().splitlines()]
    except (OSError, ValueError) as error:
        raise SecurityError(f"cannot read the job's certificates {path}: {error}") from error
