#pragma once
// Data packets that were signed elsewhere and are served on request, such as certificates.

#include <vector>

#include "transport/buffer/packet_ref.hpp"
#include "transport/wire/interest.hpp"
#include "transport/wire/name.hpp"

namespace innet {

/// Meant for a few hundred packets, most with the same first component: an Interest with another
/// one costs one comparison.
class ServedPackets {
  public:
    /// Replaces the packets. False, without effect, when one is not a Data packet.
    [[nodiscard]] bool assign(std::vector<PacketRef> packets);

    /// The packet of that name or, if the Interest says so, the first below it; empty when there
    /// is none.
    PacketRef find(const wire::InterestView& interest) const;

  private:
    struct Served {
        wire::NameView name;  ///< within `packet`
        PacketRef packet;
    };

    std::vector<Served> served_;
    std::vector<wire::NameView> heads_;  ///< the first components that there are, each once
};

}  // namespace innet
