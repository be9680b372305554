"""Data that may be believed, though somebody else answers first."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from innet.errors import InterestRefused, InterestTimeout, SecurityError
from innet.names import Name
from innet.security.validation import ReceivedData, Validator

if TYPE_CHECKING:
    from innet.ndn.client import Client

_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.5


async def fetch_believed(
    client: Client,
    name: Name,
    validator: Validator | None,
    *,
    deadline_s: float,
    can_be_prefix: bool = False,
    refused: SecurityError | None = None,
) -> ReceivedData:
    """Fetch the Data ``name``. Answers that the validator refuses are dropped.

    After one, Interests have MustBeFresh, and pauses between them double. Innet's nodes never take
    a root manifest in their cache for fresh.

    Args:
        validator: in place of the client's.
        can_be_prefix: longer names are an answer; what caches have must be fresh from the start.
        refused: why the validator refused an answer before.

    Raises:
        SecurityError: no answer may be believed; says how many came.
        InterestTimeout: no answer came.
        InterestRefused: a forwarder said that none can come.
    """
    clock = asyncio.get_running_loop().time
    end_s = clock() + deadline_s
    answers = 0 if refused is None else 1
    pause_s = _FIRST_PAUSE_S
    while refused is None or clock() < end_s:
        try:
            return await client.express(
                name,
                validator=validator,
                can_be_prefix=can_be_prefix,
                must_be_fresh=can_be_prefix or refused is not None,
                deadline_s=max(end_s - clock(), 0.001),
            )
        except SecurityError as error:
            refused = error
            answers += 1
        except (InterestTimeout, InterestRefused):
            if refused is None:
                raise
            break
        await asyncio.sleep(min(pause_s, max(end_s - clock(), 0.0)))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    raise SecurityError(
        f"{name}: {answers} answers came within {deadline_s:g} s, and none may be believed; the "
        f"last: {refused}"
    ) from refused
