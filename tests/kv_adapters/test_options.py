"""What engines' configurations can say, and the pool that parts of an engine share."""

from __future__ import annotations

from typing import Any

import pytest

from innet.errors import KVError
from innet.kv.adapters.engine_pool import AdapterOptions, pool_of_process
from innet.kv.adapters.identity import engine_digest, key_hash
from innet.kv.pool_member import PoolMember


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
            "no option memroy; did you mean 'memory'.; options: weights, members, .*engine.*",
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
        self.is_waiting = False
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


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> list[_Pool]:
    """The pools that this process joins next, in order."""
    pools: list[_Pool] = []
    monkeypatch.setattr(PoolMember, "open_or_wait", lambda **_: pools.pop(0))
    return pools


def test_parts_of_an_engine_share_a_pool_and_the_last_closes_it(pools: list[_Pool]) -> None:
    first, second = _Pool(), _Pool()
    pools += [first, second]
    assert pool_of_process.enter({"tenant": "acme"}) is pool_of_process.enter({"tenant": "acme"})
    with pytest.raises(KVError, match="the same options"):
        pool_of_process.enter({"tenant": "other"})
    pool_of_process.leave()
    assert first.closed == 0
    pool_of_process.leave()
    assert first.closed == 1
    entered: object = pool_of_process.enter({"tenant": "other"})
    assert entered is second
    pool_of_process.leave()


def test_a_pool_whose_members_cannot_be_waited_for_is_closed(pools: list[_Pool]) -> None:
    silent, answering = _Pool(knows_members=False), _Pool()
    pools += [silent, answering]
    with pytest.raises(KVError, match="nobody answers"):
        pool_of_process.enter({"tenant": "acme"})
    assert silent.closed == 1
    entered: object = pool_of_process.enter({"tenant": "acme"})
    assert entered is answering
    pool_of_process.leave()


def test_a_forked_process_does_not_use_the_pool_of_its_parent(pools: list[_Pool]) -> None:
    parents, own = _Pool(), _Pool()
    pools += [parents, own]
    pool_of_process.enter({"tenant": "acme"})
    pool_of_process.forget_after_fork()
    assert not pool_of_process.is_open
    entered: object = pool_of_process.enter({"tenant": "acme"})
    assert entered is own
    pool_of_process.leave()
    assert (parents.closed, own.closed) == (0, 1)


def test_digests_and_hashes_tell_apart_what_joins_to_the_same() -> None:
    assert engine_digest("vllm", {"a": "b"}) != engine_digest("lmcache", {"a": "b"})
    assert engine_digest("vllm", {"a": 1}) != engine_digest("vllm", {"a": "1"})
    assert key_hash("ab", "c") != key_hash("a", "bc")
    with pytest.raises(KVError, match="JSON"):
        engine_digest("vllm", {"a": float("nan")})
