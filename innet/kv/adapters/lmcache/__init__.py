"""LMCache over innet: its L2 adapter plugin and its remote connector plugin.

LMCache's server takes the first, as ``lmcache.v1.distributed`` loads it::

    --l2-adapter '{"type": "plugin", "module_path": "innet.kv.adapters.lmcache",
                   "class_name": "InnetL2Adapter",
                   "adapter_params": {"tenant": "acme", "adapters": "none"}}'

LMCache inside an engine takes the second, by its configuration file::

    pre_caching_hash_algorithm: sha256_cbor
    remote_storage_plugins: ["innet"]
    extra_config:
      remote_storage_plugin.innet.module_path: innet.kv.adapters.lmcache
      remote_storage_plugin.innet.class_name: InnetConnectorAdapter
      remote_storage_plugin.innet.tenant: acme
"""

from innet.kv.adapters.lmcache.l2_adapter import InnetL2Adapter
from innet.kv.adapters.lmcache.remote_connector import InnetConnectorAdapter, InnetRemoteConnector

__all__ = ["InnetConnectorAdapter", "InnetL2Adapter", "InnetRemoteConnector"]
