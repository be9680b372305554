"""The program ``engine_router.py``."""
