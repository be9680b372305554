"""What the settings of a run become where all links are memory that nothing shapes."""

from __future__ import annotations

from typing import Final

from innet.node.node_config import Mode
from innet.settings import Settings, TransportSettings
from innet.topology import Topology

# Nothing queues on such links, and what finds no room waits at its sender. An answer is late only
# when a process waits for a processor, and a smaller window would make it wait more often. What is
# in flight should fit into a ring and into the caches.
_OF_MEMORY: Final = {"initial_window": 16, "max_window": 64, "target_queue_delay_s": 1.0}


def has_only_memory(topology: Topology, mode: Mode, settings: Settings) -> bool:
    """Whether all links of a run are shared memory that nothing shapes."""
    in_memory = mode == "local" and settings.transport.shared_memory
    return in_memory and not any(link.is_shaped for link in topology.links)


def with_windows_of_memory(settings: Settings) -> Settings:
    """A copy whose windows suit links in memory; what differs from the defaults stays."""
    defaults = TransportSettings()
    chosen = {
        name: value
        for name, value in _OF_MEMORY.items()
        if getattr(settings.transport, name) == getattr(defaults, name)
    }
    transport = settings.transport.model_copy(update=chosen)
    return settings.model_copy(update={"transport": transport})
