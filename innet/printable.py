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
    return _CONTROL.sub(_escaped, text)


def one_line(text: str) -> str:
    r"""``text`` with its line feeds escaped, too: it cannot imitate another line.

    >>> print(one_line("lost\n[innet] all is well"))
    lost\u000a[innet] all is well
    """
    return printable(text).replace("\n", "\\u000a")


_COLOUR = re.compile(r"(\x1b\[[0-9;:]{0,64}m)")
_LINE_END = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def printed_lines(text: str) -> list[str]:
    r"""The lines that ``text`` of a program is on a terminal, without what would change others.

    Colours stay. A carriage return, which redraws a line, begins another one.

    >>> printed_lines("\r 10 %\r 20 %\n\x1b[31mdone\x1b[0m\x1b[2A")
    [' 10 %', ' 20 %', '\x1b[31mdone\x1b[0m\\u001b[2A']
    """
    lines = [line for line in _LINE_END.split(text) if line]
    return ["".join(map(_without_controls, _COLOUR.split(line))) for line in lines] or [""]


def _without_controls(part: str) -> str:
    return part if _COLOUR.fullmatch(part) else printable(part)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
