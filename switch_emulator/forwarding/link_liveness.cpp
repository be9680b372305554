#include "switch_emulator/forwarding/link_liveness.hpp"

#include <algorithm>

namespace innet::forwarding {

LinkLiveness::LinkLiveness(Duration timeout)
    : interval_(timeout / kTicks), next_tick_(timeout > Duration::zero() ? TimePoint{} : kNever) {}

void LinkLiveness::add_face(FaceId face, bool watched) {
    if (face >= links_.size()) links_.resize(face + std::size_t{1});
    links_[face] = {.watched = watched};
}

void LinkLiveness::on_timer(TimePoint now) {
    next_tick_ = now + interval_;
    for (Link& link : links_) {
        for (std::uint8_t* ticks : {&link.quiet_ticks, &link.unheard_ticks}) {
            *ticks = std::min<std::uint8_t>(*ticks + 1, kTicks);
        }
    }
}

}  // namespace innet::forwarding
