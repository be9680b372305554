"""Which model's blocks they are: all that makes a block of the same tokens another one.

A block is only right for the very model that it was computed with. So the model's digest stands in
the block's name, and whatever would make a block wrong is in the digest, which is the SHA-256 of

* a JSON document (RFC 8259) in ASCII, without white space, the keys of its objects in the order of
  their code points, numbers as Python's ``json`` writes them;
* an object with the fields of :class:`ModelIdentity`, and ``version``, which is
  :data:`IDENTITY_VERSION`.

What is *not* in it: which kernels compute attention, and on what device. Their results differ by
rounding, as those of one-shot and split prefills do; who wants no such mixture tells the kinds
apart with ``compute``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from innet.errors import KVError
from innet.plans.element_types import ELEMENT_TYPES

if TYPE_CHECKING:
    from transformers import PreTrainedModel

IDENTITY_VERSION: Final = 1
"""Of the document that is hashed, and of what its fields mean."""

_FULL_ATTENTION: Final = "full"


@dataclass(frozen=True, kw_only=True)
class ModelIdentity:
    """A model, as far as its keys and values depend on it.

    Attributes:
        architecture: the kind of model, such as ``llama``.
        weights: :func:`innet.kv.weights.weights_digest` of all tensors, or ``name@revision``, for
            which whoever says so vouches.
        configuration: the model's own, as far as it changes what is computed: norms' epsilons,
            activations, biases. Of whatever JSON can say.
        rope: parameters of the position encoding: its kind, base and scaling.
        compute: in which type, and by whatever else that matters, it computes: ``bf16``.
        cache_type: of the elements in the cache: ``f32``, ``f16``, ``bf16``, ``f8e4m3fn``, ... as
            :data:`innet.plans.element_types.ELEMENT_TYPES` calls them.
        cache_quantisation: how they were quantised, with the identity of the scales; empty if they
            were not.
        layers: in the model.
        kv_heads: in the cache of this rank.
        head_dim: elements of a key, and of a value.
        attention: of each layer, ``full``, ``sliding:4096`` (tokens) or the like; empty: all full.
        tensor_parallel_rank: which part of the heads this is.
        tensor_parallel_size: of how many.
        adapter: the identity of a LoRA adapter or the like; empty if there is none.
        tokenizer: the identity of the vocabulary, where ids of tokens could mean something else.

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
            KVError: a field cannot be right.
        """
        for name in ("architecture", "weights", "compute"):
            if not getattr(self, name):
                raise KVError(f"a model without {name} is like any other: say what they are")
        if self.cache_type not in ELEMENT_TYPES:
            raise KVError(
                f"there is no cache of {self.cache_type!r}; element types: "
                f"{', '.join(ELEMENT_TYPES)}"
            )
        for name in ("layers", "kv_heads", "head_dim"):
            if getattr(self, name) < 1:
                raise KVError(f"a model has at least one of {name}, not {getattr(self, name)}")
        if not 0 <= self.tensor_parallel_rank < self.tensor_parallel_size:
            raise KVError(
                f"there is no rank {self.tensor_parallel_rank} of {self.tensor_parallel_size}"
            )
        if self.attention and len(self.attention) != self.layers:
            raise KVError(
                f"{len(self.attention)} layers' attention is given for {self.layers} layers; give "
                "each layer's, or none if all attend to all tokens before"
            )
        self.canonical  # noqa: B018  (what JSON cannot say is refused now)

    @cached_property
    def canonical(self) -> bytes:
        """The bytes that are hashed.

        Raises:
            KVError: the configuration has values of which JSON knows nothing.
        """
        document = {each.name: getattr(self, each.name) for each in fields(self)}
        # "full" for each layer and nothing at all say the same.
        document["attention"] = list(self.attention or (_FULL_ATTENTION,) * self.layers)
        document["version"] = IDENTITY_VERSION
        _require_text_keys(document)
        try:
            text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise KVError(
                f"a model's configuration is what JSON can say, without NaN: {error}"
            ) from error
        return text.encode("ascii")

    @cached_property
    def digest(self) -> str:
        """What stands in the names of its blocks: 64 hexadecimal digits."""
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
                which takes a second for each 2 GB or so.
            adapter: of an adapter in the model, where its weights are not hashed.
            tokenizer: of the vocabulary.

        Raises:
            KVError: it is no such model, or one without weights; its cache is none of keys and
                values; or it has an adapter that neither a hash nor ``adapter`` tells from another.
        """
        if not (hasattr(model, "config") and hasattr(model, "state_dict")):
            raise KVError(
                f"a {type(model).__name__} is no model of transformers; give one, or describe any "
                "other with a ModelIdentity"
            )
        from innet.kv.transformers_model import identity_fields

        return cls(**identity_fields(model, weights, adapter), adapter=adapter, tokenizer=tokenizer)


def _require_text_keys(value: Any) -> None:
    """JSON would make texts of other keys, so that 1 and "1" were the same."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise KVError(f"the keys of a model's configuration are texts; got {key!r}")
            _require_text_keys(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _require_text_keys(inner)
