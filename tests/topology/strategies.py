"""Random topologies for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from innet.topology import Host, Interface, Link, Switch, Topology
from innet.topology.parts import Node

EXPRESSIONS = st.one_of(
    st.builds("star:{}".format, st.integers(1, 40)),
    st.builds("leaf-spine:{}x{}x{}".format, *[st.integers(1, 6)] * 3),
    st.builds("fat-tree:{}".format, st.sampled_from([2, 4, 6])),
    st.builds("dumbbell:{}".format, st.integers(1, 20)),
    st.builds("rails:{}x{}".format, st.integers(1, 12), st.integers(1, 4)),
    st.builds("wan:{}x{}x{}".format, st.integers(1, 15), st.integers(1, 3), st.integers(0, 99)),
)


@st.composite
def _links(draw: st.DrawFn, a: str, b: str, index: int) -> Link:
    mtu_bytes = draw(st.integers(576, 65000))
    queue_bytes = draw(st.integers(mtu_bytes, 2**40))
    reorder_delay_s = draw(st.just(0.0) | st.floats(0, 60))
    return Link(
        a=Interface(node=a, port=f"p{index}"),
        b=Interface(node=b, port=f"q{index}"),
        rate_bps=draw(st.none() | st.sampled_from([1e9, 2e8]) | st.floats(1e3, 1e13)),
        delay_s=draw(st.just(0.0) | st.floats(0, 60)),
        loss=draw(st.just(0.0) | st.floats(0, 0.99)),
        mtu_bytes=mtu_bytes,
        queue_bytes=queue_bytes,
        mark_bytes=draw(st.none() | st.integers(0, queue_bytes)),
        jitter_s=draw(st.just(0.0) | st.floats(0, 60)),
        reorder=draw(st.just(0.0) | st.floats(0, 1)) if reorder_delay_s else 0.0,
        reorder_delay_s=reorder_delay_s,
        duplicate=draw(st.just(0.0) | st.floats(0, 1)),
        corrupt=draw(st.just(0.0) | st.floats(0, 0.99)),
        subnet=draw(st.none() | st.sampled_from(["10.1.0.0/16", "fd00::/64"])),
    )


def _are_short(names: list[str]) -> bool:
    """Whether names leave room for those of workers, which are no other host's."""
    return all(len(name) < 30 and "." not in name for name in names)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Trees of up to four switches with up to six hosts, every setting drawn.

    Some hosts have several workers.
    """
    sizes = st.integers(0, 2**40)
    names = draw(
        st.lists(st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,31}", fullmatch=True),
                 min_size=2, max_size=10, unique=True)
    )  # fmt: skip
    switch_count = draw(st.integers(1, min(4, len(names) - 1)))
    host_names = names[switch_count:]
    ranks: list[int | None] = list(draw(st.permutations(range(len(host_names)))))
    if draw(st.booleans()):
        ranks = [None] * len(host_names)
    workers = st.integers(1, 3) if draw(st.booleans()) and _are_short(host_names) else st.just(1)
    nodes: dict[str, Node] = {
        name: Host(name=name, rank=rank, cache_bytes=draw(sizes), workers=draw(workers))
        for name, rank in zip(host_names, ranks, strict=True)
    }
    for name in names[:switch_count]:
        slots, policy = draw(st.integers(0, 2**24)), draw(st.sampled_from(["s3fifo", "lru"]))
        cache_bytes = draw(sizes)
        nodes[name] = Switch.model_validate(
            {"name": name, "slots": slots, "cache_bytes": cache_bytes, "cache_policy": policy}
        )
    links = tuple(
        draw(_links(name, names[draw(st.integers(0, min(index, switch_count) - 1))], index))
        for index, name in enumerate(names)
        if index
    )
    return Topology(name=draw(st.sampled_from(["t", "1", "on", "1e5"])), nodes=nodes, links=links)
