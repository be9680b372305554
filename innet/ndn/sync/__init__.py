"""State Vector Sync, version 3: a group learns what its members have published, without polling.

::

    async with Client() as client, SyncGroup(client, "/chat/room", "/alice") as group:
        group.publish(b"hello")
        async for update in group.updates():
            for data in await group.fetch(update):
                print(update.member.node, data.content)

Source: State Vector Sync specification, version 3 (named-data.github.io/StateVectorSync).
"""

from innet.ndn.sync.group import SyncGroup
from innet.ndn.sync.protocol import Heard, SyncLimits, SyncProtocol, SyncTiming, Update
from innet.ndn.sync.state_vector import Member, StateVector

__all__ = [
    "Heard",
    "Member",
    "StateVector",
    "SyncGroup",
    "SyncLimits",
    "SyncProtocol",
    "SyncTiming",
    "Update",
]
