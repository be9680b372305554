"""Addresses of launchers: what is read, what is refused, and where machines reach a launcher."""

from __future__ import annotations

import pytest

from innet.cluster.machines.addresses import Address, reachable_addresses
from innet.errors import EmulationError


@pytest.mark.parametrize(
    ("text", "host", "port", "shown", "endpoint"),
    [
        ("10.0.0.1", "10.0.0.1", 9, "10.0.0.1:9", "tcp://10.0.0.1:9"),
        ("10.0.0.1:4711", "10.0.0.1", 4711, "10.0.0.1:4711", "tcp://10.0.0.1:4711"),
        ("10.0.0.1:0", "10.0.0.1", 0, "10.0.0.1:0", "tcp://10.0.0.1:*"),
        ("::1", "::1", 9, "[::1]:9", "tcp://[::1]:9"),
        ("[2001:db8::1]:4711", "2001:db8::1", 4711, "[2001:db8::1]:4711", None),
        ("[::1]", "::1", 9, "[::1]:9", None),
        ("fe80::1%eth0", "fe80::1%eth0", 9, "[fe80::1%eth0]:9", "tcp://[fe80::1%eth0]:9"),
        ("head.example.org:4711", "head.example.org", 4711, "head.example.org:4711", None),
        ("localhost", "localhost", 9, "localhost:9", None),
        ("*:4711", "::", 4711, "[::]:4711", "tcp://[::]:4711"),
    ],
)
def test_an_address_is_parsed(text: str, host: str, port: int, shown: str, endpoint: str) -> None:
    address = Address.parsed(text, default_port=9)
    assert address == Address(host, port)
    assert str(address) == shown
    assert endpoint is None or address.endpoint == endpoint


@pytest.mark.parametrize("text", ["", "a b", "10.0.0.1;x", "[::1", "[::1]x", "-h:1", "::1::2"])
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(EmulationError, match=r"invalid address .* expected HOST\[:PORT\]"):
        Address.parsed(text)


@pytest.mark.parametrize("port", ["x", "70000", "-1", "1.5", "٣", "//x"])
def test_an_invalid_port_is_refused(port: str) -> None:
    with pytest.raises(EmulationError, match=r"invalid port .* a number from 0 to 65535"):
        Address.parsed(f"10.0.0.1:{port}")


def test_machines_get_the_listen_address_or_all_non_local_ones() -> None:
    assert reachable_addresses(Address("10.0.0.1", 4711)) == ("10.0.0.1:4711",)
    every = [Address.parsed(text) for text in reachable_addresses(Address("0.0.0.0", 4711))]
    assert all(address.port == 4711 for address in every)
    assert not any(address.host.startswith(("127.", "::1", "fe80")) for address in every)
