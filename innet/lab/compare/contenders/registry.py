"""The contenders by name. Their libraries are imported only by the workers that need them."""

from __future__ import annotations

from collections.abc import Sequence

from innet.errors import CollectiveError
from innet.lab.compare.contenders.contender import Contender


def join(name: str, calls: Sequence[str]) -> Contender:
    """Join the group of contender ``name`` as the rank that the environment says.

    Args:
        name: ``innet``, ``gloo`` or ``openmpi``.
        calls: the algorithms that will be asked for.

    Raises:
        CollectiveError: there is no such contender, or it cannot start here.
    """
    if name == "innet":
        from innet.lab.compare.contenders.own import OwnContender

        return OwnContender(calls)
    if name == "gloo":
        from innet.lab.compare.contenders.gloo import GlooContender

        return GlooContender.from_environment()
    if name == "openmpi":
        from innet.lab.compare.contenders.openmpi import OpenMpiContender

        return OpenMpiContender()
    raise CollectiveError(f"no contender {name!r}; known are innet, gloo, openmpi")
