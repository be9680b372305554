"""The network of a comparison, and the teams on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from innet.cluster.emulation.network import Network
from innet.errors import EmulationError
from innet.lab.compare.launchers import Launcher, make_launcher
from innet.lab.compare.methods import OWN, Method, by_contender
from innet.lab.compare.sampling import make_probe
from innet.lab.harness import EXIT_S, Conductor, Team
from innet.node.node_config import Mode
from innet.settings import Settings
from innet.telemetry.logs.output import OutputSink
from innet.topology import Topology

if TYPE_CHECKING:
    from innet.cluster.launch.session import Session

_ASSEMBLY_S = 90.0


class Stage:
    """A running network on which teams are started when they are needed; see :func:`open_stage`."""

    def __init__(
        self,
        network: Network,
        session: Session | None,
        conductor: Conductor,
        methods: Sequence[Method],
    ) -> None:
        self.probe = make_probe(network, session)
        self.versions: dict[str, str] = {}
        """What each contender says it is, once its team has been there."""
        self._network = network
        self._session = session
        self._conductor = conductor
        self._methods = by_contender(methods)
        self._teams: dict[str, tuple[Launcher, Team]] = {}

    async def team(self, contender: str) -> Team:
        """The contender's team, started if it is not there.

        Raises:
            EmulationError: it cannot be started.
        """
        if contender not in self._teams:
            methods = self._methods[contender]
            launcher = make_launcher(
                contender, methods, self._conductor.path, self._network, self._session
            )
            await launcher.start()
            self._teams[contender] = (launcher, await self._assemble(contender, launcher))
        team = self._teams[contender][1]
        self.versions[contender] = team.version
        return team

    async def drop(self, method: Method, error: EmulationError) -> str:
        """Do without a method that failed; other methods of its contender get a new team.

        Returns:
            Why it failed: the error, and what its workers said last where one of them ended.
        """
        self._methods[method.contender] = [
            other for other in self._methods[method.contender] if other != method
        ]
        report = None
        entry = self._teams.pop(method.contender, None)
        if entry is not None:
            launcher, team = entry
            team.dismiss()  # first: workers that are well then end, too
            report = await launcher.failure()
            await launcher.end()
        return str(error) if report is None else f"{error}: {report}"

    async def end(self, grace_s: float = EXIT_S) -> None:
        """Dismiss all teams."""
        while self._teams:
            _contender, (launcher, team) = self._teams.popitem()
            team.dismiss()
            await launcher.end(grace_s)

    async def _assemble(self, contender: str, launcher: Launcher) -> Team:
        ranks = len(self._network.topology.hosts)
        try:
            return await self._conductor.assemble(contender, ranks, _ASSEMBLY_S)
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
        conductor = await stack.enter_async_context(Conductor(network.run_dir / "turns.sock"))
        stage = Stage(network, session, conductor, methods)
        try:
            yield stage
        except BaseException:
            await stage.end(grace_s=0)
            raise
        await stage.end()
