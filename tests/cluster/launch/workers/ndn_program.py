"""Nothing but an NDN program: it finds the forwarder of its host by itself."""

import asyncio
import os

from innet.errors import InterestRefused
from innet.ndn import Client


async def main() -> None:
    """Ask for what nobody has, of the node of this host."""
    assert os.environ["NDN_CLIENT_TRANSPORT"] == os.environ["INNET_NDN"]
    async with Client() as client:
        try:
            await client.express("/nobody/has/this", deadline_s=20)
        except InterestRefused:
            print("refused by the node of", os.environ["INNET_NODE"])


asyncio.run(main())
