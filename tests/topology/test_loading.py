"""Topologies are found by file, by name and by expression; what ships with innet is sound."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from innet.errors import TopologyError
from innet.topology import json_schema, load_topology, shipped_topologies

REPOSITORY = Path(__file__).parents[2]
SIZES = {
    "dumbbell-8": (8, 2, 9),
    "fat-tree-4": (16, 20, 48),
    "leaf-spine-16": (16, 6, 24),
    "star4": (4, 1, 4),
    "star8": (8, 1, 8),
    "wan": (6, 6, 14),
}


@pytest.mark.parametrize("name", SIZES)
def test_a_shipped_topology_loads_by_name(name: str) -> None:
    topology = load_topology(name)
    assert topology.name == name
    assert (len(topology.hosts), len(topology.switches), len(topology.links)) == SIZES[name]
    assert all(link.rate_bps is not None for link in topology.links)
    assert load_topology(f"{name}.yaml") == topology


def test_the_list_of_shipped_topologies_is_complete() -> None:
    assert set(shipped_topologies()) == set(SIZES)


def test_star8_has_links_of_1_gbit_and_jumbo_frames() -> None:
    assert {(link.rate_bps, link.mtu_bytes) for link in load_topology("star8").links} == {
        (1e9, 9000)
    }


def test_the_committed_schema_is_current() -> None:
    committed = json.loads((REPOSITORY / "topologies/schema.json").read_text(encoding="utf-8"))
    assert committed == json_schema(), "run: python scripts/schemas.py"


@pytest.mark.parametrize("name", SIZES)
def test_shipped_topologies_satisfy_the_schema(name: str) -> None:
    document = YAML(typ="safe", pure=True).load(shipped_topologies()[name])
    assert not list(jsonschema.Draft202012Validator(json_schema()).iter_errors(document))


@pytest.mark.parametrize(
    "document",
    [
        {"name": "t"},
        {"name": "no spaces", "topology": {"generate": {"kind": "star", "hosts": 2}}},
        {"name": "t", "topology": {"nodes": {"s0": {"kind": "switch", "slot": 4}}}},
        {"name": "t", "topology": {"generate": {"kind": "star", "hosts": 0}}},
        {"name": "t", "topology": {"nodes": {}, "links": [{"endpoints": ["h0", "s0"]}]}},
    ],
    ids=str,
)
def test_the_schema_refuses_what_the_reader_refuses(document: object) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(json_schema()).validate(document)


def test_a_file_takes_precedence_over_a_shipped_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "name: mine\ntopology: {generate: {kind: star, hosts: 2}}"
    (tmp_path / "star8.yaml").write_text(text, encoding="utf-8")
    assert load_topology("star8.yaml").name == "mine"
    assert load_topology("star8").name == "star8"


def test_a_missing_file_is_refused_with_the_shipped_names() -> None:
    with pytest.raises(TopologyError) as caught:
        load_topology("star9")
    message = str(caught.value)
    assert "did you mean 'star8'?" in message
    assert "wan" in message
    assert "leaf-spine:LEAVESxSPINESxHOSTS-PER-LEAF" in message


@pytest.mark.parametrize(
    ("file_name", "content", "message"),
    [
        ("net.txt", b"", "unknown extension '.txt'; expected .yaml, .yml, .conf, .graphml"),
        ("net.yaml", b"\xff\xfe\x00", "expected UTF-8 text"),
        ("net.conf", b" " * (16 * 2**20 + 1), "larger than 16 MiB"),
    ],
)
def test_a_file_that_is_not_a_topology_is_refused(
    tmp_path: Path, file_name: str, content: bytes, message: str
) -> None:
    (tmp_path / file_name).write_bytes(content)
    with pytest.raises(TopologyError) as caught:
        load_topology(tmp_path / file_name)
    assert message in str(caught.value)
    assert caught.value.path == tmp_path / file_name
