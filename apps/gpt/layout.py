"""The value of ``--parallel``: how kinds of parallelism divide the ranks."""

from __future__ import annotations

import math
from dataclasses import dataclass

KINDS = {
    "pp": "pipeline: consecutive layers on each rank",
    "ddp": "data parallel: copies, gradients averaged (DistributedDataParallel)",
    "fsdp": "fully sharded data parallel: parameters gathered when needed (FSDP2)",
    "cp": "context parallel: each rank has a part of the context (ring attention)",
    "ep": "expert parallel: each rank has some of the experts",
    "tp": "tensor parallel: each rank has a part of each layer",
}
"""The kinds of parallelism in the order of the mesh's dimensions, the outermost first."""

_TOGETHER = (
    frozenset({"pp", "ddp", "fsdp", "tp"}),
    frozenset({"ddp", "ep"}),
    frozenset({"ddp", "cp"}),
    frozenset({"fsdp", "cp"}),
)
_EXAMPLES = "ddp, hsdp, fsdp:2,tp:4 or pp:4,ddp:2"


class LayoutError(ValueError):
    """``--parallel`` cannot be followed; the message says what can."""


@dataclass(frozen=True)
class Layout:
    """Ranks of each kind of parallelism; their product is the number of ranks.

    Attributes:
        sizes: by kind, in the order of :data:`KINDS`; kinds that are not used are left out.
    """

    sizes: dict[str, int]

    @classmethod
    def parse(cls, text: str, ranks: int) -> Layout:
        """Read such things as ``fsdp`` (all ranks), ``fsdp:2,tp:4`` or ``hsdp`` (2 x the rest).

        Raises:
            LayoutError: a kind is unknown or named twice, the sizes do not multiply to the number
                of ranks, or the kinds cannot be combined.
        """
        if text == "hsdp":
            if ranks < 4 or ranks % 2:
                raise LayoutError(f"hsdp makes 2 copies of at least 2 shards; not of {ranks} ranks")
            text = f"ddp:2,fsdp:{ranks // 2}"
        parts = text.split(",")
        sizes: dict[str, int] = {}
        for part in parts:
            kind, colon, size = part.strip().partition(":")
            if kind not in KINDS:
                raise LayoutError(
                    f"there is no parallelism {kind!r}. Write such as {_EXAMPLES}, with: "
                    + ", ".join(KINDS)
                )
            if kind in sizes:
                raise LayoutError(f"{text!r} names {kind} twice")
            if colon and not (size.isdecimal() and int(size) > 0):
                raise LayoutError(
                    f"{part!r}: behind the colon stands a number of ranks, as in tp:4"
                )
            if not colon and len(parts) > 1:
                raise LayoutError(f"{text!r}: say how many ranks are for {kind}, as in {kind}:2")
            sizes[kind] = int(size) if colon else ranks
        return cls._checked(sizes, text, ranks)

    @classmethod
    def _checked(cls, sizes: dict[str, int], text: str, ranks: int) -> Layout:
        product = math.prod(sizes.values())
        if product != ranks:
            factors = " x ".join(str(size) for size in sizes.values())
            raise LayoutError(
                f"{text!r} is for {factors} = {product} ranks, and there are {ranks}. Choose sizes "
                f"whose product is {ranks}, or run on {product} hosts (innet run --hosts)"
            )
        if not any(sizes.keys() <= kinds for kinds in _TOGETHER):
            offered = "; ".join(
                ", ".join(kind for kind in KINDS if kind in kinds) for kinds in _TOGETHER
            )
            raise LayoutError(f"{text!r} is not offered. What can be combined: {offered}")
        return cls({kind: sizes[kind] for kind in KINDS if kind in sizes})

    def of(self, kind: str) -> int:
        """Ranks of a kind, 1 when it is not used."""
        return self.sizes.get(kind, 1)

    @property
    def batch_parts(self) -> int:
        """Parts into which a batch is cut."""
        return self.of("ddp") * self.of("fsdp") * self.of("ep")

    def __str__(self) -> str:
        return ",".join(f"{kind}:{size}" for kind, size in self.sizes.items())
