"""Links that are cut, or get another rate, delay or loss, while their network runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from innet.cluster.emulation.network import Network
from innet.cluster.requests import RequestClient
from innet.cluster.session_client import LinkRequest
from innet.errors import EmulationError, InnetError, NoAnswer
from innet.node.node_config import LinkShape
from innet.quantities import format_duration
from innet.topology import Link
from innet.topology.settings import LinkSettings, written_link_settings

_CHANGEABLE = frozenset(("rate_bps", "delay_s", "loss"))
_NODE_TIMEOUT_S = 5.0


class LinkChanges:
    """Changes links of a network, and lets them be as in the topology again when their time is up.

    Only the latest change of a link holds. The plans of running jobs stay as they are.
    """

    def __init__(self, network: Network, say: Callable[[str], object]) -> None:
        """``say`` takes a line about each change."""
        self._network = network
        self._say = say
        self._lock = asyncio.Lock()
        self._endings: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def change(self, request: LinkRequest) -> str:
        """Change a link; what it is now.

        Raises:
            TopologyError: there is no such link.
            EmulationError: the link cannot be changed so.
        """
        link = self._link(request.ends)
        changed = _changed(link, request)
        async with self._lock:
            if (ending := self._endings.pop(link.nodes, None)) is not None:
                ending.cancel()
            unheard = await self._apply(changed, is_up=request.is_up)
        text = _description(link, changed, request)
        self._say(text)
        if request.lasts_s is not None:
            self._endings[link.nodes] = asyncio.create_task(self._end(link, request.lasts_s))
        return "".join((text, *(f". {why}" for why in unheard)))

    async def close(self) -> None:
        """Forget the changes that have not ended."""
        for ending in self._endings.values():
            ending.cancel()
        await asyncio.gather(*self._endings.values(), return_exceptions=True)

    def _link(self, ends: tuple[str, str]) -> Link:
        link = self._network.topology.link_between(*ends)
        if link.in_memory:
            raise EmulationError(
                f"{ends[0]} and {ends[1]} are joined by the memory of their host, which cannot be "
                "cut or slowed down. Name a link between two machines"
            )
        return link

    async def _end(self, link: Link, after_s: float) -> None:
        await asyncio.sleep(after_s)
        async with self._lock:
            self._endings.pop(link.nodes, None)
            try:
                unheard = await self._apply(link, is_up=True)
            except InnetError as error:
                unheard = [str(error)]
        self._say("".join((_restored(link), *(f". {why}" for why in unheard))))

    async def _apply(self, link: Link, *, is_up: bool) -> list[str]:
        """Change the link for all; which nodes do not know it, for people."""
        shape = await self._network.change_link(link, is_up=is_up)
        (a, b) = link.nodes
        results = await asyncio.gather(self._inform(a, b, shape), self._inform(b, a, shape))
        return [result for result in results if result]

    async def _inform(self, node: str, peer: str, shape: LinkShape) -> str:
        """Let a node's process change its end; why it does not.

        One that is not there, or still starts, finds the link in its configuration.
        """
        path = self._network.config(node).control_socket
        client = RequestClient(path, who=node, is_patient=False)
        try:
            params = {"peer": peer, "shape": shape.model_dump()}
            await client.request("shape_link", params, _NODE_TIMEOUT_S)
        except NoAnswer as error:
            is_there = path.exists() and not client.is_refused and not error.has_ended
            return f"What {node} sends on it is as before: {error}" if is_there else ""
        finally:
            client.close()
        return ""


def _changed(link: Link, request: LinkRequest) -> Link:
    settings = LinkSettings.model_validate(request.settings).for_model()
    if unknown := sorted(settings.keys() - _CHANGEABLE):
        raise EmulationError(
            f"{', '.join(unknown)} of a link is fixed when its network is launched. Change its "
            "rate, delay or loss, or launch the network again"
        )
    return Link(**(dict(link) | settings))


def _name(link: Link) -> str:
    return "--".join(link.nodes)


def _restored(link: Link) -> str:
    return f"link {_name(link)} is as in the topology"


def _description(link: Link, changed: Link, request: LinkRequest) -> str:
    if request.is_up and changed == link:
        return _restored(link)
    if not request.is_up:
        what = "is down"
    else:
        differing = {
            field: getattr(changed, field)
            for field in sorted(_CHANGEABLE)
            if getattr(changed, field) != getattr(link, field)
        }
        written = written_link_settings(differing)
        what = "has " + ", ".join(f"{name} {value}" for name, value in written.items())
    ends = " ".join(link.nodes)
    until = (
        f"until `innet link up {ends}`"
        if request.lasts_s is None
        else f"for {format_duration(request.lasts_s)}"
    )
    return f"link {_name(link)} {what} {until}"
