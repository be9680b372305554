"""Defects put into the engine on purpose, one line each: the swarm has to notice every one."""
