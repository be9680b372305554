"""Ray Train over innet, with real processes of Ray."""
