"""YAML as plain Python values that still know their lines.

The text is only composed, never constructed: tags cannot create objects, and every scalar becomes
``None``, ``bool``, ``int``, ``float`` or ``str`` by the rules of YAML 1.2. Keys stay text, so that
a node may be called ``on`` or ``1``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from innet.errors import FileError, TopologyError

MAX_DEPTH: Final = 32
MAX_VALUES: Final = 250_000
"""Bounds on what aliases can unfold to."""

_CORE_TAG: Final = "tag:yaml.org,2002:"
_SCALARS: Final = {"null", "bool", "int", "float", "str", "timestamp", "merge", "value"}
_SPECIAL_FLOATS: Final = {".inf": "inf", "+.inf": "inf", "-.inf": "-inf", ".nan": "nan"}

PathStep = str | int
"""A key of a mapping, or an index of a list."""


@dataclass(frozen=True)
class LocatedDocument:
    """A parsed YAML text.

    Attributes:
        data: nested dicts, lists and scalars.
        path: the file it came from, or ``None``.
        lines: 1-based line of each key or list entry by its path from the top.
        failure: the kind of :meth:`error`.
    """

    data: Any
    path: Path | None
    lines: dict[tuple[PathStep, ...], int] = field(repr=False)
    failure: type[FileError] = TopologyError

    def line_of(self, steps: Sequence[PathStep]) -> int | None:
        """Line of the value at ``steps``, or of what surrounds it when it is missing."""
        for end in range(len(steps), -1, -1):
            if (line := self.lines.get(tuple(steps[:end]))) is not None:
                return line
        return None

    def error(self, message: str, *steps: PathStep) -> FileError:
        """An error that points at the value at ``steps``."""
        return self.failure(message, path=self.path, line=self.line_of(steps))


def parse_located(
    text: str, path: Path | None = None, failure: type[FileError] = TopologyError
) -> LocatedDocument:
    """Parse one YAML document.

    Raises:
        FileError: of the kind ``failure``: a syntax error, a duplicate key, a tag, or endless
            nesting; with its line.
    """
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = f"not valid YAML: {_sentence(error)}"
        raise failure(message, path=path, line=mark.line + 1 if mark else None) from None
    except (YAMLError, ValueError, OverflowError, RecursionError) as error:
        first_line = str(error).partition("\n")[0]
        raise failure(f"not valid YAML: {first_line}", path=path) from None
    if root is None:
        raise failure("the file is empty", path=path)
    return _Converter(path, failure).document(root)


def _sentence(error: MarkedYAMLError) -> str:
    return ", ".join(part for part in (error.problem, error.context) if part) or "syntax error"


class _Converter:
    def __init__(self, path: Path | None, failure: type[FileError]) -> None:
        self._path = path
        self._failure = failure
        self._lines: dict[tuple[PathStep, ...], int] = {}
        self._values = 0

    def document(self, root: Node) -> LocatedDocument:
        self._lines[()] = _line(root)
        return LocatedDocument(self._value(root, ()), self._path, self._lines, self._failure)

    def _value(self, node: Node, steps: tuple[PathStep, ...]) -> Any:
        self._values += 1
        if len(steps) > MAX_DEPTH or self._values > MAX_VALUES:
            raise self._error(
                f"nested too deeply, or more than {MAX_VALUES} values once aliases unfold", node
            )
        if isinstance(node, MappingNode):
            self._check_tag(node, {"map"})
            return self._mapping(node, steps)
        if isinstance(node, SequenceNode):
            self._check_tag(node, {"seq"})
            return self._sequence(node, steps)
        self._check_tag(node, _SCALARS)
        return _scalar(node)

    def _mapping(self, node: MappingNode, steps: tuple[PathStep, ...]) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                raise self._error("expected a plain key, found a collection as a key", key_node)
            key = key_node.value
            if key in mapping:
                raise self._error(f"duplicate key {key!r}; expected each key once", key_node)
            self._lines[(*steps, key)] = _line(key_node)
            mapping[key] = self._value(value_node, (*steps, key))
        return mapping

    def _sequence(self, node: SequenceNode, steps: tuple[PathStep, ...]) -> list[Any]:
        items: list[Any] = []
        for index, item in enumerate(node.value):
            self._lines[(*steps, index)] = _line(item)
            items.append(self._value(item, (*steps, index)))
        return items

    def _check_tag(self, node: Node, allowed: set[str]) -> None:
        tag = str(node.tag)
        if tag.removeprefix(_CORE_TAG) not in allowed or not tag.startswith(_CORE_TAG):
            raise self._error(f"the tag {tag!r} has no meaning here; expected plain values", node)

    def _error(self, message: str, node: Node) -> FileError:
        return self._failure(message, path=self._path, line=_line(node))


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _scalar(node: Node) -> bool | int | float | str | None:
    text: str = node.value
    kind = str(node.tag).removeprefix(_CORE_TAG)
    try:
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() == "true"
        if kind == "int":
            return _integer(text.replace("_", ""))
        if kind == "float":
            return float(_SPECIAL_FLOATS.get(text.lower(), text.replace("_", "")))
    except ValueError:
        return text  # forced by a tag, or of thousands of digits: let the schema refuse it
    return text


def _integer(text: str) -> int:
    return int(text, 0) if text.lstrip("+-")[:2].lower() in ("0x", "0o", "0b") else int(text)
