"""How a worker learns its host's address."""

ADDRESS_VARIABLE = "INNET_COMPARE_ADDRESS"
"""Environment variable with the IP address at which the other hosts reach this one."""
