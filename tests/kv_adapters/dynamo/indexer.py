"""NVIDIA Dynamo's own indexer as a process: it follows streams of events, and answers over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import urllib.request
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from innet.kv.events.follower import Stream

BLOCK: Final = 16
"""Tokens of a block, for all of its models."""
MODEL_NAME: Final = "llama"
SALT_TAG: Final = "dynamo-cache-salt:"
"""Dynamo's frontend puts this before a salt, and its indexer takes no others for salts."""
POLL_S: Final = 0.05

Prefixes = dict[str, tuple[int, int]]
"""By member: tokens in memory, and on any medium."""


class DynamosIndex:
    """What follows some streams, until :func:`running` ends."""

    def __init__(self, port: int, streams: Sequence[Stream]) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self._streams = streams

    def register(self) -> None:
        """Let it follow all of the streams."""
        for number, stream in enumerate(self._streams):
            self._ask(
                "register", instance_id=number, model_name=MODEL_NAME, block_size=BLOCK,
                endpoint=stream.endpoints.events, replay_endpoint=stream.endpoints.replay,
            )  # fmt: skip

    def listen(self, verb: str) -> None:
        """``pause`` or ``resume``: what is published meanwhile is lost."""
        for number in range(len(self._streams)):
            self._ask(f"test/{verb}_listener", instance_id=number)

    def prefixes(self, tokens: Sequence[int], salt: str = "") -> Prefixes:
        """The members that have a prefix of a prompt."""
        salted = {"cache_salt": salt.removeprefix(SALT_TAG)} if salt else {}
        found = self._ask("query", token_ids=list(tokens), model_name=MODEL_NAME, **salted)
        return {
            self._streams[int(number)].name: (each["cpu"], each["disk"])
            for number, each in found["instances"].items()
            if each["disk"]
        }

    def is_up(self) -> bool:
        """Whether it answers."""
        try:
            with urllib.request.urlopen(f"{self._url}/health", timeout=30):
                return True
        except OSError:
            return False

    def _ask(self, path: str, **document: Any) -> Any:
        request = urllib.request.Request(
            f"{self._url}/{path}",
            json.dumps(document).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


@asynccontextmanager
async def running(port: int, streams: Sequence[Stream]) -> AsyncIterator[DynamosIndex]:
    """An indexer that follows these streams."""
    command = [sys.executable, "-m", "dynamo.indexer", "--port", str(port), "--threads", "1"]
    environment = {**os.environ, "DYN_KV_INDEXER_TEST_ENDPOINTS": "1"}
    process = await asyncio.create_subprocess_exec(*command, env=environment)
    try:
        index = DynamosIndex(port, streams)
        while not index.is_up():
            assert process.returncode is None, "the indexer ended"
            await asyncio.sleep(POLL_S)
        index.register()
        yield index
    finally:
        process.terminate()
        await process.wait()
