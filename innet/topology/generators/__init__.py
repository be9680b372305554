"""Regular networks from a few numbers: one file for each family.

A generator is at once the ``generate:`` section of a topology file and the meaning of an expression
such as ``leaf-spine:4x2x4``.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import Field, ValidationError

from innet.errors import TopologyError
from innet.suggestions import did_you_mean
from innet.topology.generators.base import GeneratorBase
from innet.topology.generators.dumbbell import Dumbbell
from innet.topology.generators.fat_tree import FatTree
from innet.topology.generators.leaf_spine import LeafSpine
from innet.topology.generators.star import Star
from innet.topology.generators.wan import Wan
from innet.topology.model import Topology
from innet.validation_messages import first_message

__all__ = ["Generator", "GeneratorBase", "expression_forms", "from_expression", "is_expression"]

Generator = Annotated[Star | LeafSpine | FatTree | Dumbbell | Wan, Field(discriminator="kind")]

_BY_KIND: Final[dict[str, type[GeneratorBase]]] = {
    "star": Star,
    "leaf-spine": LeafSpine,
    "fat-tree": FatTree,
    "dumbbell": Dumbbell,
    "wan": Wan,
}


def is_expression(text: str) -> bool:
    """Whether a text has the form of a generator expression, known or not: ``word:number…``."""
    return re.fullmatch(r"[A-Za-z][A-Za-z-]*:[0-9x]*", text) is not None


def expression_forms() -> tuple[str, ...]:
    """Every expression that is understood: ``("star:HOSTS", "leaf-spine:LEAVESxSPINESx…", …)``."""
    return tuple(_form(kind) for kind in _BY_KIND)


def from_expression(text: str) -> Topology:
    """Build a network from an expression such as ``leaf-spine:4x2x4``.

    The numbers stand in the order of :meth:`GeneratorBase.numbers`; those with a default may be
    left out at the end. The topology is called after the expression, ``leaf-spine-4x2x4``.

    Raises:
        TopologyError: an unknown kind, too few or too many numbers, or one out of range.
    """
    kind, _, numbers_text = text.partition(":")
    generator = _BY_KIND.get(kind)
    if generator is None:
        hint = did_you_mean(kind, _BY_KIND) or f"; expected one of {', '.join(_BY_KIND)}"
        raise TopologyError(f"unknown generator {kind!r}{hint}")
    texts = numbers_text.split("x")
    names = generator.numbers()
    if len(texts) > len(names) or not all(re.fullmatch("[0-9]{1,10}", text) for text in texts):
        raise TopologyError(f"expected {_form(kind)}, found {text!r}")
    keys = (name.replace("_", "-") for name in names)
    values = dict(zip(keys, map(int, texts), strict=False))
    try:
        built = generator.model_validate({"kind": kind, **values})
    except ValidationError as error:
        raise TopologyError(f"{text}: {first_message(error)}; expected {_form(kind)}") from None
    return built.topology(f"{kind}-{numbers_text}"[:32])


def _form(kind: str) -> str:
    """``wan:SITES[xHOSTS-PER-SITE][xSEED]``."""
    form = kind + ":"
    for position, name in enumerate(_BY_KIND[kind].numbers()):
        number = ("x" if position else "") + name.replace("_", "-").upper()
        required = _BY_KIND[kind].model_fields[name].is_required()
        form += number if required else f"[{number}]"
    return form
