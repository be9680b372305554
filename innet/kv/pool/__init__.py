"""The engine of a pool of blocks, which many nodes have together.

It runs in one event loop, without threads, sockets or clocks of its own: what it needs of the world
is :class:`~innet.kv.pool.network.BlockNetwork`, which a worker's node and a simulated one have.
"""
