"""The settings that the launcher chooses where all links are memory that nothing shapes."""

from __future__ import annotations

from typing import Any

import pytest

from innet.cluster.emulation.local_fabric import has_only_memory, with_windows_of_memory
from innet.settings import Settings
from innet.topology import load_topology


def test_a_busy_processor_does_not_count_as_a_queue_on_memory_links() -> None:
    settings = Settings()
    assert has_only_memory(load_topology("star:2"), "local", settings)
    changed = with_windows_of_memory(settings).transport
    assert changed.target_queue_delay_s > settings.transport.target_queue_delay_s
    assert changed.initial_window > settings.transport.initial_window


@pytest.mark.parametrize("shape", [{"rate_bps": 1e9}, {"delay_s": 1e-3}, {"loss": 0.01}])
def test_links_with_a_shape_keep_their_windows(shape: dict[str, Any]) -> None:
    topology = load_topology("star:2").with_overrides(**shape)
    assert not has_only_memory(topology, "local", Settings())


def test_other_links_keep_their_windows() -> None:
    topology = load_topology("star:2")
    assert not has_only_memory(topology, "netns", Settings())
    sockets = Settings().with_assignments(["transport.shared_memory=false"])
    assert not has_only_memory(topology, "local", sockets)


def test_a_chosen_setting_stays() -> None:
    settings = Settings().with_assignments(["transport.initial_window=7", "transport.min_rto_s=1"])
    changed = with_windows_of_memory(settings).transport
    assert (changed.initial_window, changed.min_rto_s) == (7, 1.0)
    assert changed.max_window == with_windows_of_memory(Settings()).transport.max_window
