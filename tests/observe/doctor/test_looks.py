"""A look reads all nodes but those that are stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from innet.cluster.emulation.runs import ProcessIdentity, RecordedProcess
from innet.cluster.node_reader import NodeReader, NodeReadings
from innet.cluster.run_status import RunReader
from tests.observe.doctor.states import State


def test_a_reading_shows_the_stopped_nodes(monkeypatch):
    run = State().observation().after.status.run
    asked = {}
    pids = {}

    def read(_reader, sockets, _timeout_s, _phases, held):
        asked[next(iter(sockets))] = held()
        return NodeReadings()

    monkeypatch.setattr(NodeReader, "read", read)
    for node, is_held in (("h0", True), ("h1", False)):
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
            pids[node] = process.pid
            identity = ProcessIdentity.of(process.pid)
            assert identity is not None
            recorded = RecordedProcess(label=node, node=node, identity=identity)
            if is_held:
                process.send_signal(signal.SIGSTOP)
                os.waitpid(process.pid, os.WUNTRACED)
            record = run.model_copy(update={"processes": (recorded,)})
            with RunReader() as reader:
                status = reader.read(record)
            assert status.processes[node].stopped == is_held
            assert (status.state.nodes[node].state == "stopped") == is_held
            process.kill()
    assert asked == {"h0": {"h0": pids["h0"]}, "h1": {}}
