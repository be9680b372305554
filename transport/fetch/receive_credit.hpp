#pragma once
// How many bytes of answers a host may wait for at once, over all its flows.
//
// The most is known from the topology: what fills the path, and the part of the queue that causes
// no mark. Flows of others share the queue, so marks shrink what is granted, in proportion to how
// many answers carry one (DCTCP: RFC 8257, section 3.3), and answers without one restore it.

#include <algorithm>
#include <cstdint>

#include "transport/fetch/loss_detector.hpp"

namespace innet {

class ReceiveCredit {
  public:
    /// `most_bytes` 0: no limit.
    explicit ReceiveCredit(std::uint64_t most_bytes)
        : most_bytes_(most_bytes), granted_bytes_(static_cast<double>(most_bytes) / 2) {}

    bool limited() const { return most_bytes_ > 0; }
    /// Whether one more may be asked for.
    bool has_room() const {
        return !limited() || static_cast<double>(awaited_.in_flight) < granted_bytes_;
    }
    /// Of all detectors that take from this credit, which has to outlive them.
    AwaitedBytes& awaited() { return awaited_; }

    void on_answer(std::size_t size_bytes, bool marked) {
        if (!limited()) return;
        const auto answer = static_cast<double>(size_bytes);
        const auto most = static_cast<double>(most_bytes_);
        granted_bytes_ += marked ? -answer / 2 : answer * most / (kRoundsToRegain * granted_bytes_);
        granted_bytes_ = std::clamp(granted_bytes_, most / kLeastShare, most);
    }

  private:
    /// Round trips without marks until the whole credit is granted again.
    static constexpr double kRoundsToRegain = 16;
    static constexpr double kLeastShare = 8;

    std::uint64_t most_bytes_;
    double granted_bytes_;
    AwaitedBytes awaited_;
};

}  // namespace innet
