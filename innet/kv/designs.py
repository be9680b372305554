"""Where a cluster can keep its blocks: the designs that a replay compares, with the same memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from innet.errors import KVError
from innet.kv.eviction import POLICIES, PolicyName

NETWORK: Final = "network"
HOME: Final = "home"
LOCAL: Final = "local"

DESIGNS: Final = {
    NETWORK: "homes, and caches on the way",
    HOME: "every block from its home",
    LOCAL: "every worker for itself",
}
"""The designs by their names, with titles for people."""


_POLICY_OPTION: Final = "policy="


@dataclass(frozen=True)
class Design:
    """A design, as it is written: ``network``, or ``network:policy=s3fifo``.

    Attributes:
        name: one of :data:`DESIGNS`.
        policy: what workers and homes drop first; ``None``: what the job says.
    """

    name: str
    policy: PolicyName | None = None

    @classmethod
    def parse(cls, text: str) -> Design:
        """The design that ``text`` stands for.

        Raises:
            KVError: there is no such design or policy.

        >>> Design.parse("home:policy=lfu")
        Design(name='home', policy='lfu')
        """
        name, colon, option = text.partition(":")
        if name not in DESIGNS:
            raise KVError(f"there is no design {name!r}; designs: {', '.join(DESIGNS)}")
        if not colon:
            return cls(name)
        policy = option.removeprefix(_POLICY_OPTION)
        if not option.startswith(_POLICY_OPTION) or policy not in POLICIES:
            raise KVError(
                f"{text}: a design has the option policy, which is one of {', '.join(POLICIES)}"
            )
        return cls(name, policy)


@dataclass(frozen=True)
class MemoryShares:
    """How the memory of a cluster is divided: parts of all of it, 1 together.

    Attributes:
        workers: for what each worker itself uses.
        switches: for the caches on the way.
        homes: for blocks that others ask for.
    """

    workers: float
    switches: float
    homes: float

    @classmethod
    def of_design(cls, design: str, workers: float, switches: float) -> MemoryShares:
        """The shares in ``design``, where workers and switches would have these in ``network``.

        >>> MemoryShares.of_design("home", workers=0.25, switches=0.25)
        MemoryShares(workers=0.25, switches=0.0, homes=0.75)
        """
        if design == LOCAL:
            return cls(1.0, 0.0, 0.0)
        on_path = switches if design == NETWORK else 0.0
        return cls(workers, on_path, 1.0 - workers - on_path)
