"""Tests of :mod:`innet.topology`."""
