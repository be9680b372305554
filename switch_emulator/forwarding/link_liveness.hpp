#pragma once
// Detects links that lose packets in either direction: a hello on every link, eight times in the
// link timeout (after BFD's asynchronous mode, RFC 5880). A hello states whether its sender
// receives packets from the neighbour, so both ends detect a link that fails in one direction.
//
// Silence is counted in the node's own ticks, not in time: a node that was suspended has sent
// nothing either, and must not conclude that its neighbours failed.

#include <cstdint>
#include <vector>

#include "switch_emulator/forwarding/face.hpp"
#include "transport/time.hpp"

namespace innet::forwarding {

class LinkLiveness {
  public:
    /// With a timeout of 0 it does nothing, and no face is silent.
    explicit LinkLiveness(Duration timeout);

    /// Adds a face; replaces an earlier one of that number. A face that is not `watched` is never
    /// silent.
    void add_face(FaceId face, bool watched);
    /// Any packet arrived on the face.
    void on_received(FaceId face) { links_[face].quiet_ticks = 0; }
    void on_hello(FaceId face, bool peer_receives) {
        if (peer_receives) links_[face].unheard_ticks = 0;
    }

    TimePoint next_deadline() const { return next_tick_; }
    /// Due at `next_deadline`; afterwards a hello is to be sent on every face.
    void on_timer(TimePoint now);
    /// Whether packets arrived from the face in the link timeout; the next hello states it.
    bool receives_from(FaceId face) const { return links_[face].quiet_ticks < kTicks; }
    /// For the link timeout no packet arrived, or no hello of the neighbour confirmed ours. (A
    /// neighbour that does not confirm may not have received the first hello yet.)
    bool is_silent(FaceId face) const {
        return links_[face].watched &&
               (!receives_from(face) || links_[face].unheard_ticks >= kTicks);
    }
    /// Whether hellos are sent there.
    bool is_watched(FaceId face) const { return links_[face].watched; }

  private:
    static constexpr std::uint8_t kTicks = 8;

    struct Link {
        std::uint8_t quiet_ticks = 0;
        std::uint8_t unheard_ticks = 0;
        bool watched = true;
    };

    Duration interval_;
    TimePoint next_tick_;
    std::vector<Link> links_;
};

}  // namespace innet::forwarding
