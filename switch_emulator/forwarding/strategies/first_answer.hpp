#pragma once

#include <cstddef>
#include <limits>

#include "switch_emulator/forwarding/strategies/strategy.hpp"

namespace innet::forwarding::strategies {

/// Forwards to several next hops at once, the cheapest ones. The first answer satisfies the entry;
/// the others are unsolicited. With all next hops this is NFD's multicast. With two it hedges: the
/// response time is the smaller of two, so one slow replica or path does not delay the answer (Dean
/// and Barroso, "The tail at scale", CACM 2013), for twice the traffic.
class FirstAnswer final : public Strategy {
  public:
    static constexpr std::size_t kEveryone = std::numeric_limits<std::size_t>::max();

    /// `copies` of each Interest at most; those beyond the first are counted in `extra`, which
    /// outlives the strategy.
    FirstAnswer(std::size_t copies, std::uint64_t& extra) : copies_(copies), extra_(extra) {}

    Outcome after_receive_interest(const UpstreamRequest& request,
                                   StrategyActions& actions) override;
    bool forwards_to_new_next_hops() const override { return copies_ == kEveryone; }

  private:
    std::size_t copies_;
    std::uint64_t& extra_;
};

}  // namespace innet::forwarding::strategies
