"""The network of a comparison, and the crews on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from innet.cluster.emulation.network import Network
from innet.errors import EmulationError
from innet.lab.compare.crew import Crew, Roster
from innet.lab.compare.launchers import EXIT_S, Launcher, make_launcher
from innet.lab.compare.methods import OWN, Method, by_contender
from innet.lab.compare.sampling import KernelProbe, PortProbe, Probe
from innet.node.node_config import Mode
from innet.settings import Settings
from innet.telemetry.logs.output import OutputSink
from innet.topology import Topology

if TYPE_CHECKING:
    from innet.cluster.launch.session import Session

_ASSEMBLY_S = 90.0


class Stage:
    """A running network on which crews are started when they are needed; see :func:`open_stage`."""

    def __init__(
        self, network: Network, session: Session | None, roster: Roster, methods: Sequence[Method]
    ) -> None:
        self.probe: Probe = (
            PortProbe(session)
            if session is not None and network.mode == "local"
            else KernelProbe(network, session)
        )
        self.versions: dict[str, str] = {}
        """What each contender says it is, once its crew has been there."""
        self._network = network
        self._session = session
        self._roster = roster
        self._methods = by_contender(methods)
        self._crews: dict[str, tuple[Launcher, Crew]] = {}

    async def crew(self, contender: str) -> Crew:
        """The contender's crew, started if it is not there.

        Raises:
            EmulationError: it cannot be started.
        """
        if contender not in self._crews:
            methods = self._methods[contender]
            launcher = make_launcher(
                contender, methods, self._roster.path, self._network, self._session
            )
            await launcher.start()
            self._crews[contender] = (launcher, await self._assemble(contender, launcher))
        crew = self._crews[contender][1]
        self.versions[contender] = crew.version
        return crew

    async def drop(self, method: Method, error: EmulationError) -> str:
        """Do without a method that failed; other methods of its contender get a new crew.

        Returns:
            Why it failed: the error, and what its workers said last where one of them ended.
        """
        self._methods[method.contender] = [
            other for other in self._methods[method.contender] if other != method
        ]
        report = None
        entry = self._crews.pop(method.contender, None)
        if entry is not None:
            launcher, crew = entry
            crew.dismiss()  # first: workers that are well then end, too
            report = await launcher.failure()
            await launcher.end()
        return str(error) if report is None else f"{error}: {report}"

    async def end(self, grace_s: float = EXIT_S) -> None:
        """Dismiss all crews."""
        while self._crews:
            _contender, (launcher, crew) = self._crews.popitem()
            crew.dismiss()
            await launcher.end(grace_s)

    async def _assemble(self, contender: str, launcher: Launcher) -> Crew:
        ranks = len(self._network.topology.hosts)
        try:
            return await self._roster.assemble(contender, ranks, _ASSEMBLY_S)
        except EmulationError as error:
            report = await launcher.failure()
            await launcher.end()
            raise EmulationError(str(error) if report is None else f"{error}: {report}") from None
        except BaseException:  # the comparison was cancelled: nobody waits for workers then
            await launcher.end(grace_s=0)
            raise


@asynccontextmanager
async def open_stage(
    topology: Topology,
    mode: Mode,
    methods: Sequence[Method],
    settings: Settings,
    output: OutputSink | None,
) -> AsyncIterator[Stage]:
    """Launch the network: with innet's switches if any of innet's own methods takes part.

    Raises:
        EmulationError: it cannot be launched.
    """
    async with AsyncExitStack() as stack:
        session = None
        if any(method.contender == OWN for method in methods):
            from innet.cluster.launch.session import Session  # baselines alone need no engine

            session = await stack.enter_async_context(
                Session(topology, mode=mode, settings=settings, output=output)
            )
            network = session.network
        else:
            network = await stack.enter_async_context(Network(topology, mode, output=output))
        roster = await stack.enter_async_context(Roster(network.run_dir / "turns.sock"))
        stage = Stage(network, session, roster, methods)
        try:
            yield stage
        except BaseException:
            await stage.end(grace_s=0)
            raise
        await stage.end()
