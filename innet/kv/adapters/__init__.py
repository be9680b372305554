"""Adapters: engines that keep their blocks in a pool of innet.

They may import ``innet.kv``; nothing of innet imports them. Each engine loads its adapter by the
name of its module, so nothing here is needed without an engine:

* ``lmcache``: LMCache's L2 adapter plugin and its remote connector plugin;
* ``vllm``: a KV connector of vLLM's; ``sglang``: a storage of SGLang's HiCache.

Read ``engine_pool`` first: the pool that the parts of an engine share, and the options in the
engine's configuration. To an engine, a block that does not arrive or does not verify is a miss or a
load error, never other bytes.
"""
