"""Shared by the ``with_*.py`` scripts, which train one model with one framework each."""
