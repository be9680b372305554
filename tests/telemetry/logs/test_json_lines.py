"""Logs as JSON lines: of one process, and of all of a run."""

from __future__ import annotations

import io
import json
import logging
import sys
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from innet.errors import CollectiveError, DeadlineExceeded
from innet.settings import Settings
from innet.telemetry.logs import JsonLinesFormatter
from innet.telemetry.logs.output import JsonLinesOutput
from tests.cli.runs import innet

PROGRAM = """
import logging, innet, numpy
comm = innet.init()
print("from rank", comm.rank)
comm.allreduce(numpy.ones(2))
try: comm.allreduce(numpy.ones(1 + comm.rank))
except innet.errors.MismatchError: pass
logging.getLogger("innet.test").warning("careful", extra={"operation": "mine"})
"""


@given(st.text())
def test_a_record_is_one_line_for_any_text(message: str) -> None:
    formatter = JsonLinesFormatter({"node": "s0"})
    record = logging.LogRecord("innet.x", logging.WARNING, "", 1, "%s", (message,), None)
    record.operation = "allreduce"
    line = formatter.format(record)
    assert len((line + "\n").split("\n")) == 2
    document = json.loads(line)
    assert (document["message"], document["level"], document["node"]) == (message, "warning", "s0")
    assert document["operation"] == "allreduce"
    assert datetime.fromisoformat(document["time"]).timestamp() == pytest.approx(record.created)


def test_an_exception_is_in_its_record() -> None:
    try:
        raise ValueError("no such luck")
    except ValueError:
        record = logging.LogRecord("innet", logging.ERROR, "", 1, "failed", (), sys.exc_info())
    document = json.loads(JsonLinesFormatter({}).format(record))
    assert "ValueError: no such luck" in document["exception"]


def test_a_record_of_a_failed_operation_names_it() -> None:
    formatter = JsonLinesFormatter({"node": "h0", "job": "j1", "rank": 0})
    try:
        raise DeadlineExceeded("too late", operation="barrier()", seq=0)
    except CollectiveError:
        record = logging.LogRecord("innet", logging.ERROR, "", 1, "failed", (), sys.exc_info())
    document = json.loads(formatter.format(record))
    known = {name: document.get(name) for name in ("job", "rank", "group", "operation", "seq")}
    assert known == {"job": "j1", "rank": 0, "group": None, "operation": "barrier()", "seq": 0}


def test_printed_lines_become_records_and_records_are_kept() -> None:
    stream = io.StringIO()
    output = JsonLinesOutput(Console(file=stream))
    record = JsonLinesFormatter({"node": "h0"}).format(
        logging.LogRecord("innet", logging.INFO, "", 1, "hello", (), None)
    )
    lines = ["loss 0.5", record, '{"time": broken', '{"loss": 0.5}']
    for line in lines:
        output("h0", line)
    shown = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [document["message"] for document in shown] == ["loss 0.5", "hello", *lines[2:]]
    assert {document["node"] for document in shown} == {"h0"}


def test_all_output_of_a_run_is_json_with_its_source(registry: object) -> None:
    done = innet(
        "run", "star:2", "--broker", "none", "--log-format", "json", "--log-level", "debug",
        "--algorithm", "inc", "--job-name", "train", "--", sys.executable, "-c", PROGRAM,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    careful = [r for r in records if r["message"] == "careful"]
    assert {(r["node"], r["level"], r["operation"]) for r in careful} == {
        (host, "warning", "mine") for host in ("h0", "h1")
    }
    printed = {r["node"]: r["message"] for r in records if r["logger"] == "output"}
    assert printed == {"h0": "from rank 0", "h1": "from rank 1"}
    of_events = [r for r in records if r["logger"] == "innet.events"]
    assert {r["node"] for r in of_events} == {"s0", "h0", "h1"}
    assert {(r["node"], r["event"], r["job"]) for r in of_events} >= {
        ("s0", "rules_installed", "train.1"), ("h1", "group_left", "train.1"),
    }  # fmt: skip
    assert {(r["node"], r["rank"]) for r in records if r.get("job") and r["node"] != "s0"} == {
        ("h0", 0), ("h1", 1),
    }  # fmt: skip
    of_sums = [r for r in records if "allreduce" in r.get("operation", "") and r["node"] == "h1"]
    assert [(r["level"], r["group"], r["seq"], r.get("event")) for r in of_sums] == [
        ("debug", "g0", 0, None), ("debug", "g0", 0, None),
        ("debug", "g0", 1, None), ("info", "g0", 1, "operation_failed"),
    ]  # fmt: skip
    assert len({r["run"] for r in records if r["logger"] != "output"}) == 1


@pytest.mark.usefixtures("registry")
def test_a_program_with_its_own_logging_gets_only_the_text_records() -> None:
    program = "import logging; logging.basicConfig(format='MINE %(message)s')\n" + PROGRAM
    done = innet("run", "star:2", "--broker", "none", "--", sys.executable, "-c", program)
    told = [line for line in done.stdout.splitlines() if "careful" in line]
    assert sorted(told) == ["[h0] MINE careful", "[h1] MINE careful"]


def test_text_is_the_default() -> None:
    assert (Settings().log.format, Settings().log.level) == ("text", "warning")
