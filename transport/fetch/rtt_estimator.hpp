#pragma once
// Round-trip time and retransmission timeout (RFC 6298, with the variance floor of RFC 9002).

#include <cstdint>

#include "transport/time.hpp"

namespace innet {

class RttEstimator {
  public:
    RttEstimator(Duration min_rto, Duration max_rto) : min_rto_(min_rto), max_rto_(max_rto) {}

    /// A sample from a request sent once and not held (Karn's rule).
    void sample(Duration rtt);
    /// Doubles the timeout until the next sample, up to the maximum, or to what was measured if
    /// that is more.
    void back_off();
    void forget_back_offs() { back_offs_ = 0; }

    bool has_sample() const { return samples_ > 0; }
    Duration smoothed() const { return smoothed_; }
    Duration variation() const { return variation_; }
    Duration minimum() const { return minimum_; }
    Duration latest() const { return latest_; }
    std::uint64_t samples() const { return samples_; }
    std::uint32_t back_offs() const { return back_offs_; }
    /// Before the first sample: ten times the minimum, within the maximum. Doubled by the back-offs
    /// of the flow, or by those of one request (`request_back_offs`) when they are more.
    Duration timeout(std::uint32_t request_back_offs = 0) const;

  private:
    Duration min_rto_;
    Duration max_rto_;
    Duration smoothed_{0};
    Duration variation_{0};
    Duration minimum_{Duration::max()};
    Duration latest_{0};
    std::uint32_t back_offs_ = 0;
    std::uint64_t samples_ = 0;
};

}  // namespace innet
