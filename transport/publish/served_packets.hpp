#pragma once
// Data packets that were signed elsewhere and are given to whoever asks, such as certificates.

#include <vector>

#include "transport/buffer/packet_ref.hpp"
#include "transport/wire/interest.hpp"
#include "transport/wire/name.hpp"

namespace innet {

/// A few hundred packets, most of which begin with the same component: an Interest of another one
/// costs one comparison.
class ServedPackets {
  public:
    /// In place of those before. False, and nothing changes, when one is no Data packet.
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
