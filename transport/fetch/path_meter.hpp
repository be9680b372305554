#pragma once
// How many bytes of answers fill the path to a host whose links' rate nobody knows: the rate at
// which answers arrive, times the round trip (the bandwidth-delay product of BBR: Cardwell et al.,
// CACM 2017).
//
// The round trip is the shortest of a flow, of the flow whose shortest is longest, so that no queue
// is part of it. The rate is that of a stretch of several round trips without silence: what a busy
// machine reads late, all at once, must not look like a fast link. Stretches in which the link was
// not the limit measure too little, so a product is forgotten slowly.

#include <algorithm>
#include <cstddef>

#include "transport/time.hpp"

namespace innet {

class PathMeter {
  public:
    /// A request leaves while nothing is in flight.
    void on_first_request(TimePoint now) { start(now); }

    /// `shortest_rtt` is that of its flow; `Duration::max()`: not known.
    void on_answer(std::size_t size_bytes, Duration shortest_rtt, TimePoint now) {
        bytes_ += static_cast<double>(size_bytes);
        if (shortest_rtt != Duration::max()) longest_rtt_ = std::max(longest_rtt_, shortest_rtt);
        const Duration elapsed = now - since_;
        if (elapsed < std::max(kShortestStretch, kRoundTrips * longest_rtt_)) return;
        const double measured = bytes_ * static_cast<double>(longest_rtt_.count()) /
                                static_cast<double>(elapsed.count());
        path_bytes_ = std::max(measured, path_bytes_ * kKept);
        start(now);
    }

    double path_bytes() const { return path_bytes_; }

  private:
    static constexpr Duration kShortestStretch = std::chrono::milliseconds(10);
    /// A burst of all that is in flight makes the product at most a third larger.
    static constexpr int kRoundTrips = 4;
    static constexpr double kKept = 15.0 / 16;

    void start(TimePoint now) {
        since_ = now;
        bytes_ = 0;
        longest_rtt_ = Duration{0};
    }

    TimePoint since_{};
    double bytes_ = 0;
    Duration longest_rtt_{0};
    double path_bytes_ = 0;
};

}  // namespace innet
