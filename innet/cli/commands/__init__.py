"""The subcommands of ``innet``."""
