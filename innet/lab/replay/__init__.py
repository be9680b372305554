"""Replays of request traces: in simulations, on emulated networks, and without packets.

``plan`` divides memory and requests by design; ``worker`` serves a host's requests and counts where
blocks were found; ``block_model`` replays without packets and time.
"""
