"""Layers of a model as a training step sees them, and their CSV form."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from innet.errors import WorkloadError
from innet.quantities import QuantityError, parse_size_bytes

_COLUMNS = ("layer", "forward_s", "backward_s", "gradient_bytes")


@dataclass(frozen=True)
class Layer:
    """One layer.

    Attributes:
        name: for people.
        forward_s: seconds of computing in the forward pass.
        backward_s: seconds of computing in the backward pass.
        gradient_bytes: of its parameters' gradients, float32.
    """

    name: str
    forward_s: float
    backward_s: float
    gradient_bytes: int


def parse_layers_csv(text: str, path: Path | None = None) -> tuple[Layer, ...]:
    """Read ``layer,forward_s,backward_s,gradient_bytes`` with that header, in the model's order.

    Sizes may have units (``4MiB``); lines that begin with ``#`` are comments.

    Raises:
        WorkloadError: what is wrong, with its line.

    >>> parse_layers_csv("layer,forward_s,backward_s,gradient_bytes\\nfc,0.001,0.002,4096")
    (Layer(name='fc', forward_s=0.001, backward_s=0.002, gradient_bytes=4096),)
    """
    rows = [
        (number, next(csv.reader([line])))
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.startswith("#")
    ]
    if not rows or tuple(cell.strip() for cell in rows[0][1]) != _COLUMNS:
        raise WorkloadError(
            f"expected the header {','.join(_COLUMNS)}", path=path, line=rows[0][0] if rows else 1
        )
    if len(rows) == 1:
        raise WorkloadError("expected at least one layer below the header", path=path)
    return tuple(_layer(cells, path, number) for number, cells in rows[1:])


def _layer(cells: list[str], path: Path | None, line: int) -> Layer:
    if len(cells) != len(_COLUMNS):
        raise WorkloadError(
            f"expected {len(_COLUMNS)} cells, found {len(cells)}", path=path, line=line
        )
    name, forward, backward, gradient = (cell.strip() for cell in cells)
    try:
        gradient_bytes = parse_size_bytes(gradient)
    except QuantityError as error:
        raise WorkloadError(f"gradient_bytes: {error}", path=path, line=line) from None
    forward_s = _seconds(forward, "forward_s", path, line)
    backward_s = _seconds(backward, "backward_s", path, line)
    return Layer(name, forward_s, backward_s, gradient_bytes)


def _seconds(text: str, column: str, path: Path | None, line: int) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise WorkloadError(
            f"{column}: expected seconds, 0 or more, found {text!r}", path=path, line=line
        )
    return seconds
