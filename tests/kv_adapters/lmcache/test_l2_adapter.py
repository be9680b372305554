"""LMCache's L2 over a pool, as LMCache's own factory makes it."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REASON = "LMCache is not installed here: `make kv-adapters` tests with it"
pytest.importorskip("lmcache", reason=REASON)

import torch
from lmcache.v1.distributed.api import ObjectKey
from lmcache.v1.distributed.internal_api import L2StoreResult
from lmcache.v1.distributed.l2_adapters import create_l2_adapter
from lmcache.v1.distributed.l2_adapters.plugin_l2_adapter import PluginL2AdapterConfig
from lmcache.v1.memory_management import MemoryFormat, MemoryObjMetadata, TensorMemoryObj
from lmcache.v1.platform import consume_fd

from innet.errors import KVError
from innet.kv.adapters.lmcache import InnetL2Adapter, l2_adapter
from tests.kv_adapters.hosts import ROOM_BYTES, Hosts

TIMEOUT_MS = 60_000
DELETED_S = TIMEOUT_MS / 1000


def adapter(**params: Any) -> InnetL2Adapter:
    config = {
        "module_path": "innet.kv.adapters.lmcache",
        "class_name": "InnetL2Adapter",
        "adapter_params": {"adapters": "none"} | params,
    }
    made = create_l2_adapter(PluginL2AdapterConfig.from_dict(config))
    assert isinstance(made, InnetL2Adapter)
    return made


@pytest.fixture
def adapters(hosts: Hosts) -> Iterator[tuple[InnetL2Adapter, InnetL2Adapter]]:
    """At two hosts."""
    made = []
    for name in ("a", "b"):
        with hosts.at(name, l2_adapter):
            made.append(adapter(tenant="acme"))
    yield made[0], made[1]
    for each in made:
        with hosts.at("a", l2_adapter):
            each.close()


def key(number: int, *, rank: int = 0, salt: str = "") -> ObjectKey:
    return ObjectKey(number.to_bytes(32, "big"), "model", rank, cache_salt=salt)


def memory(values: torch.Tensor) -> TensorMemoryObj:
    metadata = MemoryObjMetadata(
        shape=values.shape,
        dtype=values.dtype,
        address=values.data_ptr(),
        phy_size=values.nbytes,
        fmt=MemoryFormat.KV_2LTD,
        ref_count=1,
    )
    return TensorMemoryObj(values.view(torch.uint8).reshape(-1), metadata, parent_allocator=None)


def random(seed: int) -> torch.Tensor:
    return torch.randn((2, 3, 5, 7), generator=torch.Generator().manual_seed(seed)).bfloat16()


def wait(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    assert poll.poll(TIMEOUT_MS), "no task has ended"
    consume_fd(descriptor)


def store(at: InnetL2Adapter, keys: list[ObjectKey], tensors: list[torch.Tensor]) -> L2StoreResult:
    task = at.submit_store_task(keys, [memory(tensor) for tensor in tensors])
    wait(at.get_store_event_fd())
    return at.pop_completed_store_tasks()[task]


def lookup(at: InnetL2Adapter, keys: list[ObjectKey]) -> list[bool]:
    task = at.submit_lookup_and_lock_task(keys, {})
    wait(at.get_lookup_and_lock_event_fd())
    bitmap = at.query_lookup_and_lock_result(task)
    assert bitmap is not None
    assert at.query_lookup_and_lock_result(task) is None
    return [bool(bitmap.test(index)) for index in range(len(keys))]


def load(at: InnetL2Adapter, keys: list[ObjectKey], into: list[torch.Tensor]) -> list[bool]:
    task = at.submit_load_task(keys, [memory(tensor) for tensor in into])
    wait(at.get_load_event_fd())
    bitmap = at.query_load_result(task)
    assert bitmap is not None
    return [bool(bitmap.test(index)) for index in range(len(keys))]


def test_what_one_host_stores_another_loads(
    adapters: tuple[InnetL2Adapter, InnetL2Adapter],
) -> None:
    one, other = adapters
    keys = [key(number) for number in range(3)]
    stored = store(one, keys[:2], [random(0), random(1)])
    assert stored.is_successful()
    assert stored.bytes_transferred() > 2 * random(0).nbytes
    assert lookup(other, keys) == [True, True, False]
    into = [torch.zeros_like(random(0)) for _ in keys]
    assert load(other, keys, into) == [True, True, False]
    assert torch.equal(into[0], random(0))
    assert torch.equal(into[1], random(1))
    assert not into[2].any()
    other.submit_unlock(keys)


@pytest.mark.parametrize("codec", ["fp8", "int8"])
def test_a_codec_quantises_objects_whose_names_tell_it(
    hosts: Hosts, adapters: tuple[InnetL2Adapter, InnetL2Adapter], codec: str
) -> None:
    with hosts.at("a", l2_adapter):
        coded = adapter(tenant="acme", codec=codec)
        large = torch.cat([random(seed) for seed in range(20)])
        stored = store(coded, [key(0)], [large])
        assert stored.bytes_transferred() < 0.6 * large.nbytes + 200
        assert lookup(adapters[1], [key(0)]) == [False]
        into = torch.zeros_like(large)
        assert load(coded, [key(0)], [into]) == [True]
        torch.testing.assert_close(into, large, rtol=1 / 14, atol=0.03)
        assert not torch.equal(into, large)
        coded.close()


def test_keys_that_differ_in_any_part_are_others(
    adapters: tuple[InnetL2Adapter, InnetL2Adapter],
) -> None:
    one, other = adapters
    store(one, [key(0)], [random(0)])
    others = [key(0, rank=1), key(0, salt="b"), ObjectKey(bytes(32), "other", 0)]
    assert lookup(other, others) == [False, False, False]


def test_a_poisoned_object_is_not_loaded(
    hosts: Hosts, adapters: tuple[InnetL2Adapter, InnetL2Adapter]
) -> None:
    one, other = adapters
    store(one, [key(0)], [random(0)])
    hosts.home.forges = True
    into = torch.zeros_like(random(0))
    assert load(other, [key(0)], [into]) == [False]
    assert not into.any()


@pytest.mark.parametrize(
    "into",
    [
        torch.zeros((2, 3, 7, 5), dtype=torch.bfloat16),
        torch.zeros((2, 3, 5, 7), dtype=torch.float16),
        torch.zeros((2, 3, 5, 8), dtype=torch.bfloat16),
    ],
    ids=["shape", "type", "size"],
)
def test_an_object_of_another_kind_is_not_loaded(
    adapters: tuple[InnetL2Adapter, InnetL2Adapter], into: torch.Tensor
) -> None:
    one, other = adapters
    store(one, [key(0)], [random(0)])
    assert load(other, [key(0)], [into]) == [False]
    assert not into.any()


def test_without_a_home_nothing_is_stored(
    hosts: Hosts, adapters: tuple[InnetL2Adapter, InnetL2Adapter]
) -> None:
    hosts.home.reachable = False
    assert not store(adapters[0], [key(0)], [random(0)]).is_successful()


def test_an_object_without_room_costs_no_other(
    adapters: tuple[InnetL2Adapter, InnetL2Adapter],
) -> None:
    one, other = adapters
    keys = [key(number) for number in range(40)]
    tensors = [random(number) for number in range(40)]
    tensors[20] = torch.zeros(ROOM_BYTES + 1, dtype=torch.uint8)
    assert not store(one, keys, tensors).is_successful()
    into = [torch.zeros_like(tensor) for tensor in tensors]
    assert load(other, keys, into) == [number != 20 for number in range(40)]
    assert all(map(torch.equal, into, tensors))


def test_deleted_objects_are_gone(adapters: tuple[InnetL2Adapter, InnetL2Adapter]) -> None:
    one, other = adapters
    store(one, [key(0)], [random(0)])
    one.delete([key(0)])
    end_s = time.monotonic() + DELETED_S
    while lookup(other, [key(0)]) == [True]:  # deleting is not waited for
        assert time.monotonic() < end_s, f"the object is still there {DELETED_S:.0f} s later"


def test_the_three_descriptors_differ(adapters: tuple[InnetL2Adapter, InnetL2Adapter]) -> None:
    descriptors = {
        descriptor
        for each in adapters
        for descriptor in (
            each.get_store_event_fd(),
            each.get_lookup_and_lock_event_fd(),
            each.get_load_event_fd(),
        )
    }
    assert len(descriptors) == 6
    assert adapters[0].report_status()["is_healthy"]


def test_an_unknown_option_is_refused(hosts: Hosts) -> None:
    with hosts.at("a", l2_adapter), pytest.raises(KVError, match="memroy"):
        adapter(memroy="1GiB")


def test_a_server_whose_engines_may_have_lora_adapters_is_refused(
    hosts: Hosts, caplog: pytest.LogCaptureFixture
) -> None:
    with hosts.at("a", l2_adapter), pytest.raises(KVError, match='"adapters": "none"'):
        adapter(adapters=None)
    with hosts.at("a", l2_adapter):
        adapter(adapters="ignored").close()
    assert "answered wrongly" in caplog.text


def test_an_adapter_starts_while_its_pool_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    secret = tmp_path / "acme.secret"
    secret.touch(mode=0o600)
    secret.write_text("at least sixteen bytes")
    waiting = adapter(address="prod", tenant="acme", secret=str(secret))
    try:
        tensor = random(1)
        assert not store(waiting, [key(1)], [tensor]).is_successful()
        assert lookup(waiting, [key(2)]) == [False]
    finally:
        waiting.close()
