"""What the jobs of a workload do on their hosts: coroutines over ordinary communicators.

* ``making`` makes the program of a job; ``program`` is what they have in common;
* ``collective``, ``training`` and ``astra_sim`` are the kinds;
* ``bounds`` is what the links allow them;
* ``record`` keeps when each operation began and ended.
"""
