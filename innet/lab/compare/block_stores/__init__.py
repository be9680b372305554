"""innet's pool of blocks beside stores that others have made: puts and gets, in turns.

* ``client`` is what a store must provide; ``redis_client``, ``mooncake`` and ``own`` do;
* ``worker`` is a client's process, which takes turns (:mod:`innet.lab.harness`). It alone imports
  the libraries of the stores;
* ``servers`` starts the servers of the stores that others have made.
"""
