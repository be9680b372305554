"""What an engine's configuration can say: the same keys for every adapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from innet.errors import KVError
from innet.kv.pool_options import DEFAULT_ENGINE, MemberOptions, PoolOptions


class AdapterOptions(BaseModel):
    """Options that are an adapter's own, beside those of its pool.

    Attributes:
        weights: identity of the model's weights, for which the user vouches: part of the blocks'
            names. Without it, a model in a local folder is identified by a hash of its files, and a
            model of a hub by its name.
        members: hosts with memory to offer that are waited for, 10 s at most, when the engine
            starts: blocks that are saved before all are known are not found by others.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    weights: str = ""
    members: int = Field(default=0, ge=0)

    @classmethod
    def read(
        cls, where: str, values: Mapping[str, Any], engine: str = DEFAULT_ENGINE
    ) -> tuple[Self, PoolOptions]:
        """The adapter's own options, and those of its pool.

        Args:
            where: they stand, for messages.
            engine: that the adapter is for, unless ``values`` name another.
            values: by key; keys are those of this class and of
                :class:`innet.kv.pool_options.PoolOptions`.

        Raises:
            KVError: a key is unknown, or a value none that it can have.
        """
        own = {key: value for key, value in values.items() if key in cls.model_fields}
        pool = {key: value for key, value in values.items() if key not in own}
        pool.setdefault("engine", engine)
        options = cast(PoolOptions, pool)
        try:
            checked = cls.model_validate(own)
            MemberOptions.of(options)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"]))
            raise KVError(f"{where}: {key}: {first['msg']}") from error
        except KVError as error:
            raise KVError(f"{where}: {error} (and {', '.join(cls.model_fields)})") from error
        return checked, options
