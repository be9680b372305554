"""Identity of a model: everything but the tokens that its blocks depend on.

A block is correct only for the model that computed it. So the model's digest is part of the block's
name, and covers whatever would make a block wrong. It is the SHA-256 of

* a JSON document (RFC 8259) in ASCII, without white space, the keys of its objects in the order of
  their code points, numbers as Python's ``json`` writes them;
* an object with the fields of :class:`ModelIdentity`, and ``version``, which is
  :data:`IDENTITY_VERSION`.

*Not* in it: which kernels compute attention, and on what device. Their results differ by rounding,
as those of one-shot and split prefills do; to keep such blocks apart, give different ``compute``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from innet.errors import KVError
from innet.plans.element_types import ELEMENT_TYPES

if TYPE_CHECKING:
    from transformers import PreTrainedModel

IDENTITY_VERSION: Final = 1
"""Version of the hashed document and of the meaning of its fields."""

_FULL_ATTENTION: Final = "full"


Weight = tuple[str, str, tuple[int, ...], npt.NDArray[Any]]
"""A tensor: its name, the name of its type, its shape, and its contents in an array of any type."""

_LENGTH_BYTES = 8


def weights_digest(tensors: Iterable[Weight]) -> str:
    """The identity of weights: ``sha256:`` and 64 hexadecimal digits.

    The SHA-256 of all tensors in the order of their names, of each: its name, the name of its type,
    its shape as text (``4x8``) and its bytes, each with its length in 8 bytes before it.

    Args:
        tensors: in any order.

    >>> weights_digest([("w", "f32", (2,), np.zeros(2, np.float32))])[:7]
    'sha256:'
    """

    def parts() -> Iterator[str | memoryview]:
        for name, dtype, shape, contents in sorted(tensors, key=lambda tensor: tensor[0]):
            yield from (name, dtype, "x".join(map(str, shape)))
            yield np.ascontiguousarray(contents).reshape(-1).view(np.uint8).data

    return f"sha256:{digest_of(parts()).hex()}"


def digest_of(parts: Iterable[str | bytes | memoryview]) -> bytes:
    """The SHA-256 of parts, each with its length in 8 bytes before it.

    >>> digest_of(["ab", "c"]) == digest_of(["a", "bc"])
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(_LENGTH_BYTES, "big"))
        digest.update(data)
    return digest.digest()


def canonical_json(document: Mapping[str, Any], what: str) -> bytes:
    """JSON in ASCII, without white space and with sorted keys.

    Raises:
        KVError: JSON cannot express ``document``, which is ``what``.
    """
    try:
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise KVError(f"{what} must be JSON, without NaN: {error}") from error
    return text.encode("ascii")


@dataclass(frozen=True, kw_only=True)
class ModelIdentity:
    """The properties of a model on which its keys and values depend.

    Attributes:
        architecture: the kind of model, such as ``llama``.
        weights: :func:`weights_digest` of all tensors, or ``name@revision``, for
            which the caller vouches.
        configuration: the model's own, as far as it changes what is computed: norms' epsilons,
            activations, biases. Any JSON values.
        rope: parameters of the position encoding: its kind, base and scaling.
        compute: the type in which it computes, ``bf16``, with whatever else matters.
        cache_type: of the elements in the cache: ``f32``, ``f16``, ``bf16``, ``f8e4m3fn``, ... as
            :data:`innet.plans.element_types.ELEMENT_TYPES` calls them.
        cache_quantisation: method and identity of the scales; empty without quantisation.
        layers: in the model.
        kv_heads: in the cache of this rank.
        head_dim: elements of a key, and of a value.
        attention: for each layer ``full``, ``sliding:4096`` (tokens) or the like; empty: all full.
        tensor_parallel_rank: which part of the heads this is.
        tensor_parallel_size: of how many.
        adapter: identity of a LoRA adapter or the like; empty if there is none.
        tokenizer: identity of the vocabulary, if token ids could mean something else.

    Example:
        >>> identity = ModelIdentity(
        ...     architecture="llama", weights="tiny@1", compute="f32", cache_type="f32",
        ...     layers=2, kv_heads=1, head_dim=8,
        ... )
        >>> len(identity.digest), identity.dtype
        (64, dtype('float32'))
    """

    architecture: str
    weights: str
    compute: str
    cache_type: str
    layers: int
    kv_heads: int
    head_dim: int
    configuration: Mapping[str, Any] = field(default_factory=dict)
    rope: Mapping[str, Any] = field(default_factory=dict)
    cache_quantisation: str = ""
    attention: tuple[str, ...] = ()
    tensor_parallel_rank: int = 0
    tensor_parallel_size: int = 1
    adapter: str = ""
    tokenizer: str = ""

    def __post_init__(self) -> None:
        """
        Raises:
            KVError: a field is invalid.
        """
        for name in ("architecture", "weights", "compute"):
            if not getattr(self, name):
                raise KVError(f"a model's identity needs {name}: without, blocks of two models mix")
        if self.cache_type not in ELEMENT_TYPES:
            raise KVError(
                f"invalid cache_type {self.cache_type!r}; element types: {', '.join(ELEMENT_TYPES)}"
            )
        for name in ("layers", "kv_heads", "head_dim"):
            if getattr(self, name) < 1:
                raise KVError(f"{name} of a model is at least 1, not {getattr(self, name)}")
        if not 0 <= self.tensor_parallel_rank < self.tensor_parallel_size:
            raise KVError(
                f"invalid tensor_parallel_rank {self.tensor_parallel_rank}, expected 0 to "
                f"{self.tensor_parallel_size - 1}"
            )
        if self.attention and len(self.attention) != self.layers:
            raise KVError(
                f"attention has {len(self.attention)} entries for {self.layers} layers; give one "
                "for each layer, or none if all layers have full attention"
            )
        self.canonical  # noqa: B018  (raises if JSON cannot express it)

    @cached_property
    def canonical(self) -> bytes:
        """The hashed bytes.

        Raises:
            KVError: the configuration has values that JSON cannot express.
        """
        document = {each.name: getattr(self, each.name) for each in fields(self)}
        # "full" for each layer and an empty tuple mean the same.
        document["attention"] = list(self.attention or (_FULL_ATTENTION,) * self.layers)
        document["version"] = IDENTITY_VERSION
        _require_text_keys(document)
        return canonical_json(document, "a model's configuration")

    @cached_property
    def digest(self) -> str:
        """Its component in the names of blocks: 64 hexadecimal digits."""
        return hashlib.sha256(self.canonical).hexdigest()

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's (or ml_dtypes') type of the elements in the cache."""
        return ELEMENT_TYPES[self.cache_type].dtype

    @classmethod
    def of_transformers(
        cls,
        model: PreTrainedModel,
        *,
        weights: str | None = None,
        adapter: str = "",
        tokenizer: str = "",
    ) -> ModelIdentity:
        """The identity of a model of the library ``transformers``.

        Args:
            model: whose cache is kept in the type in which it computes.
            weights: ``name@revision``, for which you vouch; by default all weights are hashed,
                which takes about a second for each 2 GB.
            adapter: identity of an adapter in the model, if its weights are not hashed.
            tokenizer: identity of the vocabulary.

        Raises:
            KVError: it is not such a model, or has no weights; its cache does not consist of keys
                and values; or neither a hash nor ``adapter`` identifies its adapter.
        """
        if not (hasattr(model, "config") and hasattr(model, "state_dict")):
            raise KVError(
                f"a {type(model).__name__} is not a model of transformers; give one, or describe "
                "the model with a ModelIdentity"
            )
        if weights is not None and not adapter and getattr(model, "_hf_peft_config_loaded", False):
            raise KVError(
                f"the model has an adapter beside the weights {weights}: give its identity too "
                "(adapter=...), or leave weights out, so that all are hashed"
            )
        from innet.kv.transformers_model import identity_fields, tensors_of

        return cls(
            **identity_fields(model),
            weights=weights or weights_digest(tensors_of(model)),
            adapter=adapter,
            tokenizer=tokenizer,
        )


def _require_text_keys(value: Any) -> None:
    """JSON converts other keys to strings, which would make 1 and "1" the same."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise KVError(f"invalid key {key!r} in a model's configuration, expected a string")
            _require_text_keys(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _require_text_keys(inner)
