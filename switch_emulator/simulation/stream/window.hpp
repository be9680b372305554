#pragma once
// How much a stream may have in flight: slow start and congestion avoidance of TCP, in bytes.

#include <cstdint>

#include "transport/time.hpp"

namespace innet::simulation::stream {

enum class WindowGrowth : std::uint8_t {
    kReno,   ///< RFC 5681
    kCubic,  ///< RFC 9438
};

/// transport/fetch/cubic.hpp is another thing: it takes delay and marks for congestion, and a lost
/// packet for none. TCP as users have it takes every loss for congestion.
class Window {
  public:
    Window(WindowGrowth growth, std::uint32_t segment_bytes, std::uint64_t most_bytes);

    double bytes() const { return bytes_; }
    bool in_slow_start() const { return bytes_ < threshold_; }

    /// `bytes` more have arrived while the window kept the sender back.
    void on_acknowledged(std::uint64_t bytes, TimePoint now, Duration rtt);
    /// Fast retransmission, once for each window.
    void on_loss();
    void on_timeout();
    /// Nothing was sent for longer than the retransmission timeout (RFC 9293, 3.8.6.1; RFC 2861).
    void on_idle();

  private:
    void decrease();
    void grow_cubic(std::uint64_t bytes, TimePoint now, Duration rtt);

    static constexpr double kInitialSegments = 10;  // RFC 6928

    WindowGrowth growth_;
    double segment_bytes_;
    double most_bytes_;
    double bytes_;
    double threshold_;
    double before_decrease_ = 0;  ///< W_max
    double epoch_bytes_ = 0;      ///< window at the epoch's start
    double reno_bytes_ = 0;       ///< W_est
    double inflection_s_ = 0;     ///< K
    TimePoint epoch_ = kNever;
};

}  // namespace innet::simulation::stream
