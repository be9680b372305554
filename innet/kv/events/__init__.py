"""Events of a pool's blocks for routers, and the index that answers where a prompt's prefix is.

It imports ``innet.kv.pool`` and ``innet.kv.names``, sockets in ``publisher`` and ``follower``
alone. Read ``wire`` first: vLLM's format; then ``source`` (a member's blocks to events), ``log``
(numbers and replay), ``reader`` (events that were lost) and ``index`` (longest prefixes).
"""
