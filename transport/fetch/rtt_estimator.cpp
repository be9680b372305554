#include "transport/fetch/rtt_estimator.hpp"

#include <algorithm>

namespace innet {

namespace {

/// RFC 9002, section 6.1.2: below this, variation is the timer's own coarseness.
constexpr Duration kGranularity = std::chrono::milliseconds(1);
/// Doublings beyond this reach any sensible maximum and would overflow the shift.
constexpr std::uint32_t kMaxBackOffs = 16;

}  // namespace

void RttEstimator::sample(Duration rtt) {
    latest_ = rtt;
    minimum_ = std::min(minimum_, rtt);
    back_offs_ = 0;
    if (samples_++ == 0) {
        smoothed_ = rtt;
        variation_ = rtt / 2;
        return;
    }
    const Duration deviation = smoothed_ > rtt ? smoothed_ - rtt : rtt - smoothed_;
    variation_ = (3 * variation_ + deviation) / 4;
    smoothed_ = (7 * smoothed_ + rtt) / 8;
}

void RttEstimator::back_off() { back_offs_ = std::min(back_offs_ + 1, kMaxBackOffs); }

Duration RttEstimator::timeout(std::uint32_t request_back_offs) const {
    const Duration estimate = has_sample() ? smoothed_ + std::max(4 * variation_, kGranularity)
                                           : std::min(10 * min_rto_, max_rto_);
    const std::uint32_t doublings = std::max(back_offs_, std::min(request_back_offs, kMaxBackOffs));
    const Duration base = std::max(estimate, min_rto_);
    return std::min(base * (std::int64_t{1} << doublings), std::max(base, max_rto_));
}

}  // namespace innet
