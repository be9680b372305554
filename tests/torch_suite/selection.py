"""Which of PyTorch's tests every run of the tests has; `make torch-suite` runs all."""

from __future__ import annotations

SELECTED = (
    # One of each kind: collectives of the whole and of a part of the ranks, ...
    "test_all_reduce_sum",
    "test_all_reduce_coalesced_group_max",
    "test_all_gather_v_cuda",
    "test_all_to_all_single_unequal_split_group",
    "test_reduce_scatter_v_cuda",
    "test_scatter_complex",
    "test_barrier_group",
    # ... messages, ...
    "test_batch_isend_irecv_ring_exchange_nccl",
    "test_send_recv_with_tag",
    # ... making and destroying groups, ...
    "test_destroy_full_group",
    "test_new_subgroups_by_enumeration",
    # ... and DistributedDataParallel, also where it fails as it should.
    "test_DistributedDataParallelCPU",
    "test_ddp_model_diff_shape_across_ranks",
    "test_static_graph_multi_forward",
)
