"""Text from others, made safe to print.

Names, labels and error texts of a peer may have escape sequences that rename a terminal's window,
hide lines, or type for the user. All that innet prints passes through :func:`printable`: errors'
messages, log records, and what commands write (``innet.cli.text_output``).
"""

from __future__ import annotations

import re

_CONTROL = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and line feed, DEL, C1
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # line separators, and what reorders a line
    "\ud800-\udfff"  # halves of a surrogate pair, which no encoding takes
    "]"
)


def printable(text: str) -> str:
    r"""``text`` with its control characters as JSON escapes them; tabs and line feeds stay.

    A JSON document stays one, with the same value.

    >>> print(printable("rank \x1b[2J3"))
    rank \u001b[2J3
    """
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
