"""Replays of traces: ``single_store`` is one store for all requests, the reference for others."""

from innet.kv.replay.single_store import hit_rate

__all__ = ["hit_rate"]
