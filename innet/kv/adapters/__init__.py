"""Adapters: engines that keep their blocks in a pool of innet.

Nothing of innet imports them, and nothing here is needed without an engine: each is loaded by the
engine itself, by the name of its module.

* ``lmcache``: LMCache's L2 adapter plugin and its remote connector plugin;
* ``vllm``: a KV connector of vLLM's; ``sglang``: a storage of SGLang's HiCache;
* ``options``: what their configurations may say; ``pool_of_process``: the pool they share;
  ``lookups``: how another process of the engine looks blocks up in it;
* ``weight_files``: identity of a model's local files;
* ``identity``: digests of what makes an engine's block another one; ``tensors``: their bytes.

To an engine, whatever does not come or does not verify is a miss or a load error, never other
bytes.
"""
