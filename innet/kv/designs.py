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
    NETWORK: "homes get what is asked for, with caches on the way",
    HOME: "every block from its home",
    LOCAL: "every worker for itself",
}
"""The designs by their names, with titles for people."""


_POLICY_OPTION: Final = "policy="

_USUAL_SHARES: Final = {NETWORK: (0.7, 0.02), HOME: (0.05, 0.0)}
"""Of workers and switches (docs/kv-replay.md). With ``network``, worker and home of a host share
one store unless a worker's share is given."""

_USUAL_POLICIES: Final[dict[str, PolicyName]] = {NETWORK: "second-use"}


@dataclass(frozen=True)
class Design:
    """A design, as it is written: ``network``, or ``network:policy=s3fifo``.

    Attributes:
        name: one of :data:`DESIGNS`.
        policy: what workers and homes drop first; ``None``: what the job says, or else
            :attr:`usual_policy`.
    """

    name: str
    policy: PolicyName | None = None

    @property
    def usual_policy(self) -> PolicyName:
        """The policy with the most hits over traces of different reuse (docs/kv-replay.md)."""
        return _USUAL_POLICIES.get(self.name, "lru")

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
    def of_design(
        cls, design: str, workers: float | None = None, switches: float | None = None
    ) -> MemoryShares:
        """The shares in ``design``; those that are not given are what suits it best.

        With ``network``, what nobody else asks for is at its producer alone, so most memory
        is the workers'; with ``home`` all blocks are at homes.

        Raises:
            KVError: they are more than all.

        >>> MemoryShares.of_design("home", switches=0.25)
        MemoryShares(workers=0.05, switches=0.0, homes=0.95)
        """
        if design == LOCAL:
            return cls(1.0, 0.0, 0.0)
        usual_workers, usual_switches = _USUAL_SHARES[design]
        workers = usual_workers if workers is None else workers
        if design == HOME:
            switches = 0.0
        switches = usual_switches if switches is None else switches
        if workers + switches > 1:
            raise KVError(
                f"{workers:g} of the memory for workers and {switches:g} for switches are more "
                "than all of it"
            )
        return cls(workers, switches, 1.0 - workers - switches)
