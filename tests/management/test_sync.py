"""A sync group over a real node: its members hear each other through multicast."""

from contextlib import AsyncExitStack

from innet.ndn import Client
from innet.ndn.sync import StateVector, SyncGroup, SyncTiming


async def test_members_at_one_node_receive_each_others_publications(running):
    timing = SyncTiming(period_s=3600.0, suppression_s=0.01)
    async with AsyncExitStack() as stack:
        groups = []
        for name in ("alice", "bob", "carol"):
            client = await stack.enter_async_context(Client(running.uri))
            group = SyncGroup(client, "/room", f"/{name}", timing=timing)
            groups.append(await stack.enter_async_context(group))
        for number, group in enumerate(groups):
            group.publish(f"from {number}".encode())
        everything = StateVector({group.member: 1 for group in groups})
        for group in groups:
            contents = set()
            async for update in group.updates():
                contents |= {data.content for data in await group.fetch(update)}
                if len(contents) == 2:
                    break
            expected = {f"from {n}".encode() for n, g in enumerate(groups) if g is not group}
            assert contents == expected
            assert group.vector == everything
