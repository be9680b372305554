"""KV blocks as named data: the cache of prompt prefixes that a cluster of language models shares.

What a program uses is ``kv_pool``. Nothing below ``pool_member`` knows a socket, a clock or a
network; what moves blocks stands on it.

* ``names``: how a block is called; ``hash_chain``: the hashes that stand for its tokens;
* ``model``: what tells a model's blocks from another's, of whatever library it is
  (``transformers_model``, ``weights``); ``layout``: the bytes of a block;
* ``requests``: what nodes ask of each other; ``tenant``: whose blocks they are, and their key;
* ``traces``: requests that somebody has recorded;
* ``placement``: which nodes are a block's homes;
* ``eviction``: what a full store drops; ``block_store``: a store with such a policy;
* ``prefill``: how long computing takes what no store has;
* ``replay``: a trace over one store, and what is counted;
* ``pool``: the blocks that many nodes have together, over whatever network carries them;
* ``prefix_cache``: keys and values of prompts in such a pool, with ``prefix_loading``,
  ``layer_loading`` and, for what is sooner computed, ``load_speed``;
* ``pool_member``: a process's part in a pool, on a thread (``loop_thread``), by ``pool_options``;
* ``kv_pool``: the same for programs, ``innet.KVPool``; ``transformers_cache``: caches of that
  library from and to it.
"""
