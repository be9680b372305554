"""What the jobs of a workload do on their hosts: coroutines over ordinary communicators.

* ``program`` is what they have in common;
* ``collective``, ``training``, ``astra_sim`` and ``kv`` are the kinds;
* ``bounds`` is what the links allow them.
"""
