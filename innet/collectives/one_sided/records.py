"""What an asker and an owner say to each other: JSON in records of one size.

Of one size, because whoever fetches a tensor has to know how long it is.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, TypeAdapter, field_validator

from innet.errors import CollectiveError
from innet.plans.element_types import dtype_called

RECORD_BYTES = 768

Combine = Literal["replace", "sum"]
"""What a put does with the elements that are there."""
Rows = tuple[int, int]
"""First row and end, along the first axis."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GetRequest(_Record):
    """Say which snapshot to fetch, and keep it for ``timeout_s``."""

    kind: Literal["get"] = "get"
    name: str
    timeout_s: float
    at_least: int
    behind: int


class PutRequest(_Record):
    """Fetch what I offer and write it into the array."""

    kind: Literal["put"] = "put"
    name: str
    timeout_s: float
    dtype: str
    shape: tuple[int, ...]
    rows: Rows | None
    combine: Combine


class Release(_Record):
    """The snapshot of request ``of`` is not needed any more; no reply."""

    kind: Literal["release"] = "release"
    name: str
    of: int


Request = GetRequest | PutRequest | Release


class Located(_Record):
    """Reply to a get: the snapshot's version and place, and what it looks like."""

    kind: Literal["located"] = "located"
    version: int
    slot: int
    dtype: str
    shape: tuple[NonNegativeInt, ...]

    @field_validator("dtype")
    @classmethod
    def _of_plain_elements(cls, value: str) -> str:
        """What lands in an array are another rank's bytes: never the addresses of objects."""
        try:
            dtype = dtype_called(value)
        except TypeError as error:
            raise ValueError(f"{value!r} is no type of NumPy's") from error
        if dtype.hasobject:
            raise ValueError(f"{value!r} is a type of Python objects")
        return value


class Written(_Record):
    """Reply to a put: the version that it made."""

    kind: Literal["written"] = "written"
    version: int


class Refused(_Record):
    """Reply to what was not done, and the array is as it was."""

    kind: Literal["refused"] = "refused"
    why: Literal["late", "mismatch", "overflow", "failed"]
    text: str


Reply = Located | Written | Refused

_requests: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Field(discriminator="kind")])
_replies: TypeAdapter[Reply] = TypeAdapter(Annotated[Reply, Field(discriminator="kind")])

R = TypeVar("R", bound=BaseModel)


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


def refusal(why: Literal["late", "mismatch", "overflow", "failed"], text: str) -> Refused:
    """A refusal whose text fits."""
    return Refused(why=why, text=text[: RECORD_BYTES // 3])


def decode_request(record: npt.NDArray[np.uint8]) -> Request:
    """The request in a record; pydantic's ``ValidationError`` when there is none."""
    return _requests.validate_json(record.tobytes())


def decode_reply(record: npt.NDArray[np.uint8]) -> Reply:
    """The reply in a record; pydantic's ``ValidationError`` when there is none."""
    return _replies.validate_json(record.tobytes())
