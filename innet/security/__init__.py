"""Keys of a run: made by the launcher, dealt to the nodes that belong to it."""

from innet.security.key import node_certificate_name
from innet.security.keys import (
    JobKeys,
    JobTrust,
    KeyDealer,
    NodeKeys,
    deal_keys,
)

__all__ = [
    "JobKeys",
    "JobTrust",
    "KeyDealer",
    "NodeKeys",
    "deal_keys",
    "node_certificate_name",
]
