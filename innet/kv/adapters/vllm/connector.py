"""vLLM's KV connector over a pool."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from vllm.config import VllmConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorHandshakeMetadata,
    KVConnectorMetadata,
    KVConnectorRole,
    KVConnectorTransferResults,
    KVConnectorWorkerMetadata,
    SupportsHMA,
)
from vllm.forward_context import ForwardContext
from vllm.v1.attention.backend import AttentionMetadata
from vllm.v1.core.kv_cache_manager import KVCacheBlocks
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.kv_cache_interface import KVCacheConfig
from vllm.v1.outputs import KVConnectorOutput
from vllm.v1.request import Request

from innet.errors import EmulationError
from innet.kv.adapters.engine_pool import Member, pool_of_process
from innet.kv.adapters.lookups import (
    CountPrefix,
    LookupClient,
    LookupServer,
    count_prefix,
    lookup_socket,
)
from innet.kv.adapters.vllm.cache_groups import attention_kernels
from innet.kv.adapters.vllm.cache_identity import (
    CacheIdentity,
    ConnectorOptions,
    StepTransfers,
    WorkerFacts,
)
from innet.kv.adapters.vllm.loaded_weights import LoadedWeights, adapter_files, identified
from innet.kv.adapters.vllm.scheduler_side import EngineRole, SchedulerSide
from innet.kv.adapters.vllm.worker_side import LayerCache, WorkerSide
from innet.kv.pool_options import PoolOptions


class InnetConnector(KVConnectorBase_V1, SupportsHMA):
    """Prompts' blocks in a pool: looked up by the scheduler, loaded and saved by the worker.

    vLLM creates the worker's side first, which joins the pool. The scheduler's side uses the same
    pool in the same process, and otherwise asks the worker's over a socket. With an address, each
    worker and the scheduler attach for themselves.

    A block that does not arrive, or does not verify, is reported as a block that failed to load;
    vLLM computes it if its ``kv_load_failure_policy`` is ``recompute``.

    Args:
        vllm_config: with the options of the pool and of
            :class:`~innet.kv.adapters.vllm.cache_identity.ConnectorOptions` in
            ``kv_connector_extra_config``.
        role: of this side.
        kv_cache_config: of the engine.

    Raises:
        KVError: an option is unknown or out of range, the connector does not support the engine, or
            this is a scheduler whose worker has not joined the pool.
        EmulationError: this process was not started by ``innet run``.
        HostTaken: this is a worker, and another process of this host has its node.
    """

    def __init__(
        self, vllm_config: VllmConfig, role: KVConnectorRole, kv_cache_config: KVCacheConfig
    ) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        options, pool = ConnectorOptions.read(
            "kv_connector_extra_config",
            self._kv_transfer_config.kv_connector_extra_config,
            engine="vllm",
        )
        engine_role = EngineRole(
            loads=self._kv_transfer_config.is_kv_consumer,
            saves=self._kv_transfer_config.is_kv_producer,
            announced_timeout_s=options.announced_timeout_s,
        )
        has_address = pool.get("address") is not None
        adapters = adapter_files(vllm_config)
        identity = partial(
            CacheIdentity, vllm_config, kv_cache_config, options, has_address=has_address
        )
        self._close = ExitStack()
        with ExitStack() as opened:
            if role is KVConnectorRole.WORKER:
                member = _enter(opened, pool, options)
                cache = identity(member.tenant)
                weights = LoadedWeights()
                weights.observe(adapters)
                blocks = kv_cache_config.num_blocks
                self._worker = WorkerSide(member, cache, options, blocks, weights)
                opened.callback(self._worker.close)
                if not has_address and (path := lookup_socket()) is not None:
                    opened.callback(LookupServer(member, path).close)
            else:
                tenant, counting = _lookups(opened, pool, options)
                cache = identity(tenant)
                self._loads_between_steps = options.load_between_steps or cache.loads_whole
                has_events = bool(pool.get("events"))
                self._scheduler = SchedulerSide(
                    counting,
                    cache,
                    engine_role,
                    lambda request: identified(adapters, request.lora_request),
                    has_events=has_events,
                )
            self._close = opened.pop_all()

    @classmethod
    def requires_piecewise_for_cudagraph(cls, extra_config: dict[str, Any]) -> bool:
        """Yes: a captured graph cannot wait for a layer."""
        return True

    # In the scheduler.

    def set_xfer_handshake_metadata(
        self, metadata: dict[int, KVConnectorHandshakeMetadata]
    ) -> None:
        """Name blocks as the workers do.

        Args:
            metadata: of each tensor-parallel rank.

        Raises:
            KVError: the ranks' blocks depend on different facts.
        """
        self._scheduler.adopt([each.facts for each in metadata.values()])

    @property
    def requires_kv_delivery(self) -> bool:
        """No: a chunk that was not saved is only a miss."""
        return False

    def get_num_new_matched_tokens(
        self, request: Request, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        tokens = self._scheduler.matched_tokens(request, num_computed_tokens)
        return tokens, bool(tokens) and self._loads_between_steps

    def update_state_after_alloc(
        self, request: Request, blocks: KVCacheBlocks, num_external_tokens: int
    ) -> None:
        self._scheduler.allocated(request, blocks, num_external_tokens)

    def build_connector_meta(self, scheduler_output: SchedulerOutput) -> KVConnectorMetadata:
        return self._scheduler.transfers(scheduler_output)

    def update_connector_output(self, connector_output: KVConnectorOutput) -> None:
        self._scheduler.loaded(connector_output)

    def request_finished(
        self, request: Request, block_ids: list[int]
    ) -> tuple[bool, dict[str, Any] | None]:
        """The blocks can be freed at once: chunks in flight are copies."""
        self._scheduler.finished(request)
        return False, None

    def request_finished_all_groups(
        self, request: Request, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        return self.request_finished(request, block_ids[0])

    # In the worker.

    def register_kv_caches(self, kv_caches: dict[str, LayerCache]) -> None:
        self._worker.register(kv_caches, attention_kernels(self._vllm_config))

    def get_handshake_metadata(self) -> KVConnectorHandshakeMetadata | None:
        """The facts in the names of this worker's blocks, for the scheduler."""
        return WorkerFacts(self._worker.facts)

    def bind_connector_metadata(self, connector_metadata: KVConnectorMetadata) -> None:
        super().bind_connector_metadata(connector_metadata)
        self._worker.begin_step(self._transfers())

    def start_load_kv(self, forward_context: ForwardContext, **kwargs: Any) -> None:
        self._worker.start(self._transfers())

    def wait_for_layer_load(self, layer_name: str) -> None:
        self._worker.wait_for_layer(layer_name)

    def save_kv_layer(
        self,
        layer_name: str,
        kv_layer: torch.Tensor,
        attn_metadata: AttentionMetadata,
        **kwargs: Any,
    ) -> None:
        self._worker.save_layer(layer_name)

    def wait_for_save(self) -> None:
        """Wait until chunks to save are copied, but not until they arrive at their homes."""
        self._worker.finish_step()

    def wait_until_saved(self) -> None:
        """Wait until all saved chunks have arrived at their homes, or were lost."""
        self._worker.wait_until_saved()

    def get_transfer_results(self, finished_req_ids: set[str]) -> KVConnectorTransferResults:
        loaded, failed = self._worker.take_loaded_requests()
        return KVConnectorTransferResults(finished_recving=loaded, failed_recving=failed)

    def get_block_ids_with_load_errors(self) -> set[int]:
        return self._worker.take_failed_blocks()

    def build_connector_worker_meta(self) -> KVConnectorWorkerMetadata | None:
        return self._worker.take_exclusions()

    def shutdown(self) -> None:
        """Leave the pool when all saved chunks have arrived at their homes. Safe to call twice."""
        self._close.close()

    def _transfers(self) -> StepTransfers:
        transfers = self._get_connector_metadata()
        assert isinstance(transfers, StepTransfers)
        return transfers


def _enter(opened: ExitStack, pool: PoolOptions, options: ConnectorOptions) -> Member:
    """The pool of this process, left at the end of ``opened``."""
    member = pool_of_process.enter(pool, options.members)
    opened.callback(pool_of_process.leave)
    return member


def _lookups(
    opened: ExitStack, pool: PoolOptions, options: ConnectorOptions
) -> tuple[str, CountPrefix]:
    """The tenant's component in names, and lookups until the end of ``opened``: in the pool of this
    process, which attaches to a standing one, or of the worker's."""
    if pool_of_process.is_open or pool.get("address") is not None:
        member = _enter(opened, pool, options)
        return member.tenant, lambda keys, wait: member.submit(
            count_prefix(member.blocks, keys, wait)
        )
    path = lookup_socket()
    if path is None:
        raise EmulationError(
            "vLLM's scheduler was not started by innet run, so there is no pool to look up blocks "
            "in. Give the address of a standing pool, or start vLLM with: innet run TOPOLOGY -- "
            "vllm serve ..."
        )
    client = LookupClient(path)
    opened.callback(client.close)
    return client.tenant, client.count_prefix
