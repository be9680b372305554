#pragma once
// What a link of a node tells about itself. A driver leaves at 0 what it has not got.

#include <cstdint>

#include "switch_emulator/driver/udp_socket.hpp"
#include "switch_emulator/forwarding/node.hpp"
#include "switch_emulator/simulation/link.hpp"

namespace innet::driver {

struct LinkStatus {
    FaceId face = kNoFace;
    forwarding::FaceCounters face_counters;
    SocketCounters socket_counters;
    simulation::LinkCounters link_counters;
    std::uint64_t backlog_packets = 0;
    std::uint64_t backlog_dropped = 0;
    bool silent = false;  ///< nothing gets through, or nothing comes back
};

}  // namespace innet::driver
