"""Crashes with a secret in memory, in a process that may write core files.

The argument: whether core dumps are allowed.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

from innet.security.core_dumps import keep_keys_out_of_core_dumps
from innet.settings import SecuritySettings

Path("/proc/self/coredump_filter").write_text("0x33")
key = bytes(byte ^ 0xFF for byte in Path("secret").read_bytes())
keep_keys_out_of_core_dumps(SecuritySettings(core_dumps=sys.argv[1] == "true"))
_, most = resource.getrlimit(resource.RLIMIT_CORE)
resource.setrlimit(resource.RLIMIT_CORE, (most, most))
os.abort()
