"""The engines behind the router: which are up, and how much work waits at each."""

from __future__ import annotations

import base64
import logging
import math
import time
from collections.abc import Collection
from dataclasses import dataclass, field

import aiohttp
import numpy as np

from innet.kv.events.index import Holding, Location
from innet.kv.events.routing import Costs, Prompt, Router

_INDEX_TIMEOUT = aiohttp.ClientTimeout(total=1.0)
"""An index that does not answer within it is as one that is down."""
_DOWN_S = 2.0
"""After an engine could not be reached, others are asked for so long."""

_CHECK_S = 5.0
"""Between looks at the members of an index that knows none of the engines."""

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Engine:
    """An OpenAI-compatible server.

    Attributes:
        name: as its member of the pool, or its events, are called.
        url: without ``/v1``.
        work_s: estimates of prompts that have no first token yet, by request.
        down_until_s: when it may be asked again.
        failure: why it did not answer the last request; empty: it did.
    """

    name: str
    url: str
    work_s: dict[int, float] = field(default_factory=dict)
    down_until_s: float = 0.0
    failure: str = ""

    @property
    def is_down(self) -> bool:
        """Whether others are asked."""
        return time.monotonic() < self.down_until_s

    def fail(self, error: Exception) -> None:
        """It did not answer; that is logged once for each reason."""
        self.down_until_s = time.monotonic() + _DOWN_S
        if isinstance(error, aiohttp.ClientResponseError):
            failure = f"what it sends is not HTTP. See what listens at {self.url}"
        elif isinstance(error, aiohttp.ServerDisconnectedError):
            failure = "it closes the connection in place of an answer. See what it logs"
        else:
            failure = str(error) or "it accepts requests, and is silent"
        if failure != self.failure:
            self.failure = failure
            _log.warning("engine %s does not answer: %s", self.name, failure)


@dataclass(frozen=True)
class BlockScope:
    """The blocks that a prompt can use, beside its tokens.

    Attributes:
        salt: of the prompt.
        lora: name of the adapter; ``None``: the base model.
    """

    salt: str = ""
    lora: str | None = None


class Placement:
    """Chooses engines for prompts, with what the pool's index knows."""

    def __init__(
        self,
        engines: list[Engine],
        router: Router,
        costs: Costs,
        index_url: str | None,
        model: str | None = None,
    ) -> None:
        """
        Args:
            engines: to choose from.
            router: that chooses.
            costs: of serving prompts.
            index_url: of ``innet kv index``; ``None``: nothing is known about blocks.
            model: as in the topics of events, if the index has blocks of several.
        """
        self.engines = engines
        self._router = router
        self._costs = costs
        self._index_url = index_url
        self._model = model
        self._failure = ""
        self._has_known_engines = False
        self._checked_s = -math.inf
        self._unknown_among: list[str] = []

    async def place(
        self,
        session: aiohttp.ClientSession,
        tokens: list[int],
        tried: Collection[Engine] = (),
        scope: BlockScope = BlockScope(),
    ) -> tuple[Engine, float]:
        """The engine for a prompt, and how long it probably computes it.

        Args:
            session: in which the index is asked.
            tokens: of the prompt.
            tried: not to be chosen. One that is down is chosen where all others are, too.
            scope: of the prompt's blocks.
        """
        location = await self._locate(session, tokens, scope)
        left = [engine for engine in self.engines if engine not in tried]
        able = [engine for engine in left if not engine.is_down] or left
        waits = [
            sum(engine.work_s.values()) if engine in able else math.inf for engine in self.engines
        ]
        number = self._router.choose(Prompt(tokens, location), waits)
        own = location.holdings[number].memory_tokens
        return self.engines[number], self._costs.serve_s(len(tokens), own, location.tokens)

    async def _locate(
        self, session: aiohttp.ClientSession, tokens: list[int], scope: BlockScope
    ) -> Location:
        """Without an answer of the index, no engine has a block."""
        names = [engine.name for engine in self.engines]
        nothing = Location(0, 0, tuple(Holding(name, 0, 0, 0, 0) for name in names))
        if self._index_url is None or not tokens:
            return nothing
        try:
            packed = base64.b64encode(np.asarray(tokens, "<u4").tobytes()).decode()
        except OverflowError:  # no engine has such tokens, and the one that is chosen says so
            return nothing
        body = {
            "packed": [packed],
            "members": names,
            "model": self._model,
            "salt": scope.salt,
            "lora": scope.lora,
        }
        try:
            url = f"{self._index_url}/v1/locate"
            async with session.post(url, json=body, timeout=_INDEX_TIMEOUT) as answer:
                document = await answer.json()
                if not answer.ok:
                    raise ValueError(document["error"])
                [found] = document["locations"]
        except (aiohttp.ClientError, TimeoutError, LookupError, TypeError, ValueError) as error:
            self._show_failure(str(error) or f"no answer from {self._index_url}")
            return nothing
        self._failure = ""
        await self._check_names(session, names)
        holdings = tuple(
            Holding(*(each[key] for key in Holding._fields)) for each in found["holdings"]
        )
        return Location(found["tokens"], found["block_tokens"], holdings)

    async def _check_names(self, session: aiohttp.ClientSession, names: list[str]) -> None:
        """Log that the index follows members, and none of them is called like an engine."""
        if self._has_known_engines or time.monotonic() < self._checked_s + _CHECK_S:
            return
        self._checked_s = time.monotonic()
        try:
            url = f"{self._index_url}/v1/members"
            async with session.get(url, timeout=_INDEX_TIMEOUT) as answer:
                members = sorted((await answer.json())["blocks"])
        except (aiohttp.ClientError, TimeoutError, LookupError, TypeError, ValueError):
            return  # look-ups tell whether the index answers
        self._has_known_engines = not {*names}.isdisjoint(members)
        if members and not self._has_known_engines and members != self._unknown_among:
            self._unknown_among = members
            _log.warning(
                "the index knows no engine %s, so none counts as having blocks; its members are "
                "%s. Name each engine like its member: --engine %s=URL",
                ", ".join(names),
                ", ".join(members),
                members[0],
            )

    def _show_failure(self, error: str) -> None:
        """Log why the index answers no look-ups, once for each reason."""
        if error != self._failure:
            self._failure = error
            _log.warning("requests are placed without the index: %s", error)
