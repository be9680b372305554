#pragma once
// The receiving end of a simulated byte stream: delayed acknowledgements (RFC 1122, RFC 5681) with
// one SACK block (RFC 2018). Sans-IO.

#include <cstdint>
#include <map>

#include "switch_emulator/simulation/stream/stream_packet.hpp"
#include "transport/time.hpp"

namespace innet::simulation::stream {

class Receiver {
  public:
    /// Whether an acknowledgement is due at once; else one is, at `next_deadline()`.
    bool on_segment(const DataSegment& segment, TimePoint now);
    /// Takes the acknowledgement that is due.
    Acknowledgement acknowledge(StreamId stream);
    TimePoint next_deadline() const { return deadline_; }
    /// Bytes that have arrived without a gap.
    std::uint64_t arrived() const { return next_; }

  private:
    Range keep(Range range);

    static constexpr Duration kDelay = std::chrono::milliseconds(40);  // Linux's least
    static constexpr int kSegmentsPerAcknowledgement = 2;

    std::uint64_t next_ = 0;
    std::map<std::uint64_t, std::uint64_t> beyond_;  ///< ranges after a gap, by their beginning
    Range sack_;
    int unacknowledged_ = 0;  ///< segments since the last acknowledgement
    TimePoint deadline_ = kNever;
};

}  // namespace innet::simulation::stream
