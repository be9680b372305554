"""Hosts with several workers, or with a rate to them: what a network has in the place of one.

The host becomes a node that adds, as a switch does, and each of its workers a host of its own,
joined to that node by a link in shared memory: ``h0`` with two workers becomes ``h0``, ``h0.0`` and
``h0.1``. So the ranks of one host are one subtree of every plan, and nothing else handles
workers. Files keep the short form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from innet.topology.parts import Host, Interface, Link, Node, Switch

WORKER_PORT: Final = "mem0"
"""A worker's only port; those of its host's node are ``worker0``, ``worker1``, …."""


def worker_name(host: str, number: int) -> str:
    """The node of a host's worker: ``h0.1``."""
    return f"{host}.{number}"


def worker_names(host: str, workers: int) -> tuple[str, ...]:
    """The nodes of a host's workers."""
    return tuple(worker_name(host, number) for number in range(workers))


def expanded(
    nodes: Mapping[str, Node], links: Sequence[Link]
) -> tuple[dict[str, Node], tuple[Link, ...]]:
    """The nodes and links of a valid network, with a node for each worker.

    Links in memory come last, so that the others keep their numbers.
    """
    first_rank = _first_ranks(nodes)
    found: dict[str, Node] = {}
    memory: list[Link] = []
    for name, node in nodes.items():
        if not isinstance(node, Host):
            found[name] = node
            continue
        rank = first_rank.get(name)
        if not node.has_worker_nodes:
            found[name] = node.model_copy(update={"rank": rank})
            continue
        found[name] = Switch(name=name, cache_bytes=node.cache_bytes, machine=node.machine)
        for number, worker in enumerate(worker_names(name, node.workers)):
            worker_rank = None if rank is None else rank + number
            found[worker] = Host(name=worker, cache_bytes=node.cache_bytes, rank=worker_rank)
            memory.append(_memory_link(node, number, links))
    return found, (*links, *memory)


def _first_ranks(nodes: Mapping[str, Node]) -> dict[str, int]:
    """The rank of each host's first worker, where the hosts have ranks."""
    ranked = [
        (node.rank, name, node.workers)
        for name, node in nodes.items()
        if node.kind == "host" and node.rank is not None
    ]
    first: dict[str, int] = {}
    following = 0
    for _, name, workers in sorted(ranked):
        first[name] = following
        following += workers
    return first


def _memory_link(host: Host, number: int, links: Sequence[Link]) -> Link:
    # Packets of workers leave on the host's links: a larger one would not fit there.
    of_host = (link for link in links if host.name in link.nodes)
    mtus = [link.mtu_bytes for link in of_host if "mtu_bytes" in link.model_fields_set]
    given: dict[str, Any] = {"mtu_bytes": min(mtus)} if mtus else {}
    if host.memory_rate_bps is not None:
        given["rate_bps"] = host.memory_rate_bps
    return Link(
        a=Interface(node=worker_name(host.name, number), port=WORKER_PORT),
        b=Interface(node=host.name, port=f"worker{number}"),
        in_memory=True,
        **given,
    )


def collapsed(
    nodes: Mapping[str, Node], links: Sequence[Link], machines: Sequence[str]
) -> tuple[dict[str, Node], tuple[Link, ...]]:
    """The nodes and links as a file has them; the inverse of :func:`expanded`.

    Args:
        machines: the hosts in the order of their ranks.
    """
    workers_of: dict[str, list[Node]] = {}
    memory_rate_of: dict[str, float | None] = {}
    for link in links:
        if link.in_memory:
            memory_rate_of[link.b.node] = link.rate_bps
            workers_of.setdefault(link.b.node, []).append(nodes[link.a.node])
    workers = {worker.name for of_host in workers_of.values() for worker in of_host}
    found: dict[str, Node] = {}
    for name, node in nodes.items():
        if name not in machines:
            if name not in workers:
                found[name] = node
            continue
        ranks = workers_of.get(name, [node])
        has_rank = isinstance(ranks[0], Host) and ranks[0].rank is not None
        found[name] = Host(
            name=name,
            cache_bytes=node.cache_bytes,
            rank=machines.index(name) if has_rank else None,
            workers=len(ranks),
            memory_rate_bps=memory_rate_of.get(name),
            machine=node.machine,
        )
    return found, tuple(link for link in links if not link.in_memory)
