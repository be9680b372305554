"""``python -m innet.lab.compare.named_interface ADDRESS``: an interface with a stable address.

Open MPI takes only the first address of each interface, and the stable address is the second one
of the loopback interface. This gives the network namespace of the calling process a veth pair, one
end of which has the address alone.
"""

from __future__ import annotations

import sys

from pyroute2 import IPRoute

INTERFACE = "stable0"
_OTHER_END = "stable1"


def main() -> None:
    """Make the interface."""
    (address,) = sys.argv[1:]
    with IPRoute() as netlink:
        if netlink.link_lookup(ifname=INTERFACE):
            return  # made when Open MPI was started here before
        netlink.link("add", kind="veth", ifname=INTERFACE, peer={"ifname": _OTHER_END})
        for name in (INTERFACE, _OTHER_END):
            netlink.link("set", index=netlink.link_lookup(ifname=name)[0], state="up")
        (index,) = netlink.link_lookup(ifname=INTERFACE)
        netlink.addr("add", index=index, address=address, prefixlen=32)


if __name__ == "__main__":
    main()
