"""The ``innet`` command."""
