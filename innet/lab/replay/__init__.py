"""Replays of request traces, in simulations and on emulated networks.

``plan`` divides memory and requests by design; ``worker`` serves a host's requests and counts where
blocks were found; ``single_store`` has the hit rates of one store, with which designs are compared.
"""
