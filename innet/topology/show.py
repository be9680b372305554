"""A topology for people: as text for a terminal, and as a picture."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import groupby
from pathlib import Path
from typing import Final

import networkx as nx
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from innet import extras
from innet.quantities import format_duration, format_probability, format_size
from innet.topology.model import Topology
from innet.topology.parts import Link, Switch
from innet.topology.summary import counts, impairments, rate_text, tier_of_nodes, tiers

MAX_TREE_NODES: Final = 100
"""Larger trees are not drawn: the tables below them are easier to read."""


def draw(topology: Topology, path: str | Path) -> None:
    """Draw a topology into a file: by tiers if it has tiers, as a map otherwise.

    Squares are hosts, circles are switches. The title says the rate of the links; links that differ
    are labelled.

    Args:
        path: the picture; its extension (``.svg``, ``.png`` or ``.pdf``) is its format.
    """
    extras.require("matplotlib", "drawing a topology")
    # Here because matplotlib takes half a second to load, which text must not wait for.
    from innet.topology.picture import draw_picture

    draw_picture(topology, Path(path))


def describe(topology: Topology) -> RenderableType:
    """The parts of a topology, for :meth:`rich.console.Console.print`."""
    parts: list[RenderableType] = [
        Text.assemble((topology.name, "bold"), f": {counts(topology)}"),
    ]
    if len(topology.nodes) <= MAX_TREE_NODES and nx.is_tree(topology.graph()):
        parts.append(_tree(topology))
    parts += [_host_table(topology), _switch_table(topology), _link_table(topology)]
    return Group(*parts)


def text(topology: Topology, width: int = 100) -> str:
    """The parts of a topology as plain text of at most ``width`` columns."""
    out = StringIO()
    Console(file=out, width=width, color_system=None).print(describe(topology))
    return out.getvalue()


def _tree(topology: Topology) -> Tree:
    top = tiers(topology)[-1]
    root = next((name for name in top if topology.role_of(name) == "switch"), top[0])
    return _subtree(topology, Tree(_label(topology, root)), root, parent=None)


def _subtree(topology: Topology, tree: Tree, name: str, parent: str | None) -> Tree:
    for child in topology.graph()[name]:
        if child != parent:
            link = topology.link_between(name, child)
            label = Text.assemble(_label(topology, child), (f"  {rate_text(link)}", "dim"))
            _subtree(topology, tree.add(label), child, name)
    return tree


def _label(topology: Topology, name: str) -> Text:
    return Text(name, style="yellow" if topology.role_of(name) == "switch" else "cyan")


def _host_table(topology: Topology) -> Table:
    table = _table("Hosts", "ranks", "hosts", "attached to", "cache")
    graph = topology.graph()
    rows = [
        (", ".join(graph[name]) or "-", topology.nodes[name].cache_bytes) for name in topology.hosts
    ]
    rank = 0
    for (attached, cache_bytes), group in groupby(rows):
        names = topology.hosts[rank : rank + len(list(group))]
        last = rank + len(names) - 1
        ranks = str(rank) if last == rank else f"{rank}-{last}"
        table.add_row(ranks, _listed(names), attached, format_size(cache_bytes))
        rank = last + 1
    return table


def _switch_table(topology: Topology) -> Table:
    both = " and hosts with several workers" if topology.workers_of else ""
    table = _table(
        f"Switches{both}",
        "tier",
        "nodes" if both else "switches",
        "slots",
        "cache",
        "policy",
        "links",
    )
    graph = topology.graph()
    for tier, names in reversed(list(enumerate(tiers(topology)))[1:]):
        kinds: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for name in names:
            switch = topology.nodes[name]
            if isinstance(switch, Switch):
                cache = format_size(switch.cache_bytes)
                links = str(len(graph[name]))
                kinds[str(switch.slots), cache, switch.cache_policy, links].append(name)
        for settings, members in kinds.items():
            table.add_row(str(tier), _listed(members), *settings)
    return table


def _link_table(topology: Topology) -> Table:
    columns = ["count", "between", "rate", "delay", "loss", "queue", "mark", "mtu"]
    if any(link.impaired for link in topology.links):
        columns.append("impairments")
    table = _table("Links", *columns)
    for members, settings in _link_classes(topology):
        shown = ", ".join(f"{a}-{b}" for a, b in (link.nodes for link in members[:2]))
        between = shown if len(members) <= 2 else f"{shown}, …"
        table.add_row(*(str(len(members)), between, *settings)[: len(columns)])
    return table


def _link_classes(topology: Topology) -> Iterator[tuple[list[Link], tuple[str, ...]]]:
    """Links of the same tiers and settings together."""
    tier_of = tier_of_nodes(topology)
    classes: dict[tuple[tuple[int, ...], tuple[str, ...]], list[Link]] = defaultdict(list)
    for link in topology.links:
        tier_pair = tuple(sorted(tier_of[name] for name in link.nodes))
        classes[tier_pair, _link_settings(link)].append(link)
    for (_, settings), members in sorted(classes.items(), key=lambda item: item[0][0]):
        yield members, settings


def _link_settings(link: Link) -> tuple[str, ...]:
    return (
        rate_text(link),
        format_duration(link.delay_s),
        format_probability(link.loss),
        format_size(link.queue_bytes),
        format_size(link.mark_threshold_bytes),
        str(link.mtu_bytes),
        ", ".join(impairments(link)),
    )


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{names[0]}, {names[1]}, …, {names[-1]}"
