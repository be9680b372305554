"""Members of a standing pool that are asked to leave."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from innet.cluster.emulation.runs import ProcessIdentity, RecordedProcess, create_run
from innet.errors import KVError
from innet.kv.service import standing_pool


class _Controller:
    """Of a pool in which h1 stays a member, as when a successor joins at once."""

    def __init__(self, _path: object) -> None: ...

    def __enter__(self) -> _Controller:
        return self

    def __exit__(self, *_: object) -> None: ...

    def request(self, method: str, timeout_s: float) -> Any:
        pools = [{"tenant": "a1b2", "members": {"h1.0": 1, "h2.0": 1}}]
        jobs = [{"name": "pool", "hosts": ["h1.0", "h2.0"]}]
        return {"jobs": jobs} if method == "overview" else pools


def test_a_member_that_dies_before_it_has_left_is_reported(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(standing_pool, "ControllerClient", _Controller)
    record = create_run("prod", "rack", "local")
    with subprocess.Popen(["sleep", "600"]) as dies:  # of the signal, which it does not handle
        identity = ProcessIdentity.of(dies.pid)
        assert identity is not None
        member = RecordedProcess(label="h1", node="h1.0", identity=identity)
        record = record.model_copy(update={"processes": (member,)})
        monkeypatch.setattr(standing_pool, "find_run", lambda _network: record)
        with pytest.raises(KVError, match=r"h1 ended before it had left.*innet kv leave h1"):
            standing_pool.leave("prod", "h1", print)
