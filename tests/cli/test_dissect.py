"""``innet dissect``: files of ours and of others, in lines and trees."""

from __future__ import annotations

from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import wrpcap, wrpcapng
from typer.testing import CliRunner

from innet.cli.main import app
from innet.observe.packets.layers import data, interest, link, manifest_content

_NAME = "/t/g0/0-3/sum.f32/seq=4/seg=1"


@pytest.fixture
def frames() -> list[Packet]:
    """An Interest, its refusal, a manifest, and something that is no NDN."""
    found = []
    for number, packet in enumerate(
        (
            interest(_NAME),
            link(interest(_NAME), nack=200),
            data("/o/32=manifest/seg=0", manifest_content([bytes(32)], segments=1)),
        )
    ):
        frame = Ether() / IP() / UDP() / packet
        frame.time = 1000 + number / 2
        found.append(frame)
    return [*found[:2], Ether() / IP() / UDP(sport=53), found[2]]


@pytest.mark.parametrize("write", [wrpcap, wrpcapng])
def test_each_packet_has_a_line(
    cli: CliRunner, tmp_path: Path, frames: list[Packet], write: object
) -> None:
    path = tmp_path / "a.pcap"
    write(str(path), frames)  # type: ignore[operator]
    lines = cli.invoke(app, ["dissect", str(path)]).output.splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "4"]
    meaning = "sum.f32 of ranks 0 to 3, operation 4, segment 1"
    assert lines[0] == f"     1    0.000000  interest     37 B  {_NAME}  [{meaning}]"
    assert lines[1].startswith("     2    0.500000  nack")
    assert lines[1].endswith("; NoSlot]")


def test_packets_are_chosen(cli: CliRunner, tmp_path: Path, frames: list[Packet]) -> None:
    path = tmp_path / "a.pcap"
    wrpcap(str(path), frames)
    for options, numbers in (
        (["--prefix", "/o"], ["4"]),
        (["--kind", "nack,data"], ["2", "4"]),
        (["--packets", "1"], ["1"]),
        (["--port", "7"], []),
    ):
        lines = cli.invoke(app, ["dissect", str(path), *options]).stdout.splitlines()
        assert [line.split()[0] for line in lines] == numbers


def test_a_tree_has_every_element(cli: CliRunner, tmp_path: Path, frames: list[Packet]) -> None:
    path = tmp_path / "a.pcap"
    wrpcap(str(path), frames[1])
    tree = cli.invoke(app, ["dissect", str(path), "--tree"]).output.splitlines()[1:]
    assert [line[8:] for line in tree] == [
        "LpPacket",
        "  Nack",
        "    NackReason 200 (NoSlot)",
        "  Fragment",
        "    Interest",
        f"      Name {_NAME}",
        "      Nonce 00000000",
    ]


def test_a_file_that_is_not_a_capture_is_reported(cli: CliRunner, tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("this is no capture, but it has some length")
    for path, why in ((text, "is no capture"), (tmp_path / "none", "No such file")):
        result = cli.invoke(app, ["dissect", str(path)])
        assert result.exit_code == 1
        assert why in result.output


def test_a_truncated_file_is_read_to_its_end(
    cli: CliRunner, tmp_path: Path, frames: list[Packet]
) -> None:
    path = tmp_path / "a.pcapng"
    wrpcapng(str(path), frames)
    path.write_bytes(path.read_bytes()[:-10])
    result = cli.invoke(app, ["dissect", str(path)])
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines()][:2] == ["1", "2"]


def test_an_unknown_kind_is_refused(cli: CliRunner, tmp_path: Path) -> None:
    result = cli.invoke(app, ["dissect", str(tmp_path / "a"), "--kind", "answer"])
    assert result.exit_code == 2
    assert "unknown kind" in result.output


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--prefix", "/nothing"], "none of 3 packets matches --prefix and --kind"),
        (["--prefix", "/nothing"], "its names begin with /t, /o"),
        (["--kind", "hello"], "none of 3 packets"),
        (["--port", "7"], "no NDN packet found; UDP and TCP on port 7 are read"),
    ],
)
def test_an_empty_result_states_the_reason(
    cli: CliRunner, tmp_path: Path, frames: list[Packet], options: list[str], why: str
) -> None:
    path = tmp_path / "a.pcap"
    wrpcap(str(path), frames)
    result = cli.invoke(app, ["dissect", str(path), *options])
    assert (result.exit_code, result.stdout) == (0, "")
    assert why in result.stderr
