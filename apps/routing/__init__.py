"""The program ``kv_router.py``."""
