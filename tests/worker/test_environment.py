"""Starting as a worker: what the environment must say, and what is said when it does not."""

from __future__ import annotations

import pytest

from innet.errors import EmulationError
from innet.node.node_config import NODE_CONFIG_VARIABLE
from innet.security.keys import KEYS_VARIABLE
from innet.settings import SETTINGS_VARIABLE
from innet.worker.context import Worker
from innet.worker.job_file import JOB_VARIABLE

VARIABLES = (NODE_CONFIG_VARIABLE, SETTINGS_VARIABLE, KEYS_VARIABLE, JOB_VARIABLE)


def test_outside_a_run_the_error_says_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(EmulationError, match="innet run TOPOLOGY -- python"):
        Worker.from_environment()


def test_several_ranks_on_one_host_are_refused_with_advice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in VARIABLES:
        monkeypatch.setenv(variable, "/nowhere")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    with pytest.raises(EmulationError, match=r"4 ranks were started in the.*--workers-per-host 4"):
        Worker.from_environment()
