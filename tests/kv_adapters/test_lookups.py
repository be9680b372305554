"""A process that has joined no pool looks blocks up in the pool of another one."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from innet.errors import KVError
from innet.kv.adapters.engine_pool import Member
from innet.kv.adapters.lookups import LookupClient, LookupServer
from innet.kv.names import NO_MODEL_DIGEST, BlockFamily, BlockKey
from tests.kv_adapters.hosts import Host, Hosts

FAMILY = BlockFamily(Host.tenant, NO_MODEL_DIGEST, "raw", 0, 1)
KEYS = [BlockKey(FAMILY, bytes([place]) * 32) for place in range(40)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "h0.kv"


@pytest.fixture
def client(hosts: Hosts, path: Path) -> Iterator[LookupClient]:
    """Of host ``a``, which has put the first 30 blocks but the twentieth."""
    member = hosts.hosts["a"]
    for key in KEYS[:20] + KEYS[21:30]:
        member.submit(member.blocks.put(key, np.arange(8, dtype=np.uint8))).result()
    server = LookupServer(cast(Member, member), path)
    client = LookupClient(path)
    yield client
    client.close()
    server.close()


def test_a_lookup_counts_what_the_pool_has_without_a_gap(client: LookupClient) -> None:
    assert client.tenant == Host.tenant
    counts = [client.count_prefix(keys) for keys in (KEYS, KEYS[21:], KEYS[5:9], KEYS[30:])]
    assert [count.result() for count in counts] == [20, 9, 4, 0]


def test_lookups_of_many_requests_run_at_once(client: LookupClient) -> None:
    counts = [client.count_prefix(KEYS[: place % 20]) for place in range(300)]
    assert [count.result() for count in counts] == [place % 20 for place in range(300)]


def test_another_tenants_blocks_are_refused_and_lookups_go_on(client: LookupClient) -> None:
    other = BlockKey(BlockFamily("00", NO_MODEL_DIGEST, "raw", 0, 1), bytes(32))
    with pytest.raises(KVError, match="another tenant"):
        client.count_prefix([other]).result()
    assert client.count_prefix(KEYS).result() == 20


def test_whoever_sends_something_else_is_left_alone(client: LookupClient, path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(path))
        stranger.sendall(b'{"names": 3}\n')
        assert b'"ok":false' in stranger.recv(1 << 12)
    assert client.count_prefix(KEYS).result() == 20


def test_a_worker_that_is_gone_is_an_error_that_names_its_socket(hosts: Hosts, path: Path) -> None:
    server = LookupServer(cast(Member, hosts.hosts["a"]), path)
    client = LookupClient(path)
    server.close()
    with pytest.raises(KVError, match=r"h0\.kv"):
        client.count_prefix(KEYS).result()
    client.close()
    with pytest.raises(KVError, match="The worker joins the pool first"):
        LookupClient(path, patience_s=0.0)


def test_a_socket_that_a_killed_worker_left_is_replaced(hosts: Hosts, path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    server = LookupServer(cast(Member, hosts.hosts["a"]), path)
    client = LookupClient(path)
    assert client.count_prefix(KEYS).result() == 0
    client.close()
    server.close()
