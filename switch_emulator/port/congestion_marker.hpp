#pragma once
// Congestion marks on Data (NDNLPv2, CongestionMark), and when a queue sets them.

#include <cstdint>
#include <limits>

#include "switch_emulator/forwarding/face.hpp"
#include "transport/time.hpp"

namespace innet::port {

/// Sets the mark of a Data packet. False, with nothing changed: it is no Data, bears a mark
/// already, or would be larger than `max_bytes` with one.
bool mark_data(OutgoingPacket& packet,
               std::size_t max_bytes = std::numeric_limits<std::size_t>::max());

/// NFD's names and defaults of them (NFD Developer's Guide, "Congestion Control").
struct CongestionMarkerOptions {
    bool enabled = true;
    Duration base_interval = std::chrono::milliseconds(100);
    std::uint64_t threshold_bytes = 64 * 1024;
};

/// Marks Data that enter a queue which stays above its threshold: the first after the base
/// interval, then one after base / sqrt(marks + 1), until the queue is at the threshold or below.
/// The intervals are those of CoDel's control law (RFC 8289, section 3.3), and NFD's. Unlike NFD's,
/// our queues are bounded: one that grows to `kBurstThresholds` thresholds is no burst, and its
/// first mark does not wait. Sans-IO.
class CongestionMarker {
  public:
    static constexpr std::uint64_t kBurstThresholds = 16;

    const CongestionMarkerOptions& options() const { return options_; }
    void change(const CongestionMarkerOptions& options) { options_ = options; }
    /// `queued_bytes` are in front of `packet`, which is larger than `max_bytes` in no case.
    void on_enqueue(OutgoingPacket& packet, std::size_t queued_bytes, std::size_t max_bytes,
                    TimePoint now);
    std::uint64_t marked() const { return marked_; }

  private:
    CongestionMarkerOptions options_;
    TimePoint next_mark_ = kNever;  ///< kNever: the queue is not above the threshold
    std::uint64_t marked_ = 0;
    std::uint64_t marked_since_above_ = 0;
};

}  // namespace innet::port
