"""Programs: what the jobs of a workload do on their hosts, as coroutines over communicators.

``program`` has the base class and collectives; ``training`` and ``kv`` the other kinds of jobs.
"""
