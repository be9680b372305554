#pragma once
// Interface that observes packets while they cross the links of a simulation.

#include <cstdint>

#include "switch_emulator/forwarding/face.hpp"
#include "transport/time.hpp"

namespace innet::simulation::capture {

class PacketObserver {
  public:
    virtual ~PacketObserver() = default;
    /// A packet has arrived at the end of a link's direction, `when` after the simulation began.
    virtual void on_arrival(Duration when, std::uint32_t link, const OutgoingPacket& packet) = 0;
};

}  // namespace innet::simulation::capture
