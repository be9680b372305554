"""Runs a topology on this machine: the network, the node processes, and their end.

Start with :class:`innet.cluster.emulation.network.Network`. The modules, from the outside inwards:

* ``network``: one launched network as an async context manager;
* ``processes``, ``output``: the supervised node processes and what they print;
* ``runs``: the registry of runs on this machine, and the removal of dead ones;
* ``local_fabric``, ``namespace_fabric``: the links of the modes ``local`` and ``netns``;
* ``kernel_layout``, ``kernel_network``, ``shaping``: what the kernel is asked to build;
* ``namespace_holder``: the process that builds it and holds it;
* ``routing``: next hops; ``node_config``: the file that every node process is started with.

This package imports none of them by itself, because each node process needs ``node_config`` alone.
"""
