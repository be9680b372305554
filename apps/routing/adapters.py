"""The adapters of engines: which of them a request's model is, as the engines list their models."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from typing import Any, Final

import aiohttp

from routing.engines import Engine

_TIMEOUT: Final = aiohttp.ClientTimeout(total=1.0)
"""An engine that does not answer within it is not waited for: requests for adapters are rare."""
_REFRESH_S: Final = 5.0
"""Between lists: adapters are loaded while engines run, and clients send any name."""


class Adapters:
    """Adapters by the models that requests name.

    vLLM and SGLang list an adapter as a model with its base model in ``parent``. SGLang also takes
    ``BASE:ADAPTER`` as a model, and the adapter in ``lora_path``.
    """

    def __init__(self, engines: Sequence[Engine]) -> None:
        """``engines``: whose lists are read."""
        self._engines = engines
        self._parents: dict[str, str | None] = {}
        """Base models by model; ``None``: it is one."""
        self._read_s = -math.inf
        self._reading = asyncio.Lock()

    async def of_request(
        self, session: aiohttp.ClientSession, document: dict[str, Any]
    ) -> str | None:
        """The adapter's name in events; ``None``: the base model serves the request."""
        model, path = document.get("model"), document.get("lora_path")
        if isinstance(model, str):
            if self._unlisted(model):
                await self._read(session)
            if self._parents.get(model) is not None:
                return model
            base, adapter = self._split(model)
            if base and adapter:
                return adapter
        return path if isinstance(path, str) and path else None

    def _split(self, model: str) -> tuple[str, str]:
        """SGLang's two names in one, where the first is a listed base model."""
        for base, parent in self._parents.items():
            if parent is None and model.startswith(f"{base}:"):
                return base, model[len(base) + 1 :].strip()
        return "", ""

    def _unlisted(self, model: str) -> bool:
        return model not in self._parents and not self._split(model)[0]

    async def _read(self, session: aiohttp.ClientSession) -> None:
        """Read the lists of all engines, unless that was done just now."""
        async with self._reading:
            if time.monotonic() < self._read_s + _REFRESH_S:
                return
            able = [engine for engine in self._engines if not engine.is_down]
            lists = await asyncio.gather(*(_listed(session, engine) for engine in able))
            if any(lists):
                self._parents = {name: parent for each in lists for name, parent in each.items()}
            self._read_s = time.monotonic()


async def _listed(session: aiohttp.ClientSession, engine: Engine) -> dict[str, str | None]:
    """Parents by model; empty: the engine gives no list."""
    try:
        async with session.get(f"{engine.url}/v1/models", timeout=_TIMEOUT) as answer:
            cards = (await answer.json())["data"]
            return {str(card["id"]): card.get("parent") or None for card in cards}
    except (aiohttp.ClientError, TimeoutError, AttributeError, LookupError, TypeError, ValueError):
        return {}
