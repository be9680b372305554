"""KV events: consumers that lose messages have the state of the publisher after a replay."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq
import zmq.asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

import innet
from innet.errors import KVError
from innet.kv.events.endpoints import Endpoints
from innet.kv.events.index import PrefixIndex
from innet.kv.events.log import EventLog, single_blocks
from innet.kv.events.publisher import publishing
from innet.kv.events.reader import StreamReader
from innet.kv.events.source import BlockEvents
from innet.kv.events.wire import (
    AllCleared,
    Batch,
    BlocksRemoved,
    BlocksStored,
    Event,
    decode,
    encode,
    event_hash,
)
from innet.kv.hash_chain import chain, root_hash
from innet.kv.names import BlockFamily, BlockKey
from innet.kv.pool.store import Tier
from innet.kv.pool_member import PoolMember
from innet.kv.pool_options import MemberOptions
from tests.kv.fake_network import FakeFabric
from tests.kv.test_kv_pool import KV, MODEL, TOKENS

HASHES = st.integers(0, 5)
GROUPS = st.integers(0, 1)
EVENTS = st.one_of(
    st.builds(lambda n: BlocksStored((n,), n - 1 if n else None, (n, 7), 2), HASHES),
    st.builds(
        lambda n: BlocksStored((n,), n - 1 if n else None, (n, 7), 2, group=1, window=4), HASHES
    ),
    st.builds(lambda n: BlocksStored((n,), medium="STORAGE"), HASHES),
    st.builds(BlocksRemoved, st.tuples(HASHES), st.sampled_from(["CPU", "STORAGE"]), GROUPS),
    st.just(AllCleared()),
)
DEEP = json.loads("[" * 500 + "]" * 500)
"""Lists in each other, more than Python's stack has frames for."""
BATCHES = st.lists(st.lists(EVENTS, min_size=1, max_size=4), max_size=12)


class State:
    """What a consumer knows: the media of blocks of the first group, and of another one."""

    def __init__(self) -> None:
        self.held: set[tuple[int, str | None]] = set()
        self.of_window: set[tuple[int, str | None]] = set()

    def apply(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case BlocksStored():
                    held = self.of_window if event.window else self.held
                    held |= {(each, event.medium) for each in event.hashes}
                case BlocksRemoved():
                    held = self.of_window if event.group else self.held
                    held -= {(each, event.medium) for each in event.hashes}
                case AllCleared():
                    self.held.clear()
                    self.of_window.clear()


@settings(max_examples=200, deadline=None)
@given(BATCHES, st.data())
def test_a_consumer_that_loses_messages_has_the_publishers_state(
    batches: list[list[Event]], data: st.DataObject
) -> None:
    """However few batches are kept, whatever is lost, and whenever the consumer begins."""
    log, true, known = EventLog(data.draw(st.integers(1, 4))), State(), State()
    reader = StreamReader()
    for time_s, events in enumerate(batches):
        for event in events:
            log.add(event)
        true.apply(events)
        numbered = log.cut(time_s)
        assert numbered is not None
        number, payload = numbered
        if not data.draw(st.booleans(), label="lost"):
            known.apply(reader.receive(number, decode(payload)))
        if reader.is_waiting and data.draw(st.booleans(), label="replayed"):
            replay(log, reader, known)
    reader.is_waiting = True  # whoever asks, as after a connection
    replay(log, reader, known)
    assert (known.held, known.of_window) == (true.held, true.of_window)
    assert not reader.lost


def replay(log: EventLog, reader: StreamReader, known: State) -> None:
    for number, payload in log.since(reader.next_number):
        known.apply(reader.replay(number, decode(payload)))
    known.apply(reader.end_replay())


def test_a_restarted_publisher_is_noticed_and_a_second_copy_is_not() -> None:
    reader, known = StreamReader(), State()
    first = [Batch(10.0 + n, (BlocksStored((n,)),)) for n in range(3)]
    reader.end_replay()
    for number, batch in enumerate(first):
        known.apply(reader.receive(number, batch))
    assert reader.receive(1, first[1]) == []
    known.apply(reader.receive(1, Batch(20.0, (BlocksStored((9,)),))))
    assert known.held == set()
    assert reader.is_waiting
    known.apply(reader.replay(0, Batch(19.0, (AllCleared(), BlocksStored((8,))))))
    known.apply(reader.end_replay())
    assert known.held == {(8, "CPU"), (9, "CPU")}


def test_groups_of_layers_are_apart_in_what_a_replay_replaces() -> None:
    log = EventLog(buffer_batches=1)
    whole, window = BlocksStored((1,)), BlocksStored((1,), group=1, window=4)
    for event in (whole, window, BlocksRemoved((1,), group=1), BlocksStored((2,))):
        log.add(event)
        log.cut(0.0)
    (_, state), *_ = log.since(0)
    assert decode(state).events == (AllCleared(), whole)


def test_a_log_keeps_a_bounded_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("innet.kv.events.log._MOST_BUFFER_BYTES", 1000)
    log = EventLog()
    for number in range(100):
        log.add(BlocksRemoved((number - 1,)))
        log.add(BlocksStored((number,)))
        log.cut(0.0)
    state, *kept = log.since(0)
    assert decode(state[1]).events[0] == AllCleared()
    assert sum(len(payload) for _, payload in kept) <= 1000
    known = State()
    for _, payload in (state, *kept):
        known.apply(list(decode(payload).events))
    assert known.held == {(99, "CPU")}


def test_blocks_that_follow_each_other_are_one_event() -> None:
    log = EventLog()
    salted = BlocksStored((1,), None, (10, 11), 2, extra=(("s",),))
    for event in (BlocksStored((2,), 1, (12, 13), 2), salted, BlocksStored((4,), 3, (5, 6), 2)):
        log.add(event)
    numbered = log.cut(0.0)
    assert numbered is not None
    cleared, run, other = decode(numbered[1]).events
    assert cleared == AllCleared()
    assert run == BlocksStored((1, 2), None, (10, 11, 12, 13), 2, extra=(("s",), None))
    assert single_blocks(run)[0] == salted
    assert other == BlocksStored((4,), 3, (5, 6), 2)


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xc1", msgpack.packb(7), msgpack.packb([1.0, 7]), msgpack.packb(["soon", []]),
     msgpack.packb([1.0, {}]), msgpack.packb([1.0])],
)  # fmt: skip
def test_what_is_no_batch_is_refused(payload: bytes) -> None:
    with pytest.raises(KVError, match="no batch of KV events"):
        decode(payload)


def test_whole_hashes_are_read_and_endless_lists_are_not() -> None:
    digest = bytes(24) + (258).to_bytes(8, "big")
    deep = encoded_stored(extra_keys=[DEEP])
    removed = {"type": "BlockRemoved", "block_hashes": [digest]}
    batch = decode(msgpack.packb([1.0, [deep, removed]]))
    assert batch == Batch(1.0, (BlocksRemoved((258,), None),), invalid=1)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"extra_keys": [["tuned"], ["tuned"]], "lora_name": "tuned"}, ()),
        ({"extra_keys": [["tuned", "s"], ["tuned"]], "lora_name": "tuned"}, (("s",), None)),
        ({"extra_keys": [["tuned", "tuned"], ["tuned"]], "lora_name": "tuned"}, (("tuned",), None)),
        (
            {"extra_keys": [["tuned", ["0af1", 3]], None], "lora_name": "tuned"},
            ((("0af1", 3),), None),
        ),
        ({"extra_keys": [["tuned"], None]}, (("tuned",), None)),
        ({"cache_salt": "s"}, (("s",),)),
        ({"cache_salt": "s", "parent_block_hash": 7}, ()),
    ],
)
def test_an_adapters_name_is_no_input_of_its_own(
    fields: dict[str, Any], expected: tuple[object, ...]
) -> None:
    [stored] = decode(msgpack.packb([1.0, [encoded_stored(**fields)]])).events
    assert isinstance(stored, BlocksStored)
    assert (stored.extra, stored.lora) == (expected, fields.get("lora_name"))


def test_blocks_of_an_adapter_without_a_name_are_not_the_base_models() -> None:
    [stored] = decode(msgpack.packb([1.0, [encoded_stored(lora_id=3)]])).events
    assert isinstance(stored, BlocksStored)
    assert stored.lora == "lora_id=3"


@pytest.mark.parametrize(
    "kind", ["chunked_local_attention", "cross_attention", "mamba", "sliding_window"]
)
def test_blocks_that_do_not_stand_for_a_prefix_are_not_indexed(kind: str) -> None:
    """Their hashes are those of the blocks of full attention, which stay when they go."""
    full, other = encoded_stored(), encoded_stored(group_idx=1, kv_cache_spec_kind=kind)
    gone = {"type": "BlockRemoved", "block_hashes": [1, 2], "medium": "GPU", "group_idx": 1}
    index = PrefixIndex()
    index.apply("h0", "llama", decode(msgpack.packb([1.0, [other]])).events)
    assert not index.locate("llama", (1, 2, 3, 4)).tokens
    index.apply("h0", "llama", decode(msgpack.packb([1.0, [full, other, gone]])).events)
    assert index.locate("llama", (1, 2, 3, 4)).tokens == 4


def encoded_stored(**fields: Any) -> dict[str, Any]:
    """Two blocks of two tokens."""
    return {
        "type": "BlockStored", "block_hashes": [1, 2], "parent_block_hash": None,
        "token_ids": [1, 2, 3, 4], "block_size": 2, "medium": "GPU", **fields,
    }  # fmt: skip


FAMILY = BlockFamily("a1b2", "00ff", "raw", 0, 2)
REST = BlockFamily("a1b2", "00ff", "raw", 2, 3)


def published(events: BlockEvents) -> list[Event]:
    """What is new in the only stream."""
    [log] = events.streams.values()
    numbered = log.cut(0.0)
    return [] if numbered is None else list(decode(numbered[1]).events)


def test_a_block_is_published_when_all_its_layers_are_here() -> None:
    events = BlockEvents("h0")
    one, two = bytes(31) + b"\1", bytes(31) + b"\2"
    events.on_tier(0, REST.name(one), Tier.MEMORY)
    events.on_tier(0, FAMILY.name(one), Tier.DISK)
    assert published(events) == [AllCleared(), BlocksStored((1,), medium="STORAGE")]
    events.on_tier(1, FAMILY.name(one), Tier.MEMORY)  # of the node's two stores, the faster one
    assert published(events) == [BlocksStored((1,)), BlocksRemoved((1,), "STORAGE")]
    events.on_tier(0, FAMILY.name(one), None)
    assert published(events) == []
    events.on_tier(0, REST.name(one), None)
    events.on_tier(0, FAMILY.name(two), Tier.MEMORY)
    assert published(events) == [BlocksRemoved((1,))]
    events.describe(FAMILY, [one, two], [5, 6, 7, 8], 2, salt="s")
    assert published(events) == []
    events.on_tier(0, REST.name(two), Tier.MEMORY)
    assert published(events) == [BlocksStored((2,), 1, (7, 8), 2)]
    events.on_tier(0, REST.name(one), Tier.MEMORY)
    events.on_tier(0, FAMILY.name(one), Tier.MEMORY)
    both = BlocksStored((1, 2), None, (5, 6, 7, 8), 2, extra=(("s",), None))
    assert published(events) == [BlocksRemoved((2,)), both]


class Strict:
    """A consumer that leaves out blocks whose predecessor it does not know, and counts copies."""

    def __init__(self, *, knows_all: bool) -> None:
        """``knows_all``: from another stream."""
        self.knows_all = knows_all
        self.copies: Counter[tuple[int, str | None]] = Counter()

    def apply(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case BlocksStored():
                    for each in single_blocks(event):
                        known = each.hashes[0] if not each.tokens else each.parent
                        if known is None or self.knows_all or known in self.held:
                            self.copies[each.hashes[0], each.medium] += 1
                case BlocksRemoved():
                    for removed in event.hashes:
                        self.copies[removed, event.medium] -= 1
                        self.copies += Counter()  # none below zero
                case AllCleared():
                    self.copies.clear()

    @property
    def held(self) -> set[int]:
        return {each for each, _ in self.copies}


BLOCKS = range(1, 5)
"""Each follows the half of its number; the first follows none."""


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(BLOCKS), st.sampled_from([*Tier, None, "described"])),
        max_size=20,
    ),
    st.booleans(),
    st.data(),
)
def test_consumers_learn_of_blocks_in_whatever_order_they_come(
    changes: list[tuple[int, Any]], are_described: bool, data: st.DataObject
) -> None:
    events, whole = BlockEvents("h0"), BlockFamily("a1b2", "00ff", "raw", 0, 1)
    consumer = Strict(knows_all=data.draw(st.booleans()))
    here: dict[int, Tier] = {}
    described: set[int] = set()
    for number, change in [*((each, "described") for each in BLOCKS if are_described), *changes]:
        name = bytes(31) + bytes([number])
        if change == "described":
            parent = bytes(31) + bytes([number // 2]) if number > 1 else None
            events.describe_block(BlockKey(whole, name), parent, (number, 9))
            described.add(number)
            continue
        events.on_tier(0, whole.name(name), change)
        here.pop(number, None)
        if change is not None:
            here[number] = change
        is_sent = data.draw(st.booleans(), label="sent")
        if is_sent and events.streams:
            consumer.apply(published(events))
    if events.streams:
        consumer.apply(published(events))
    medium = {Tier.MEMORY: "CPU", Tier.DISK: "STORAGE", Tier.OBJECTS: "STORAGE"}
    assert all(count == 1 for count in consumer.copies.values())
    assert set(consumer.copies) <= {(number, medium[tier]) for number, tier in here.items()}
    for number in here:
        chain_of = {number >> step for step in range(number.bit_length())}
        if chain_of <= here.keys() and chain_of <= described:
            assert number in consumer.held


def test_a_moved_predecessor_does_not_delay_the_block_that_follows_it() -> None:
    """Blocks on other media than their predecessor keep their place behind it."""
    events = BlockEvents("h0")
    hashes = [bytes(31) + bytes([number]) for number in (1, 2, 4)]
    events.describe(FAMILY, hashes, [1, 2, 4], 1)
    whole = BlockFamily(FAMILY.tenant, FAMILY.model_digest, FAMILY.layout, 0, 1)
    moves = [(0, Tier.DISK), (1, Tier.MEMORY), (2, Tier.DISK), (0, Tier.MEMORY)]
    for place, tier in moves:
        events.on_tier(0, whole.name(hashes[place]), tier)
    consumer = Strict(knows_all=False)
    consumer.apply(published(events))
    assert consumer.held == {1, 2, 4}


def test_a_block_that_moves_without_its_predecessor_is_stored_again_behind_it() -> None:
    events, whole = BlockEvents("h0"), BlockFamily("a1b2", "00ff", "raw", 0, 1)
    consumer = Strict(knows_all=False)
    first, second = bytes(32), bytes(31) + b"\1"
    events.describe_block(BlockKey(whole, first), None, (1,))
    events.describe_block(BlockKey(whole, second), first, (2,))
    for name, tier in (
        *((first, Tier.MEMORY), (second, Tier.DISK), (first, None)),
        *((second, Tier.MEMORY), (first, Tier.MEMORY)),
    ):
        events.on_tier(0, whole.name(name), tier)
        consumer.apply(published(events))
    assert consumer.held == {0, 1}


def test_tokens_that_become_known_later_are_published() -> None:
    events = BlockEvents("h0", "llama")
    assert not events.streams
    events.on_tier(0, FAMILY.name(bytes(32)), Tier.MEMORY)
    events.on_tier(0, REST.name(bytes(32)), Tier.MEMORY)
    assert list(events.streams) == [b"kv@h0@llama"]
    assert published(events)[-1] == BlocksStored((0,))
    events.describe(FAMILY, [bytes(32)], [5, 6], 2)
    assert published(events) == [BlocksRemoved((0,)), BlocksStored((0,), None, (5, 6), 2)]


def test_a_named_stream_has_one_model(caplog: pytest.LogCaptureFixture) -> None:
    events = BlockEvents("h0", "llama")
    other = BlockFamily("a1b2", "11ff", "raw", 0, 1)
    for each in (FAMILY, REST, other):
        events.on_tier(0, each.name(bytes(32)), Tier.MEMORY)
    assert len(events.streams) == 1
    assert "give each model a tenant of its own" in caplog.text
    both = BlockEvents("h0")
    for each in (FAMILY, REST, other):
        both.on_tier(0, each.name(bytes(32)), Tier.MEMORY)
    assert list(both.streams) == [b"kv@h0@00ff", b"kv@h0@11ff"]


@pytest.mark.parametrize(
    "events",
    ["tcp://0.0.0.0:5557", "tcp://*:5557", "tcp://10.0.0.1:5557", "tcp://127.0.0.1", "ipc://", "x"],
)
def test_events_are_published_on_this_machine_alone(events: str) -> None:
    with pytest.raises(KVError, match="contain the tokens of prompts"):
        MemberOptions.of({"events": events})


def test_replays_are_beside_the_events() -> None:
    assert Endpoints.of("tcp://[::1]:0").replay == "tcp://[::1]:0"
    assert Endpoints.of("ipc:///tmp/x").replay == "ipc:///tmp/x-replay"
    assert Endpoints.of("ipc:///tmp/x", "tcp://127.0.0.1:9").replay == "tcp://127.0.0.1:9"


class Consumer:
    """A consumer as of vLLM's events: SUB, and DEALER for replays."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._context = zmq.asyncio.Context()
        self._sub = self._context.socket(zmq.SUB)
        self._sub.connect(endpoints.events)
        self._sub.subscribe(b"kv@")
        self._replay = self._context.socket(zmq.DEALER)
        self._replay.connect(endpoints.replay)

    async def next(self) -> tuple[bytes, int, Batch]:
        topic, number, payload = await self._sub.recv_multipart()
        return topic, int.from_bytes(number, "big"), decode(payload)

    async def replayed(self, number: int) -> list[tuple[bytes, int, Batch]]:
        await self._replay.send_multipart([b"", number.to_bytes(8, "big")])
        found: list[tuple[bytes, int, Batch]] = []
        while True:
            _, topic, place, payload = await self._replay.recv_multipart()
            if place == b"\xff" * 8:
                return found
            found.append((topic, int.from_bytes(place, "big"), decode(payload)))

    def close(self) -> None:
        self._context.destroy(linger=0)


@asynccontextmanager
async def consuming(endpoints: Endpoints) -> AsyncIterator[Consumer]:
    consumer = Consumer(endpoints)
    try:
        async with asyncio.timeout(30):
            yield consumer
    finally:
        consumer.close()


@pytest.fixture
def member() -> Iterator[PoolMember]:
    fabric = FakeFabric({"h0": 1 << 20})
    options = MemberOptions.of({"events": "tcp://127.0.0.1:0", "model_name": "llama"})
    with fabric.member("h0", options) as member:
        yield member


async def test_a_pools_blocks_are_published_with_vllms_hashes(member: PoolMember) -> None:
    pool = innet.KVPool(MODEL, block_tokens=2, layers_per_block=1, member=member)
    hashes = [event_hash(each) for each in chain(TOKENS, 2, root=root_hash())]
    assert member.event_endpoints is not None
    async with consuming(member.event_endpoints) as consumer:
        await pool.put(TOKENS, KV)
        seen: list[Event] = []
        reader = StreamReader()
        for topic, number, batch in await consumer.replayed(0):
            assert topic == b"kv@h0@llama"
            seen += reader.replay(number, batch)
        seen += reader.end_replay()
        stored = BlocksStored(tuple(hashes), None, tuple(TOKENS[:4]), 2)
        blocks = [b for e in seen if isinstance(e, BlocksStored) for b in single_blocks(e)]
        assert sorted(blocks, key=repr) == sorted(single_blocks(stored), key=repr)
        assert await consumer.replayed(reader.next_number) == []
        removed: set[int] = set()
        await pool.evict(TOKENS)
        while removed != set(hashes):  # live, or replayed where the subscription came late
            for _, number, batch in await consumer.replayed(reader.next_number):
                for event in reader.replay(number, batch):
                    assert isinstance(event, BlocksRemoved)
                    removed.update(event.hashes)


async def test_live_batches_arrive_also_what_is_pending_at_the_end(tmp_path: Path) -> None:
    events = BlockEvents("h0")
    family = BlockFamily("a1b2", "00ff", "raw", 0, 1)
    async with consuming_live(events, tmp_path) as consumer:
        events.on_tier(0, family.name(bytes(32)), Tier.MEMORY)
        topic, _, batch = await consumer.next()
        assert topic == b"kv@h0@00ff"
        while BlocksStored((0,)) not in batch.events:
            _, _, batch = await consumer.next()
        events.clear()
    assert (await consumer.next())[2].events == (AllCleared(),)
    consumer.close()


@asynccontextmanager
async def consuming_live(events: BlockEvents, folder: Path) -> AsyncIterator[Consumer]:
    """A consumer whose subscription the publisher has; it outlives the publisher."""
    endpoints = Endpoints.of(f"ipc://{folder}/events")
    beat = BlockFamily("a1b2", "00ff", "raw", 0, 1).name(bytes(31) + b"\1")
    async with asyncio.timeout(30), publishing(events, endpoints) as bound:
        assert (folder / "events").stat().st_mode & 0o077 == 0
        consumer = Consumer(bound)
        first = asyncio.ensure_future(consumer.next())
        tier: Any = Tier.MEMORY
        while not first.done():  # until the subscription is there
            events.on_tier(0, beat, tier)
            tier = None if tier else Tier.MEMORY
            await asyncio.wait([first], timeout=0.01)
        yield consumer


def test_encoded_batches_are_vllms_documents() -> None:
    """The fields and types of ``vllm.distributed.kv_events``, version 0.33."""
    stored = BlocksStored((1, 2), None, (3, 4), 1)
    time_s, [document, removed, cleared], rank = msgpack.unpackb(
        encode(Batch(2.5, (stored, BlocksRemoved((1,), "STORAGE"), AllCleared())))
    )
    assert (time_s, rank) == (2.5, 0)
    assert document == {
        "type": "BlockStored", "block_hashes": [1, 2], "parent_block_hash": None,
        "token_ids": [3, 4], "block_size": 1, "lora_id": None, "medium": "CPU", "lora_name": None,
        "group_idx": 0, "kv_cache_spec_kind": "full_attention", "locality": "LOCAL",
    }  # fmt: skip
    assert removed["medium"] == "STORAGE"
    assert cleared == {"type": "AllBlocksCleared"}


def test_numpy_tokens_are_published_as_integers() -> None:
    events = BlockEvents("h0")
    events.describe(FAMILY, [bytes(32)], np.array([5, 6], np.uint16), 2)
    for each in (FAMILY, REST):
        events.on_tier(0, each.name(bytes(32)), Tier.MEMORY)
    assert published(events)[-1] == BlocksStored((0,), None, (5, 6), 2)


class ManyBatches:
    """A stream of batches that fill the buffers of sockets."""

    def __init__(self, batches: int) -> None:
        self.on_pending: Callable[[], None] = lambda: None
        log = EventLog()
        for number in range(batches):
            log.add(BlocksStored((number,), None, tuple(range(2000)), 2000))
            log.cut(float(number))
        self.streams = {b"kv@h0@llama": log}

    def clear(self) -> None:
        """Nothing is published at the end."""


async def test_a_consumer_that_reads_slowly_receives_the_whole_replay(tmp_path: Path) -> None:
    endpoints = Endpoints.of(f"ipc://{tmp_path}/events")
    async with asyncio.timeout(60), publishing(ManyBatches(2000), endpoints) as bound:
        with zmq.asyncio.Context() as context, context.socket(zmq.DEALER) as socket:
            socket.set_hwm(1)
            socket.setsockopt(zmq.LINGER, 0)
            socket.connect(bound.replay)
            await socket.send_multipart([b"", bytes(8)])
            numbers: list[int] = []
            while not numbers or numbers[-1] != -1:
                frames = await socket.recv_multipart()
                numbers.append(int.from_bytes(frames[-2], "big", signed=True))
                await asyncio.sleep(0.001)  # the time of its own work
    assert numbers == [*range(2000), -1]
