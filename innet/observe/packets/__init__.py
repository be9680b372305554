"""Seeing packets: what they say, captures of a running emulation, and layers for scapy.

``layers`` needs scapy (``pip install 'innet[packets]'``), the other modules do not.
"""
