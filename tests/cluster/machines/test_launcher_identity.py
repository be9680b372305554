"""A launcher that is started again: what it keeps, and for whom."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from innet.cluster.machines.admission import LAUNCHER_ENDED
from innet.cluster.machines.connection import LauncherConnection
from innet.cluster.machines.launcher_identity import (
    LauncherIdentity,
    forget_launcher,
    identity_path,
)
from innet.cluster.machines.listener import MachineListener
from innet.errors import JoinRefused, SecurityError
from innet.private_files import write_private

from .cluster import LOOPBACK, PATIENT, folder

MACHINES = ["h1", "h2"]


class Launcher:
    """A launcher of the network ``prod`` with a token file, which is started again and again."""

    def __init__(self, tmp_path: Path, machines: list[str] = MACHINES) -> None:
        self.token = tmp_path / "token"
        self.run_dir = folder(tmp_path, "run")
        self.machines = machines
        self.copy = folder(tmp_path, "elsewhere") / "token"

    def started(self) -> MachineListener:
        """The next launcher."""
        identity = LauncherIdentity.kept(self.token, "prod", self.machines)
        listener = MachineListener(LOOPBACK, identity, self.run_dir, heartbeats=PATIENT)
        listener.on_bound(lambda changed: changed.save(self.token))
        return listener

    def joining(self, listener: MachineListener, token: Path) -> LauncherConnection:
        return LauncherConnection(
            token, listener.address, machine="h1", patience_s=60, say=lambda _: None
        )


async def test_machines_join_the_next_launcher_with_the_same_token_and_key(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path)
    async with AsyncExitStack() as stack:
        async with launcher.started() as first:
            token = first.token_file()
            token.save(launcher.token)
            token.save(launcher.copy)
            h1 = await stack.enter_async_context(launcher.joining(first, launcher.token))
            first.ends_for_good = False
        assert await h1.ended() == LAUNCHER_ENDED, "so that its agent tries to join again"
    async with launcher.started() as second:
        assert second.token_file() == token, "also the port"
        with pytest.raises(JoinRefused, match="with another key") as refused:
            await launcher.joining(second, launcher.copy).__aenter__()
        assert refused.value.reason == "other-key"
        async with launcher.joining(second, launcher.token) as h1:
            assert h1.machine == "h1"


def test_the_file_is_its_owner_s_alone_and_shows_no_secret_in_messages(tmp_path: Path) -> None:
    token = tmp_path / "token"
    identity = LauncherIdentity.kept(token, "prod", MACHINES)
    identity.save(token)
    assert identity_path(token).stat().st_mode & 0o777 == 0o600
    assert identity.machines["h1"].secret not in repr(identity)
    assert identity.pair.secret_key not in repr(identity)
    identity_path(token).chmod(0o640)
    with pytest.raises(SecurityError, match="chmod 600"):
        LauncherIdentity.kept(token, "prod", MACHINES)
    write_private(identity_path(token), "a letter")
    with pytest.raises(SecurityError, match=r"does not hold .*each machine needs the new token"):
        LauncherIdentity.kept(token, "prod", MACHINES)


def test_another_topology_keeps_the_machines_that_it_still_has(tmp_path: Path) -> None:
    token = tmp_path / "token"
    before = LauncherIdentity.kept(token, "prod", MACHINES)
    before.save(token)
    after = LauncherIdentity.kept(token, "prod", ["h2", "h3"])
    assert after.pair == before.pair
    assert after.machines["h2"] == before.machines["h2"]
    assert set(after.machines) == {"h2", "h3"}


def test_another_network_and_one_that_was_taken_down_have_new_keys(tmp_path: Path) -> None:
    token = tmp_path / "token"
    before = LauncherIdentity.kept(token, "prod", MACHINES)
    before.save(token)
    before.token_file(["10.0.0.1:1"]).save(token)
    assert LauncherIdentity.kept(token, "lab", MACHINES).pair != before.pair
    forget_launcher(token, "lab")
    assert LauncherIdentity.kept(token, "prod", MACHINES) == before
    forget_launcher(token, "prod")
    assert list(tmp_path.iterdir()) == []
    assert LauncherIdentity.kept(token, "prod", MACHINES).pair != before.pair
