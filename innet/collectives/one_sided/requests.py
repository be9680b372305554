"""Requests to the owner of an array, and the replies: JSON in records of one size.

The size is fixed because the node that fetches a tensor has to know its length. A requester numbers
its requests to each owner.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, Field, NonNegativeInt, TypeAdapter, field_validator

from innet.errors import CollectiveError
from innet.plans.element_types import dtype_called
from innet.validation_messages import StrictModel

RECORD_BYTES = 768
REQUESTS_IN_FLIGHT = 64
"""Requests from one rank to one owner that may be open, or unread, at once."""
REPLIES_KEPT = 2 * REQUESTS_IN_FLIGHT
"""All open requests are among so many numbers: each may be followed by its release."""

WhyRefused = Literal["late", "left", "mismatch", "overflow", "failed"]
"""``left``: the owner has left the group, so what is missing does not come."""
Combine = Literal["replace", "sum"]
"""How a put changes the elements: it replaces them, or adds to them."""
Rows = tuple[int, int]
"""First row and end, along the first axis."""


class GetRequest(StrictModel):
    """A request for the place of a snapshot, which the owner keeps for ``timeout_s``."""

    kind: Literal["get"] = "get"
    name: str
    timeout_s: float
    at_least: int
    behind: int


class PutRequest(StrictModel):
    """A request to fetch the requester's data and write it into the array."""

    kind: Literal["put"] = "put"
    name: str
    timeout_s: float
    dtype: str
    shape: tuple[int, ...]
    rows: Rows | None
    combine: Combine


class Release(StrictModel):
    """The requester does not need the snapshot of request ``of`` any more; no reply."""

    kind: Literal["release"] = "release"
    name: str
    of: int


Request = GetRequest | PutRequest | Release


class Located(StrictModel):
    """Reply to a get: the snapshot's version, place, type and shape."""

    kind: Literal["located"] = "located"
    version: int
    slot: int
    dtype: str
    shape: tuple[NonNegativeInt, ...]

    @field_validator("dtype")
    @classmethod
    def _of_plain_elements(cls, value: str) -> str:
        """Refuse types of Python objects: another rank's bytes must never become addresses."""
        try:
            dtype = dtype_called(value)
        except TypeError as error:
            raise ValueError(f"{value!r} is not a type of NumPy's") from error
        if dtype.hasobject:
            raise ValueError(f"{value!r} is a type of Python objects")
        return value


class Written(StrictModel):
    """Reply to a put: the version that it made."""

    kind: Literal["written"] = "written"
    version: int


class Refused(StrictModel):
    """Reply to a request that was not carried out; the array is unchanged."""

    kind: Literal["refused"] = "refused"
    why: WhyRefused
    text: str


Reply = Located | Written | Refused

_requests: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Field(discriminator="kind")])
_replies: TypeAdapter[Reply] = TypeAdapter(Annotated[Reply, Field(discriminator="kind")])


def empty_record() -> npt.NDArray[np.uint8]:
    """Memory for a record."""
    return np.zeros(RECORD_BYTES, np.uint8)


def encode(record: BaseModel) -> npt.NDArray[np.uint8]:
    """The record's bytes.

    Raises:
        CollectiveError: a name or shape in it is too long.
    """
    text = record.model_dump_json().encode()
    if len(text) > RECORD_BYTES:
        raise CollectiveError(
            f"the request has {len(text)} bytes, {RECORD_BYTES} is the limit: give the array a "
            "shorter name"
        )
    return np.frombuffer(text.ljust(RECORD_BYTES), np.uint8)


def refusal(why: WhyRefused, text: str) -> Refused:
    """A refusal whose text fits."""
    return Refused(why=why, text=text[: RECORD_BYTES // 3])


def decode_request(record: npt.NDArray[np.uint8]) -> Request:
    """The request in a record; pydantic's ``ValidationError`` when there is none."""
    return _requests.validate_json(record.tobytes())


def decode_reply(record: npt.NDArray[np.uint8]) -> Reply:
    """The reply in a record; pydantic's ``ValidationError`` when there is none."""
    return _replies.validate_json(record.tobytes())


@dataclass(frozen=True)
class Useless:
    """The last numbers of requests, and of data of puts, that are not needed any more."""

    requests: int
    puts: int


class RequestNumbers:
    """Numbers the requests to one owner. Thread-safe.

    The owner reads them in order, so a reply to one confirms that it has read all before.
    """

    def __init__(self, owner: int) -> None:
        self._owner = owner
        self._lock = threading.Lock()
        self._next = 0
        self._read = 0
        self._gets: set[int] = set()
        self._puts: set[int] = set()

    def take_get(self) -> int:
        """The number of a new get.

        Raises:
            CollectiveError: too many requests are open or unread.
        """
        return self._take(self._gets)

    def take_put(self) -> int:
        """The number of a new put.

        Raises:
            CollectiveError: too many requests are open or unread.
        """
        return self._take(self._puts)

    def take_release(self) -> int:
        """The number of a release, which has no reply; there is at most one for each get."""
        with self._lock:
            self._next += 1
            return self._next - 1

    def close(self, number: int, *, answered: bool) -> Useless:
        """Close request ``number``, to which no reply is awaited any more."""
        with self._lock:
            self._gets.discard(number)
            self._puts.discard(number)
            if answered:
                self._read = max(self._read, number + 1)
            return Useless(self._read - 1, min(self._puts, default=self._next) - 1)

    def _take(self, open_numbers: set[int]) -> int:
        with self._lock:
            oldest = min(*self._gets, *self._puts, self._read, self._next)
            if self._next - oldest >= REQUESTS_IN_FLIGHT:
                raise CollectiveError(
                    f"{REQUESTS_IN_FLIGHT} requests to rank {self._owner} are open; wait for some "
                    f"of them. If none ends, has rank {self._owner} called register()?"
                )
            number = self._next
            self._next += 1
            open_numbers.add(number)
            return number
