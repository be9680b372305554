"""The speed of this machine: measured once, cached, and the same for all ranks of a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from innet.cluster.launch import calibration
from innet.cluster.launch.calibration import MachineSpeed, machine_speed
from innet.cluster.launch.network_costs import network_costs
from innet.settings import SecuritySettings, Settings, Signature, TransportSettings
from innet.topology import load_topology


@pytest.fixture(scope="module")
def speed() -> MachineSpeed:
    return MachineSpeed.measure()


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, speed: MachineSpeed) -> list[MachineSpeed]:
    """Whenever the speed is measured, it is added here."""
    found: list[MachineSpeed] = []

    def measure() -> MachineSpeed:
        found.append(speed)
        return speed

    monkeypatch.setattr(MachineSpeed, "measure", measure)
    return found


def test_every_operation_of_a_node_has_a_positive_cost(speed: MachineSpeed) -> None:
    times_s = speed.model_dump(exclude={"signatures", "datagram_byte_s"})
    assert all(time_s > 0 for time_s in times_s.values()), times_s
    assert speed.signatures.keys() == set(get_args(Signature))
    assert speed.signatures["ed25519"].packet_s > speed.signatures["gmac"].packet_s > 0


def test_costs_are_measured_once(tmp_path: Path, measured: list[MachineSpeed]) -> None:
    folder = tmp_path / "not" / "yet"
    assert machine_speed(folder) == machine_speed(folder) == measured[0]
    assert len(measured) == 1
    assert len(list(folder.iterdir())) == 1  # no temporary file stays


def test_a_different_processor_kernel_or_build_is_measured_again(
    tmp_path: Path, measured: list[MachineSpeed], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine_speed(tmp_path)
    monkeypatch.setattr(calibration, "processor_name", lambda: "another")
    machine_speed(tmp_path)
    monkeypatch.setattr("platform.release", lambda: "another")
    machine_speed(tmp_path)
    assert len(measured) == 3


def _without(document: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != key}


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda text: text[: len(text) // 2],
        lambda _: b"\xff\x00",
        lambda _: b"[]",
        lambda text: json.dumps(_without(json.loads(text), "wake_up_s")).encode(),
        lambda text: json.dumps(json.loads(text) | {"wake_up_s": -1}).encode(),
        lambda text: json.dumps(json.loads(text) | {"wake_up_s": float("nan")}).encode(),
        lambda text: json.dumps(json.loads(text) | {"signatures": {}}).encode(),
        lambda _: b"[" * (1 << 20),
    ],
    ids=["empty", "half", "binary", "list", "without", "negative", "nan", "unsigned", "huge"],
)
def test_a_damaged_cache_is_replaced(
    tmp_path: Path, measured: list[MachineSpeed], damage: Any
) -> None:
    machine_speed(tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert machine_speed(tmp_path) == measured[0]
    assert len(measured) == 2
    assert path.read_bytes() == whole


def test_an_inaccessible_cache_is_not_used(
    tmp_path: Path, measured: list[MachineSpeed], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    machine_speed(in_the_way)
    machine_speed(in_the_way / "folder")
    machine_speed(tmp_path / "cache")
    (path,) = (tmp_path / "cache").iterdir()
    path.unlink()
    path.mkdir()
    machine_speed(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == [path]
    monkeypatch.setattr(calibration, "cache_folder", lambda: None)
    machine_speed()
    assert len(measured) == 5


def test_costs_depend_on_the_links_and_settings_of_the_network(
    speed: MachineSpeed,
) -> None:
    free, shaped = (load_topology("star8").with_overrides(rate_bps=rate) for rate in (None, 1e9))
    settings = Settings()
    in_memory = network_costs(free, "local", settings, speed)
    by_kernel = network_costs(free, "netns", settings, speed)
    sockets = Settings(transport=TransportSettings(shared_memory=False))
    assert by_kernel.packet_s > in_memory.packet_s
    # But for the segments: only links of netns mode carry several datagrams together.
    alike = by_kernel.model_copy(update={"bulk_segment_bytes": 0})
    assert network_costs(free, "local", sockets, speed) == alike
    # Links in shared memory without a rate carry no MACs.
    assert in_memory.signature_s == 0 < by_kernel.signature_s
    assert network_costs(shaped, "local", settings, speed).signature_s > 0
    signed = Settings(security=SecuritySettings(signature="ed25519"))
    assert network_costs(free, "local", signed, speed).signature_s > by_kernel.signature_s
    assert network_costs(free, "local", settings, speed) == in_memory


def test_all_ranks_of_a_launched_network_have_the_same_costs(run_job: Any) -> None:
    result = run_job("chooses.py", topology="star:4", algorithm="auto")
    assert not result.failure
    said = {result.said(host) for host in ("h0", "h1", "h2", "h3")}
    assert len(said) == 1
    document = json.loads(said.pop())
    expected = network_costs(load_topology("star:4"), "local", Settings(), machine_speed())
    assert document["processor"] == expected.model_dump()
    assert "of the processors" in document["why"]
