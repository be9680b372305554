#include "switch_emulator/forwarding/link_liveness.hpp"

#include <algorithm>

namespace innet::forwarding {

LinkLiveness::LinkLiveness(Duration timeout)
    : interval_(timeout / kTicks), next_tick_(timeout > Duration::zero() ? TimePoint{} : kNever) {}

void LinkLiveness::on_timer(TimePoint now) {
    next_tick_ = now + interval_;
    for (Link& link : links_) {
        link.quiet_ticks = std::min<std::uint8_t>(link.quiet_ticks + 1, kTicks);
    }
}

}  // namespace innet::forwarding
