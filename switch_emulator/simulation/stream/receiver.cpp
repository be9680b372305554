#include "switch_emulator/simulation/stream/receiver.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace innet::simulation::stream {

bool Receiver::on_segment(const DataSegment& segment, TimePoint now) {
    const std::uint64_t begin = unwrap(segment.sequence, next_);
    const Range range{begin, begin + segment.size};
    const bool in_order = begin == next_ && beyond_.empty();
    if (range.end > next_) {
        const Range merged = keep({std::max(range.begin, next_), range.end});
        sack_ = merged.begin > next_ ? merged : Range{};
    } else {
        sack_ = {};
    }
    ++unacknowledged_;
    if (!in_order || unacknowledged_ >= kSegmentsPerAcknowledgement) {
        return true;
    }
    deadline_ = std::min(deadline_, now + kDelay);
    return false;
}

Range Receiver::keep(Range range) {
    auto after = beyond_.upper_bound(range.begin);
    if (after != beyond_.begin() && std::prev(after)->second >= range.begin) {
        --after;
    }
    while (after != beyond_.end() && after->first <= range.end) {
        range = {std::min(range.begin, after->first), std::max(range.end, after->second)};
        after = beyond_.erase(after);
    }
    if (range.begin > next_) {
        beyond_.emplace(range.begin, range.end);
    } else {
        next_ = range.end;
    }
    return range;
}

Acknowledgement Receiver::acknowledge(StreamId stream) {
    unacknowledged_ = 0;
    deadline_ = kNever;
    const Range sack = std::exchange(sack_, {});
    return {stream, static_cast<std::uint32_t>(next_), static_cast<std::uint32_t>(sack.begin),
            static_cast<std::uint32_t>(sack.end)};
}

}  // namespace innet::simulation::stream
