"""A standing pool: a member on each host of a network that stays up, to which engines attach.

It may import the rest of :mod:`innet.kv` and the packages below. Start reading with
``standing_pool``; ``pool_file`` reads what describes a pool, ``member`` is the process on a host.
"""
