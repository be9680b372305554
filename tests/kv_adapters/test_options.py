"""What engines' configurations can say, and the pool that parts of an engine share."""

from __future__ import annotations

from typing import Any

import pytest

from innet.errors import HostTaken, KVError
from innet.kv.adapters.engine_pool import AdapterOptions, PoolOfProcess
from innet.kv.adapters.identity import engine_digest, key_hash


def test_a_configurations_keys_are_the_adapters_and_the_pools() -> None:
    own, pool = AdapterOptions.read(
        "config",
        {"weights": "tuned", "tenant": "acme", "memory": "1GiB", "folder": "/blocks"},
        engine="vllm",
    )
    assert own == AdapterOptions(weights="tuned")
    assert pool == {"tenant": "acme", "memory": "1GiB", "folder": "/blocks", "engine": "vllm"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"memroy": "1GiB"},
            "no option memroy; options: weights, members, codec, address, .*engine.*",
        ),
        ({"memory": "many"}, "memory of a pool: expected a size.*, found 'many'"),
        ({"members": -1}, "members: expected at least 0, found -1"),
        ({"members": "few"}, "members: expected a whole number, found 'few'"),
        ({"weights": 7}, "weights: expected text.*, found 7"),
        ({"codec": "zip"}, "codec: expected 'fp8' or 'int8', found 'zip'"),
        ({"disk": "1GiB"}, "give folder="),
        ({"policy": "best"}, "policy of a pool: expected 'lru'.*, found 'best'"),
        ({"replicas": "2"}, "replicas of a pool: expected a whole number, found '2'"),
        ({"engine": "a label with spaces"}, "got 'a label with spaces'.*"),
    ],
)
def test_a_wrong_option_is_refused_with_its_place(values: dict[str, Any], message: str) -> None:
    with pytest.raises(KVError, match=f"config: .*{message}$"):
        AdapterOptions.read("config", values)


class _Pool:
    def __init__(self, *, knows_members: bool = True) -> None:
        self.closed = 0
        self._knows_members = knows_members

    def close(self) -> None:
        self.closed += 1

    def submit(self, work: Any) -> Any:
        work.close()
        return self

    def result(self) -> None:
        if not self._knows_members:
            raise KVError("nobody answers")

    async def members(self, at_least: int) -> tuple[str, ...]:
        return ()


def test_parts_of_an_engine_share_a_pool_and_the_last_closes_it() -> None:
    pools: list[_Pool] = []

    def join(options: Any) -> Any:
        pools.append(_Pool())
        return pools[-1]

    process = PoolOfProcess(join)
    assert process.enter({"tenant": "acme"}) is process.enter({"tenant": "acme"})
    with pytest.raises(KVError, match="the same options"):
        process.enter({"tenant": "other"})
    process.leave()
    assert pools[0].closed == 0
    process.leave()
    assert pools[0].closed == 1
    process.enter({"tenant": "other"})
    assert len(pools) == 2


def test_a_pool_whose_members_cannot_be_waited_for_is_closed() -> None:
    pools = [_Pool(knows_members=False), _Pool()]
    opened = iter(pools)

    def join(options: Any) -> Any:
        return next(opened)

    process = PoolOfProcess(join)
    with pytest.raises(KVError, match="nobody answers"):
        process.enter({"tenant": "acme"})
    assert pools[0].closed == 1
    entered: object = process.enter({"tenant": "acme"})
    assert entered is pools[1]


def test_a_forked_process_does_not_take_the_pool_of_its_parent_for_its_own() -> None:
    pools: list[_Pool] = []

    def join(options: Any) -> Any:
        if pools:
            raise HostTaken("this process was forked")
        pools.append(_Pool())
        return pools[-1]

    process = PoolOfProcess(join)
    process.enter({"tenant": "acme"})
    process.forget_after_fork()
    with pytest.raises(HostTaken):
        process.enter({"tenant": "acme"})
    assert pools[0].closed == 0


def test_digests_and_hashes_tell_apart_what_joins_to_the_same() -> None:
    assert engine_digest("vllm", {"a": "b"}) != engine_digest("lmcache", {"a": "b"})
    assert engine_digest("vllm", {"a": 1}) != engine_digest("vllm", {"a": "1"})
    assert key_hash("ab", "c") != key_hash("a", "bc")
    with pytest.raises(KVError, match="JSON"):
        engine_digest("vllm", {"a": float("nan")})
