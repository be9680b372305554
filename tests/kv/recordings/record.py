"""Records what an engine's publisher of KV events sends: live, and as a replay.

    python tests/kv/recordings/record.py vllm 0.33.0 PATH/vllm/distributed/kv_events.py
    python tests/kv/recordings/record.py sglang 0.5.23 PATH/sglang/srt/disaggregation/kv_events.py

It runs the definitions of that file, from the engine's package, without the rest of the engine.
``tests/kv/test_event_recordings.py`` reads the recordings.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import msgspec
import zmq

TOPIC = "kv@h0@llama"
TOKENS = {"base": 0, "lora": 100, "lora and salt": 200, "salt": 300, "picture": 400, "next": 500}
"""The first of the eight tokens of each prompt."""
SIZE = 4


def main() -> None:
    """Write the recording of one engine."""
    engine, version, path = sys.argv[1:]
    module = loaded(engine, Path(path))
    live, replay = recorded(module, {"vllm": of_vllm, "sglang": of_sglang}[engine](module))
    document = {"live": live, "replay": replay}
    target = Path(__file__).with_name(f"{engine}-{version}.json")
    target.write_text(json.dumps(document, indent=1) + "\n")


def loaded(engine: str, path: Path) -> ModuleType:
    """The module, with stand-ins for what it imports of its engine."""

    class Finder:
        def find_spec(self, name: str, *_: object) -> Any:
            if name.partition(".")[0] == engine:
                return importlib.util.spec_from_loader(name, self)  # type: ignore[arg-type]
            return None

        def create_module(self, spec: Any) -> Any:
            stand_in = MagicMock(name=spec.name)
            stand_in.__path__, stand_in.__spec__ = [], spec
            stand_in.ExternalBlockHash = bytes | int
            return stand_in

        def exec_module(self, _: object) -> None:
            pass

    sys.meta_path.insert(0, Finder())
    spec = importlib.util.spec_from_file_location("kv_events", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["kv_events"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tokens(prompt: str) -> list[int]:
    """Of both blocks of a prompt."""
    return list(range(TOKENS[prompt], TOKENS[prompt] + 2 * SIZE))


def stored(module: ModuleType, prompt: str, **fields: Any) -> Any:
    """Two blocks of a prompt, with those fields that the version has."""
    first = 1000 + TOKENS[prompt]
    values: dict[str, Any] = {
        "block_hashes": [first, first + 1],
        "parent_block_hash": None,
        "token_ids": tokens(prompt),
        "block_size": SIZE,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        **fields,
    }
    known = inspect.signature(module.BlockStored).parameters
    return module.BlockStored(**{name: values[name] for name in values if name in known})


def of_vllm(module: ModuleType) -> list[Any]:
    """Batches as vLLM makes them of these prompts; adapters are named in each block."""
    lora = {"lora_id": 1, "lora_name": "tuned"}
    full = {"group_idx": 0, "kv_cache_spec_kind": "full_attention", "session_id": "s"}
    window = {"kv_cache_spec_kind": "sliding_window", "kv_cache_spec_sliding_window": 4}
    digest = (7).to_bytes(32, "big")
    events = [
        stored(module, "base", **full, lookahead_token_ids=[[4], [8]]),
        stored(module, "base", block_hashes=[digest], group_idx=1, **window),
        stored(module, "lora", extra_keys=[("tuned",), ("tuned",)], **lora, **full),
        stored(module, "lora and salt", extra_keys=[("tuned", "s"), ("tuned",)], **lora, **full),
        stored(module, "salt", extra_keys=[("s",), None], **full),
        stored(module, "picture", extra_keys=[None, (("0af1", 5),)], **full),
        stored(module, "next"),
        module.BlockRemoved(block_hashes=[1501], medium="GPU"),
        module.BlockRemoved(block_hashes=[digest], medium="GPU", group_idx=1),
    ]
    return [module.KVEventBatch(ts=1.5, events=events[:4]), *batches(module, events[4:])]


def of_sglang(module: ModuleType) -> list[Any]:
    """Batches as SGLang makes them: salts with each block, pairs of tokens with EAGLE."""
    pairs = [[token, token + 1] for token in tokens("base")]
    cpu = module.StorageMedium.CPU
    fields = inspect.signature(module.BlockStored).parameters
    events = [
        stored(module, "base", block_hashes=[-5, 6], token_ids=pairs, medium=cpu),
        stored(module, "next"),
        module.BlockRemoved(block_hashes=[1501], medium="GPU"),
    ]
    if "cache_salt" in fields:
        events.append(stored(module, "salt", cache_salt="s", session_id="x"))
    if "lora_name" in fields:
        events.append(stored(module, "lora", lora_name="tuned"))
        events.append(stored(module, "lora and salt", lora_name="tuned", cache_salt="s"))
    return batches(module, events)


def batches(module: ModuleType, events: list[Any]) -> list[Any]:
    """A batch for each event."""
    return [module.KVEventBatch(ts=2.5 + place, events=[e]) for place, e in enumerate(events)]


def recorded(module: ModuleType, published: list[Any]) -> tuple[list[list[str]], list[list[str]]]:
    """The frames that the engine's publisher sends, without a DEALER's empty one."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
    with tempfile.TemporaryDirectory() as folder:
        live, again = (context.socket(kind) for kind in (zmq.SUB, zmq.DEALER))
        live.subscribe(b"")
        addresses = f"ipc://{folder}/live", f"ipc://{folder}/replay"
        publisher = module.ZmqEventPublisher(0, *addresses, topic=TOPIC)
        live.connect(addresses[0])
        again.connect(addresses[1])
        monitor = live.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
        monitor.poll(10_000)
        while not live.poll(100):  # until the subscription has arrived
            publisher.publish(module.KVEventBatch(ts=0.5, events=[module.AllBlocksCleared()]))
        for batch in published:
            publisher.publish(batch)
        sent = [[frame.hex() for frame in live.recv_multipart()]]
        while len(sent) < 2 or sent[-1][2] != payload(published[-1]):
            sent.append([frame.hex() for frame in live.recv_multipart()])
        again.send_multipart([b"", bytes(8)])
        replayed = [[frame.hex() for frame in again.recv_multipart()[1:]]]
        while replayed[-1][-2] != "ff" * 8:
            replayed.append([frame.hex() for frame in again.recv_multipart()[1:]])
        publisher.shutdown()
        context.destroy(linger=0)
    return sent, replayed


def payload(batch: Any) -> str:
    """A batch as the publisher encodes it."""
    return bytes(msgspec.msgpack.encode(batch)).hex()


if __name__ == "__main__":
    main()
