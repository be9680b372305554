"""Programs: what the jobs of a workload do on their hosts, as coroutines over communicators.

``program`` is the base class; ``collective``, ``training`` and ``kv`` have the kinds of jobs.
"""
