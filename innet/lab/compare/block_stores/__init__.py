"""innet's pool of blocks beside Redis and Mooncake, for ``benchmarks/kv_store.py``.

``stores`` takes the turns of a client, and has the foreign stores; ``own`` is innet's.
"""
