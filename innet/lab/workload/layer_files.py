"""Reads files of layers: CSV, and ASTRA-sim's text workloads.

CSV has the header ``layer,forward_s,backward_s,gradient_bytes``.

ASTRA-sim's format is that of version 1.0, which its tools still write (README of the workload
layer, and the text converter's examples, https://github.com/astra-sim/astra-sim)::

    HYBRID_TRANSFORMER model_parallel_NPU_group: 4
    2
    attention -1 4946203 NONE 0 4946203 ALLREDUCE 69730304 4946203 ALLREDUCE 36227072 10
    mlp -1 19784812 ALLREDUCE 69730304 19784812 NONE 0 19784812 ALLREDUCE 144908288 10

The first line is the kind of parallelism, the second the number of layers. Each layer has a name, a
reserved number, and three times a compute time in cycles, a communication and its bytes: for the
forward pass, the gradient of the inputs and the gradient of the weights; then the cycles that an
update takes after the weights' communication. With ``HYBRID_CUSTOMIZED`` each layer ends with a
kind of parallelism of its own.

Communication of the forward pass and of input gradients is within a model-parallel group
(consecutive ranks), that of weight gradients between the groups (equal places in them); ``DATA`` is
one group for weights, ``MODEL`` one for the rest.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

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
    return tuple(_csv_layer(cells, path, number) for number, cells in rows[1:])


def _csv_layer(cells: list[str], path: Path | None, line: int) -> Layer:
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


COMMUNICATIONS: Final = ("NONE", "ALLREDUCE", "ALLGATHER", "REDUCESCATTER", "ALLTOALL")
_HYBRID: Final = ("HYBRID_TRANSFORMER", "HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA")
_CUSTOMIZED: Final = "HYBRID_CUSTOMIZED"
_KINDS: Final = ("DATA", "MODEL", *_HYBRID, _CUSTOMIZED)
_GROUP_KEY: Final = "model_parallel_NPU_group:"
_LAYER_WORDS: Final = 12


@dataclass(frozen=True)
class Phase:
    """Computing, and the communication of its result.

    Attributes:
        cycles: of computing.
        communication: one of :data:`COMMUNICATIONS`.
        size_bytes: of the larger of its two sides on each rank.
    """

    cycles: int
    communication: str
    size_bytes: int


@dataclass(frozen=True)
class AstraSimLayer:
    """A layer's three phases, and the cycles of an update of its weights.

    Attributes:
        parallelism: the layer's own, or that of the file.
    """

    name: str
    parallelism: str
    forward: Phase
    input_gradient: Phase
    weight_gradient: Phase
    update_cycles: int


@dataclass(frozen=True)
class AstraSimModel:
    """A whole file.

    Attributes:
        parallelism: the first word.
        model_parallel: ranks of a model-parallel group, if the file says so.
        layers: in the order of the forward pass.
    """

    parallelism: str
    model_parallel: int | None
    layers: tuple[AstraSimLayer, ...]

    @property
    def needs_groups(self) -> bool:
        """Whether a layer needs model-parallel groups."""
        return any(layer.parallelism in _HYBRID for layer in self.layers)


def parse_astra_sim(text: str, path: Path | None = None) -> AstraSimModel:
    """Read a text workload."""
    return _AstraSimReader(text, path).model()


class _AstraSimReader:
    def __init__(self, text: str, path: Path | None) -> None:
        self._path = path
        self._lines = [
            (number, line.split())
            for number, line in enumerate(text.splitlines(), 1)
            if line.split()
        ]

    def model(self) -> AstraSimModel:
        if len(self._lines) < 2:
            raise WorkloadError(
                "expected the kind of parallelism, the number of layers, and a line for each",
                path=self._path,
            )
        parallelism, model_parallel = self._header(*self._lines[0])
        line, words = self._lines[1]
        count = self._integer(words[0], "the number of layers", line)
        own = parallelism == _CUSTOMIZED
        layers = self._lines[2:]
        if count != len(layers) or not layers:
            raise self._error(f"{count} layers are announced, {len(layers)} follow", line)
        return AstraSimModel(
            parallelism,
            model_parallel,
            tuple(self._layer(*entry, None if own else parallelism) for entry in layers),
        )

    def _header(self, line: int, words: list[str]) -> tuple[str, int | None]:
        parallelism, *rest = words
        if parallelism not in _KINDS:
            raise self._error(
                f"the parallelism {parallelism!r} is not supported; expected {', '.join(_KINDS)}",
                line,
            )
        if _GROUP_KEY in rest[:-1]:
            word = rest[rest.index(_GROUP_KEY) + 1]
            return parallelism, self._integer(word, _GROUP_KEY.rstrip(":"), line, least=1)
        return parallelism, None

    def _layer(self, line: int, words: list[str], parallelism: str | None) -> AstraSimLayer:
        expected = _LAYER_WORDS + (parallelism is None)
        if len(words) != expected:
            raise self._error(f"expected {expected} words for a layer, found {len(words)}", line)
        parallelism = parallelism or words[-1]
        if parallelism not in _KINDS:
            raise self._error(f"expected the layer's parallelism, found {parallelism!r}", line)
        forward, inputs, weights = (self._phase(words[i : i + 3], line) for i in (2, 5, 8))
        update = self._integer(words[11], "the update time", line)
        return AstraSimLayer(words[0], parallelism, forward, inputs, weights, update)

    def _phase(self, words: list[str], line: int) -> Phase:
        cycles, communication, size = words
        if communication not in COMMUNICATIONS:
            raise self._error(
                f"the communication {communication!r} is not supported; "
                f"expected {', '.join(COMMUNICATIONS)}",
                line,
            )
        size_bytes = self._integer(size, "a size in bytes", line)
        if communication == "NONE" or size_bytes == 0:
            communication, size_bytes = "NONE", 0
        return Phase(self._integer(cycles, "a time in cycles", line), communication, size_bytes)

    def _integer(self, word: str, what: str, line: int, least: int = 0) -> int:
        if not word.isascii() or not word.isdigit() or len(word) > 15 or int(word) < least:
            raise self._error(f"expected {what} of {least} or more, found {word!r}", line)
        return int(word)

    def _error(self, message: str, line: int) -> WorkloadError:
        return WorkloadError(message, path=self._path, line=line)
