"""innet's pool of blocks beside stores that others have made: puts and gets, in turns.

* ``contest`` is the parent's side: it starts every store and lets their clients take turns.
* ``worker`` is a client's process; it talks to the parent in ``messages``.
* ``client`` is what a store must provide; ``redis_client``, ``mooncake_client`` and ``own_client``
  do, and ``registry`` knows them by name. Their libraries are imported only by the workers.
* ``servers`` starts those of the others, of which ``mooncake_segment`` is one; ``own_rank`` is a
  process of innet's own, client or home.
"""
