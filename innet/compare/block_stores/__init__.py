"""innet's pool of blocks beside stores that others have made: puts and gets, in turns.

* ``contest`` is the parent's side: it starts every store and lets their clients take turns.
* ``worker`` is a client's process; it talks to the parent in ``messages``.
* ``client`` is what a store must provide; ``redis_client``, ``mooncake_client`` and ``own_client``
  do, and ``registry`` knows them by name. Their libraries are imported only by the workers.
* ``stages`` start the servers; ``mooncake_segment`` and ``own_home`` are two of them.
"""
