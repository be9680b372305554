"""Shows what a network does: diagnosis, captures, scapy layers.

May import everything but the command line and ``lab``.
Start with :mod:`innet.observe.doctor` and :mod:`innet.observe.packets`.
"""
