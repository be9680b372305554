"""Links between machines: at which of a machine's addresses they are."""

from __future__ import annotations

import pytest

from innet.cluster.emulation.machine_fabric import MachineFabric
from innet.errors import EmulationError
from innet.topology import parse_yaml


async def test_a_machine_needs_an_address_in_the_subnet_of_its_link():
    text = "name: n\ntopology: {generate: {kind: rails, hosts: 2, rails: 1, subnets: [%s]}}"
    here = MachineFabric(parse_yaml(text % "127.0.0.0/8"), "h0", "127.0.0.1")
    try:
        assert [name for name, _port in here.sockets.values()] == ["127.0.0.1"]
    finally:
        await here.close()
    with pytest.raises(EmulationError, match=r"h0 has no address in 203\.0\.113\.0/24, the subnet"):
        MachineFabric(parse_yaml(text % "203.0.113.0/24"), "h0", "127.0.0.1")
