"""innet's pool of blocks beside Redis and Mooncake, for ``benchmarks/kv_store.py``.

``client`` takes the turns of a store's client; ``stores`` has the foreign stores, ``own`` innet's.
"""
