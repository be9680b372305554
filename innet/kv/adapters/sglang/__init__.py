"""SGLang over innet: a storage of HiCache that SGLang loads by the name of this module.

::

    python -m sglang.launch_server --model-path MODEL --enable-hierarchical-cache \\
        --hicache-storage-backend dynamic --hicache-storage-backend-extra-config '{
            "backend_name": "innet",
            "module_path": "innet.kv.adapters.sglang",
            "class_name": "InnetHiCacheStorage",
            "interface_v1": 1,
            "innet": {"tenant": "acme"}}'
"""

from innet.kv.adapters.sglang.storage import InnetHiCacheStorage

__all__ = ["InnetHiCacheStorage"]
