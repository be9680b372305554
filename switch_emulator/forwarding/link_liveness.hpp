#pragma once
// Whether packets get through to the neighbour behind each face, and back: a hello on every link,
// every eighth of the time after which silence counts (after BFD's asynchronous mode, RFC 5880). It
// says whether its sender hears the receiver, so both ends know when only one direction is lost.
//
// Silence is counted in the node's own ticks, not in time: a node that was not run for a while has
// sent nothing either, and has no reason to think that others are gone.

#include <cstdint>
#include <vector>

#include "switch_emulator/forwarding/face.hpp"
#include "transport/time.hpp"

namespace innet::forwarding {

class LinkLiveness {
  public:
    /// With a timeout of 0 it does nothing, and no face is silent.
    explicit LinkLiveness(Duration timeout);

    /// A face comes, in the place of an earlier one of that number, if there was one. One that is
    /// not `watched` is never silent.
    void add_face(FaceId face, bool watched);
    /// Anything at all came from there.
    void on_heard(FaceId face) { links_[face].quiet_ticks = 0; }
    void on_hello(FaceId face, bool peer_hears_us) {
        if (peer_hears_us) links_[face].unheard_ticks = 0;
    }

    TimePoint next_deadline() const { return next_tick_; }
    /// Due at `next_deadline`; afterwards a hello is to be sent on every face.
    void on_timer(TimePoint now);
    /// What the next hello on that face says.
    bool hears(FaceId face) const { return links_[face].quiet_ticks < kTicks; }
    /// For the timeout nothing has come from there, or the neighbour has not said that it hears. (A
    /// neighbour that says it does not may have to hear the first hello yet.)
    bool is_silent(FaceId face) const {
        return links_[face].watched && (!hears(face) || links_[face].unheard_ticks >= kTicks);
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
