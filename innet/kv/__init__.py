"""KV blocks as named data: the cache of prompt prefixes that a cluster of language models shares.

It may import ``worker`` and all packages below it, and of ``collectives`` and ``torch_backend``
only sizes and tensors. Read ``kv_pool`` first, which programs use as ``innet.KVPool``; then
``prefix_cache`` (prompts to blocks), ``pool_member`` (a process's membership, on a thread) and
``pool`` (the blocks that many nodes share, over whatever network carries them).
"""
