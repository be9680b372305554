"""A node at run time, opened from its configuration: a switch process, or inside a worker."""

from innet.node.runtime import open_node

__all__ = ["open_node"]
