"""Names of nodes, ports and topologies, and their natural order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, Discriminator, Field, Tag

MAX_NAME_CHARACTERS: Final = 32
NAME_PATTERN: Final = rf"^[A-Za-z0-9_][A-Za-z0-9._-]{{0,{MAX_NAME_CHARACTERS - 1}}}$"
PORT_PATTERN: Final = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,14}$"

NAME_EXPECTED: Final = (
    "a name of 1 to 32 characters from A-Z a-z 0-9 . _ - that starts with a letter or digit"
)
# 15 characters is IFNAMSIZ - 1: in netns mode a port is a kernel network interface.
PORT_EXPECTED: Final = (
    "a port name of 1 to 15 characters from A-Z a-z 0-9 . _ - that starts with a letter or digit"
)

_KERNELS_NAMES: Final = ("lo", "all", "default")
"""Of every node's loopback, and of folders beside those of interfaces in /proc/sys/net."""


def _checked_name(name: str) -> str:
    if not re.fullmatch(NAME_PATTERN, name):
        raise ValueError(f"expected {NAME_EXPECTED}, found {name!r}")
    return name


def _checked_port(port: str) -> str:
    if not re.fullmatch(PORT_PATTERN, port):
        raise ValueError(f"expected {PORT_EXPECTED}, found {port!r}")
    if port in _KERNELS_NAMES:
        raise ValueError(
            f"expected a port other than {', '.join(map(repr, _KERNELS_NAMES))}, which mean "
            f"interfaces of the kernel, found {port!r}"
        )
    return port


NodeName = Annotated[
    str, AfterValidator(_checked_name), Field(json_schema_extra={"pattern": NAME_PATTERN})
]
LABEL_KEY_PATTERN: Final = (
    r"^([A-Za-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$"
)
_LABEL_VALUE = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
LABEL_CONDITION_PATTERN: Final = rf"^!?({_LABEL_VALUE}|in\({_LABEL_VALUE}(, ?{_LABEL_VALUE})*\))$"


def _checked_labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    if not labels:
        raise ValueError("expected at least one label, such as {rack: a}, found none")
    for key, condition in labels.items():
        if not re.fullmatch(LABEL_KEY_PATTERN, key):
            raise ValueError(f"expected the name of a label, such as rack, found {key!r}")
        if not re.fullmatch(LABEL_CONDITION_PATTERN, condition):
            raise ValueError(
                f"label {key}: expected a value such as a, or !a, in(a, b) or !in(a, b), found "
                f"{condition!r}"
            )
    return labels


MachineLabels = Annotated[
    Mapping[str, str],
    AfterValidator(_checked_labels),
    Field(json_schema_extra={"minProperties": 1, "examples": [{"rack": "a"}]}),
]
"""Labels of a machine: ``{"rack": "a"}``. Values may be ``!a``, ``in(a, b)``, ``!in(a, b)``."""
MachineChoice = Annotated[
    Annotated[NodeName, Tag("name")] | Annotated[MachineLabels, Tag("labels")],
    Discriminator(lambda value: "labels" if isinstance(value, Mapping) else "name"),
]
"""A machine by its name or its labels."""
PortName = Annotated[
    str, AfterValidator(_checked_port), Field(json_schema_extra={"pattern": PORT_PATTERN})
]


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key under which ``h2`` comes before ``h10``, and digits before letters."""
    runs: list[str] = re.findall(r"[0-9]+|[^0-9]+", name)
    return tuple((0, int(run), "") if run[0] in "0123456789" else (1, 0, run) for run in runs)


def sanitised_name(label: str) -> str:
    """The closest legal node name to a free-form label: ``"New York"`` becomes ``New_York``.

    Returns ``node`` when nothing of the label can be kept.
    """
    kept = re.sub(r"[^A-Za-z0-9._-]+", "_", label).strip("._-")[:32].rstrip("._-")
    return kept or "node"
