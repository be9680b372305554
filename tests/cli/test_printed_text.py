"""Bytes from a peer cannot control the terminal that shows them."""

from __future__ import annotations

import io
import json
import logging
import unicodedata
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap
from typer.testing import CliRunner

from innet.cli.main import CommandGroup, app
from innet.cli.text_output import open_console, say
from innet.errors import CollectiveError
from innet.observe.packets.layers import interest, link
from innet.printable import printable
from innet.settings import LogSettings
from innet.telemetry.logs import LogContext, configure_logs

HOSTILE = "rank \x1b]0;owned\x07 \x9b2J\rok\x08 \u202egpj"
SHOWN = r"rank \u001b]0;owned\u0007 \u009b2J\u000dok\u0008 \u202egpj"


@given(st.text(st.characters(codec=None)))
def test_printable_text_drops_only_control_characters(text: str) -> None:
    shown = printable(text)
    assert not {c for c in shown if unicodedata.category(c) in ("Cc", "Cs")} - {"\t", "\n"}
    assert printable(shown) == shown
    if text.isprintable():
        assert shown == text


@given(st.recursive(st.text(), st.lists))
def test_a_json_document_is_unchanged(document: object) -> None:
    assert json.loads(printable(json.dumps(document, ensure_ascii=False))) == document


def test_an_error_that_quotes_a_peer_is_printed_without_its_escape_sequences() -> None:
    assert str(CollectiveError(HOSTILE)) == SHOWN


@pytest.mark.parametrize("form", ["text", "json"])
def test_log_records_quote_peers_without_escape_sequences(form: str) -> None:
    logger = logging.getLogger("innet")
    before = logger.handlers[:], logger.propagate, logger.level
    try:
        configure_logs(LogSettings(format=form), LogContext("s0"))  # type: ignore[arg-type]
        (handler,) = set(logger.handlers) - set(before[0])
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(stream := io.StringIO())
        logger.error("a peer said %s", HOSTILE)
        assert "\x1b" not in stream.getvalue()
        assert r"\u001b]0;owned" in stream.getvalue()
    finally:
        logger.handlers, logger.propagate, logger.level = before


def test_commands_and_tables_print_no_foreign_escape_sequences(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say(HOSTILE)
    table = Table(box=None)
    table.add_column("late")
    table.add_row(Text(HOSTILE))
    open_console().print(table)
    out = capsys.readouterr().out
    assert out.count(r"\u001b]0;owned") == 2
    assert not any(unicodedata.category(c) == "Cc" for c in out.replace("\n", ""))


def test_dissect_shows_a_hostile_label_escaped(cli: CliRunner, tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    held = link(interest("/a"), hold="\x1b[2J3")
    wrpcap(str(path), [Ether() / IP() / UDP() / held])
    for options in ([], ["--tree"]):
        output = cli.invoke(app, ["dissect", *options, str(path)]).output
        assert r"\u001b[2J3" in output
        assert "\x1b" not in output


def test_an_unexpected_error_is_printed_without_escape_sequences(cli: CliRunner) -> None:
    failing = typer.Typer(cls=CommandGroup)

    @failing.callback()
    def options(debug: bool = False) -> None: ...

    @failing.command()
    def fail() -> None:
        raise ValueError(HOSTILE)

    output = cli.invoke(failing, ["fail"]).output
    assert SHOWN in output
