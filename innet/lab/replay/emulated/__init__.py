"""Replays on an emulated network: a process on each host, the real pool, real packets.

* ``run`` is the launcher's side; ``worker`` is a host's process;
* ``conversation`` is what they say to each other.
"""
