"""Dissects packets, captures those of a running emulation, and has layers for scapy.

``layers`` needs scapy (``pip install 'innet[packets]'``), the other modules do not.
"""
