"""Every mistake in a file is reported with its file, its line, and what was expected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from innet.errors import TopologyError
from innet.topology import Topology, load_topology, parse_yaml

HEAD = "name: t\ntopology:\n"
NODES = HEAD + "  nodes:\n    h0: {kind: host}\n    h1: {kind: host}\n    s0: {kind: switch}\n"
LINKS = NODES + '  links:\n    - endpoints: ["h0:e0", "s0:e0"]\n'

MISTAKES = {
    "YAML syntax": (HEAD + "  nodes: [\n", 4, "not valid YAML"),
    "empty file": ("", None, "the file is empty"),
    "not a mapping": ("- a\n- b\n", 1, "expected a mapping of keys to values, found a list"),
    "no name": ("topology: {generate: {kind: star, hosts: 2}}", 1, "expected the key 'name'"),
    "name of a wrong type": ("name: 8\n" + HEAD[8:] + "  nodes: {}", 1, "expected text"),
    "unknown key": (HEAD + "  node: {}\n", 3, "unknown key 'node'; did you mean 'nodes'?"),
    "unknown key of a node": (HEAD + "  nodes:\n    s0:\n      kind: switch\n      slot: 4\n", 6,
                              "unknown key 'slot'; did you mean 'slots'?"),
    "duplicate node": (NODES + "    h0: {kind: host}\n", 7, "duplicate key 'h0'"),
    "duplicate rank": (HEAD + "  nodes:\n    a: {kind: host, rank: 0}\n"
                       "    b: {kind: host, rank: 0}\n  links: [{endpoints: [a:e, b:e]}]\n", 5,
                       "rank 0 of host 'b' is already that of 'a'"),
    "rank too high": (HEAD + "  nodes:\n    a: {kind: host, rank: 1}\n", 4, "expected 0 to 0"),
    "no worker": (HEAD + "  nodes:\n    a: {kind: host, workers: 0}\n", 4,
                  "workers: expected at least 1, found 0"),
    "too many workers": (HEAD + "  nodes:\n    a: {kind: host, workers: 257}\n", 4,
                         "workers: expected at most 256, found 257"),
    "workers of a switch": (HEAD + "  nodes:\n    s0: {kind: switch, workers: 2}\n", 4,
                            "unknown key 'workers'"),
    "a worker's name twice": (
        HEAD + "  nodes:\n    a: {kind: host, workers: 2}\n    a.1: {kind: host}\n"
        "  links: [{endpoints: [a:e, a.1:e]}]\n", 4,
        "worker 'a.1' of host 'a' has the name of another node; rename one of the two"),
    "too long a name of a worker": (
        HEAD + f"  nodes:\n    {'a' * 30}: {{kind: host, workers: 11}}\n", 4,
        "has a name of 33 characters, and 32 are allowed; give the host a shorter name"),
    "rank for some only": (HEAD + "  nodes:\n    a: {kind: host, rank: 0}\n"
                           "    b: {kind: host}\n", 5, "give every host a rank, or none"),
    "impossible name": (HEAD + "  nodes:\n    h 0: {kind: host}\n", 4, "a name of 1 to 32"),
    "too long a name": (HEAD + f"  nodes:\n    {'h' * 33}: {{kind: host}}\n", 4, "1 to 32"),
    **{
        f"a port named {name}": (NODES + f'  links:\n    - endpoints: ["h0:{name}", "s0:e0"]\n', 8,
                                "which mean interfaces of the kernel")
        for name in ("lo", "all", "default")
    },
    "no kind": (HEAD + "  nodes:\n    h0: {}\n", 4, "expected a mapping with the key 'kind'"),
    "unknown kind": (HEAD + "  nodes:\n    h0: {kind: router}\n", 4, "'host', 'switch'"),
    "node without settings": (HEAD + "  nodes:\n    h0:\n", 4, "found nothing"),
    "slots of a wrong type": (HEAD + "  nodes:\n    s0: {kind: switch, slots: many}\n", 4,
                              "expected a whole number, found 'many'"),
    "slots as truth": (HEAD + "  nodes:\n    s0: {kind: switch, slots: yes}\n", 4, "whole number"),
    "negative slots": (HEAD + "  nodes:\n    s0: {kind: switch, slots: -1}\n", 4, "at least 0"),
    "unknown cache policy": (HEAD + "  nodes:\n    s0: {kind: switch, cache-policy: fifo}\n", 4,
                             "expected 's3fifo' or 'lru', found 'fifo'"),
    "no hosts": (HEAD + "  nodes:\n    s0: {kind: switch}\n", 3, "one node of kind 'host'"),
    "unknown node": (LINKS + '    - endpoints: ["h1:e0", "s1:e0"]\n', 9,
                     "unknown node 's1'; nodes are 'h0', 'h1', 's0'"),
    "port used twice": (LINKS + '    - endpoints: ["h1:e0", "s0:e0"]\n', 9,
                        "port s0:e0 is used twice"),
    "impossible port": (LINKS + '    - endpoints: ["h1:e0", "s0:"]\n', 9, "expected a port name"),
    "port longer than a kernel's": (LINKS + '    - endpoints: ["h1:e0123456789abcdef", "s0:e1"]\n',
                                    9, "1 to 15 characters"),
    "endpoint without a port": (LINKS + '    - endpoints: ["h1", "s0:e1"]\n', 9, '"node:port"'),
    "one endpoint": (LINKS + '    - endpoints: ["h1:e0"]\n', 9, "at least 2 entries, found 1"),
    "link to itself": (LINKS + '    - endpoints: ["s0:e1", "s0:e2"]\n', 9, "a node to itself"),
    "parallel links": (LINKS + '    - endpoints: ["h0:e1", "s0:e1"]\n', 9, "parallel links"),
    "host with two links": (LINKS + '    - endpoints: ["h0:e1", "h1:e1"]\n', 9,
                            "host 'h0' has 2 links, one of them to a host; hosts forward nothing"),
    "only a host between rails": (
        "name: n\ntopology:\n  nodes:\n" + "".join(
            f"    {name}: {{kind: {kind}}}\n" for kind, names in
            (("host", ("a", "b", "c")), ("switch", ("r0", "r1"))) for name in names
        ) + "  links:\n" + "".join(
            f'    - endpoints: ["{host}:e{rail}", "r{rail}:{host}"]\n'
            for host, rail in (("a", 0), ("b", 0), ("b", 1), ("c", 1))
        ), 4, "no path over switches leads from 'a' to 'c'"),
    "disconnected": (LINKS, 5, "falls into 2 parts; 'h1' cannot reach the rest"),
    "zero rate": (LINKS + "      rate: 0mbit\n", 9, "expected a rate from 1kbit to 10tbit"),
    "negative rate": (LINKS + "      rate: -1mbit\n", 9, "expected a rate with a unit"),
    "rate without unit": (LINKS + "      rate: 200\n", 9, "such as 200mbit or 1gbit (units"),
    "delay without unit": (LINKS + "      delay: 10\n", 9, "expected a duration with a unit"),
    "loss of everything": (LINKS + "      loss: 100%\n", 9, "expected a loss of at most 99%"),
    "corruption of everything": (LINKS + "      corrupt: 1\n", 9, "corrupted share of at most 99%"),
    "more than every packet": (LINKS + "      duplicate: 101%\n", 9, "expected a probability"),
    "jitter without unit": (LINKS + "      jitter: 10\n", 9, "expected a duration with a unit"),
    "an address for a subnet": (LINKS + "      subnet: 10.1.0.5/16\n", 9, "expected an IP network"),
    "reordering by no time": (LINKS + "      reorder: 1%\n", 8, "set reorder-delay beside reorder"),
    "endless delay": (LINKS + "      delay: .inf\n", 9, "expected a duration"),
    "tiny mtu": (LINKS + "      mtu: 100\n", 9, "expected a size from 576 to 65000"),
    "queue below a packet": (LINKS + "      queue: 1KiB\n", 8, "at least one packet"),
    "nodes and generate": (NODES + "  generate: {kind: star, hosts: 2}\n", 2, "found both"),
    "neither": (HEAD + "  defaults: {}\n", 2, "found neither"),
    "unknown generator": (HEAD + "  generate: {kind: ring}\n", 3, "found 'ring'"),
    "odd fat tree": (HEAD + "  generate: {kind: fat-tree, k: 3}\n", 3, "multiple of 2, found 3"),
    "too large": (HEAD + "  generate: {kind: leaf-spine, leaves: 9999, spines: 9999, "
                  "hosts-per-leaf: 1}\n", 3, "smaller network"),
    "bad default": (HEAD + "  defaults:\n    link: {rate: fast}\n", 4, "expected a rate"),
    "a tag": (HEAD + "  nodes: !!python/object:os.system {}\n", 3, "has no meaning here"),
    "a collection as key": ("? [a]\n: b\n", 1, "found a collection as a key"),
    "recursion": ("name: &a [*a]\n", 1, "nested too deeply"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_reported_with_its_place(mistake: str) -> None:
    text, line, message = MISTAKES[mistake]
    path = Path("net.yaml")
    with pytest.raises(TopologyError) as caught:
        parse_yaml(text, path)
    assert message in str(caught.value)
    assert (caught.value.path, caught.value.line) == (path, line)
    assert str(caught.value).startswith("net.yaml:")


def test_the_first_of_several_mistakes_is_reported() -> None:
    with pytest.raises(TopologyError) as caught:
        parse_yaml(HEAD + "  nodes:\n    a: {kind: x}\n    b: {kind: y}\n")
    assert caught.value.line == 4


def test_endlessly_expanding_aliases_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 12):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]")
    with pytest.raises(TopologyError, match="once aliases unfold"):
        parse_yaml("\n".join(lines))


WORDS = st.sampled_from([
    "name", "topology", "nodes", "links", "generate", "defaults", "kind", "host", "switch", "slots",
    "endpoints", "rate", "loss", "mtu", "h0", "s0", "h0:e0", "s0:e0", "1mbit", "1%", "0", "-1",
    "9000", "star", "hosts", "k", "fat-tree", "fat_tree", "null", "true", ".nan",
])  # fmt: skip
TREES = st.recursive(
    WORDS | st.integers() | st.floats() | st.none() | st.booleans() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=20,
)


def is_read_or_refused(read: Callable[[str], Topology], text: str) -> bool:
    try:
        return isinstance(read(text), Topology)
    except TopologyError as refusal:
        return bool(str(refusal))


@settings(max_examples=100, deadline=None)
@given(TREES)
def test_arbitrary_yaml_is_a_topology_or_a_topology_error(tree: object) -> None:
    assert is_read_or_refused(parse_yaml, repr(tree).replace("None", "null"))
    assert is_read_or_refused(parse_yaml, f"name: t\ntopology: {tree!r}")
    assert is_read_or_refused(
        parse_yaml, f"name: t\ntopology: {{nodes: {tree!r}, links: {tree!r}}}"
    )


@settings(max_examples=100, deadline=None)
@given(st.text() | st.text(alphabet="ab01:-[]{}&*!?|>%@'\"\\\n #,.xuU"))
def test_arbitrary_text_is_a_topology_or_a_topology_error(text: str) -> None:
    assert is_read_or_refused(parse_yaml, text)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_damaged_file_is_a_topology_or_a_topology_error(data: st.DataObject) -> None:
    text = LINKS + '    - {endpoints: ["h1:e0", "s0:e1"], rate: 1mbit, loss: 1%}\n'
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    damaged = text[:start] + data.draw(st.text(max_size=4)) + text[end:]
    assert is_read_or_refused(parse_yaml, damaged)


@settings(max_examples=80, deadline=None)
@given(st.text() | st.from_regex(r"[a-z-]{1,10}:[0-9x]{0,12}", fullmatch=True))
def test_an_arbitrary_name_is_a_topology_or_a_topology_error(name: str) -> None:
    assert is_read_or_refused(load_topology, name)
