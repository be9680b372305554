"""vLLM over innet: a KV connector that vLLM loads by the name of this module.

::

    vllm serve MODEL --prefix-caching-hash-algo sha256_cbor --kv-transfer-config '{
        "kv_connector": "InnetConnector",
        "kv_connector_module_path": "innet.kv.adapters.vllm",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {
            "address": "prod", "tenant": "acme", "secret": "acme.secret"}}'
"""

from innet.kv.adapters.vllm.connector import InnetConnector

__all__ = ["InnetConnector"]
