#pragma once
// What a link of a node tells about itself. A driver leaves at 0 what it has not got.

#include <cstdint>
#include <string>

#include "switch_emulator/driver/channel.hpp"
#include "switch_emulator/forwarding/node.hpp"
#include "switch_emulator/simulation/link.hpp"

namespace innet::driver {

struct LinkStatus {
    FaceId face = kNoFace;
    FaceNumber number = 0;
    bool foreign = false;
    std::string remote_uri;  ///< of a foreign face
    forwarding::FaceCounters face_counters;
    SocketCounters socket_counters;
    simulation::LinkCounters link_counters;
    std::uint64_t backlog_packets = 0;
    std::uint64_t backlog_bytes = 0;  ///< of a foreign face: memory that these keep
    std::uint64_t backlog_dropped = 0;
    std::uint64_t queued_max_bytes = 0;   ///< likewise: the most, with what the system had of it
    std::uint64_t congestion_marked = 0;  ///< likewise: Data that were marked
    std::uint64_t dropped_paused = 0;     ///< datagrams of a flood, dropped unread
    bool silent = false;                  ///< the link loses all packets in one direction
};

}  // namespace innet::driver
