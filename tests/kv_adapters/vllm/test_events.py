"""KV events: vLLM's classes decode a pool's, and the pool's reader follows vLLM's publisher."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed here: `make kv-adapters` tests with it")

import msgspec
import zmq
from vllm.distributed import kv_events as vllm_events
from vllm.v1.core.kv_cache_utils import BlockHash, maybe_convert_block_hash
from vllm.v1.kv_cache_interface import KVCacheSpecKind

from innet.kv.events.publisher import END
from innet.kv.events.reader import StreamReader
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
from innet.kv.layout import STATE_WINDOW

STORED = BlocksStored((1, 2**64 - 1), 3, (5, 6, 7, 8), 2, "STORAGE", (("salt",), None), "tuned")
WINDOW = BlocksStored((7,), None, (5, 6), 2, "CPU", group=1, window=512)
STATE = BlocksStored((8,), None, (5, 6), 2, "CPU", group=2, window=STATE_WINDOW)
BATCH = Batch(2.5, (STORED, WINDOW, STATE, BlocksRemoved((1,), group=1), AllCleared()))


def test_vllms_classes_decode_a_batch() -> None:
    found = msgspec.msgpack.decode(encode(BATCH), type=vllm_events.KVEventBatch)
    stored, window, state, removed, cleared = found.events
    assert found.ts == 2.5
    assert (stored.block_hashes, stored.parent_block_hash) == ([1, 2**64 - 1], 3)
    assert (stored.token_ids, stored.block_size) == ([5, 6, 7, 8], 2)
    assert (stored.medium, stored.locality) == (vllm_events.MEDIUM_STORAGE, "LOCAL")
    assert (stored.lora_name, stored.extra_keys) == ("tuned", [("salt",), None])
    assert (stored.group_idx, stored.kv_cache_spec_kind) == (0, "full_attention")
    assert (window.group_idx, window.medium) == (1, vllm_events.MEDIUM_CPU)
    assert (window.kv_cache_spec_kind, window.kv_cache_spec_sliding_window) == (
        "sliding_window",
        512,
    )
    assert state.kv_cache_spec_kind == KVCacheSpecKind.MAMBA.value
    assert state.kv_cache_spec_sliding_window is None
    assert (removed.block_hashes, removed.medium) == ([1], vllm_events.MEDIUM_CPU)
    assert removed.group_idx == 1
    assert isinstance(cleared, vllm_events.AllBlocksCleared)


def test_hashes_are_shortened_as_vllm_does() -> None:
    digest = bytes(range(32))
    assert event_hash(digest) == maybe_convert_block_hash(BlockHash(digest))


def test_vllms_publisher_is_followed_over_lost_messages(tmp_path: Path) -> None:
    """Live batches that are lost come with a replay, and all events mean the same."""
    live, again = f"ipc://{tmp_path}/live", f"ipc://{tmp_path}/replay"
    publisher = vllm_events.ZmqEventPublisher(0, live, again, topic="kv@h0@llama")
    events = msgspec.msgpack.decode(encode(BATCH), type=vllm_events.KVEventBatch).events
    for event in events:
        publisher.publish(vllm_events.KVEventBatch(ts=2.5, events=[event]))
    context = zmq.Context()
    replay = context.socket(zmq.DEALER)
    replay.connect(again)
    reader = StreamReader()
    seen: list[Event] = []
    while len(seen) < len(events):  # the publisher's thread has not sent all at first
        replay.send_multipart([b"", reader.next_number.to_bytes(8, "big")])
        while True:
            assert replay.poll(10_000)
            _, topic, number, payload = replay.recv_multipart()
            if number == END:
                break
            assert topic == b"kv@h0@llama"
            seen += reader.replay(int.from_bytes(number, "big"), decode(payload))
    context.destroy(linger=0)
    publisher.shutdown()
    assert tuple(seen) == BATCH.events
    assert not reader.lost
