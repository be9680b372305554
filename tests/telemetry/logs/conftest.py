"""Runs of these tests are entered into a registry of their own."""

from tests.cli.conftest import registry

__all__ = ["registry"]
