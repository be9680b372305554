"""Runs a topology on this machine: starts and ends the network and the node processes.

Start with :class:`innet.cluster.emulation.network.Network`. The modules, from the outside inwards:

* ``network``: one launched network as an async context manager;
* ``processes``: the supervised node processes;
* ``runs``: the registry of runs on this machine, and the removal of dead ones;
* ``local_fabric``, ``namespace_fabric``: the links of the modes ``local`` and ``netns``;
* ``kernel_layout``, ``kernel_network``: what the kernel builds;
* ``namespace_holder``: the process that builds it and holds it.

The file that every node process is started with is :mod:`innet.node.node_config`.
"""
