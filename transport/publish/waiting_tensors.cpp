#include "transport/publish/waiting_tensors.hpp"

#include <algorithm>

namespace innet {

namespace {

/// More than one, or expired tensors would stay as fast as others come.
constexpr int kLookedAtPerAddition = 2;

}  // namespace

void WaitingTensors::add(wire::NameView tensor, std::uint64_t seq, std::uint64_t segment,
                         TimePoint expires, TimePoint now) {
    drop_expired(now);
    const Key key{seq, tensor.hash()};
    make_room(key);
    auto entry = by_seq_.find(key);
    if (entry == by_seq_.end()) {
        entry = by_seq_.emplace(key, Entry{{wire::Name(tensor), seq, expires, {}}, {}}).first;
        entry->second.turn = turns_.insert(turns_.end(), key);
    }
    WaitingTensor& waiting = entry->second.tensor;
    if (waiting.name.view() != tensor) return;  // two names of one hash
    waiting.expires = std::max(waiting.expires, expires);
    remember(waiting.segments, segment);
}

/// Sorts. Without ranges' `unique`, which clang 14 cannot compile with libstdc++ 12.
void WaitingTensors::remove_repeated(std::vector<std::uint64_t>& segments) {
    std::ranges::sort(segments);
    segments.erase(std::unique(segments.begin(), segments.end()), segments.end());
}

void WaitingTensors::remember(std::vector<std::uint64_t>& segments, std::uint64_t segment) {
    if (segments.size() == segments.capacity()) {
        // Refreshes ask again for what is remembered already.
        segments_ -= segments.size();
        remove_repeated(segments);
        segments_ += segments.size();
        // As many additions as there are segments pay for the next sort.
        segments.reserve(std::max<std::size_t>(4, 2 * segments.size()));
    }
    if (segments_ >= kMaxSegments) return;
    segments.push_back(segment);
    ++segments_;
}

void WaitingTensors::drop_expired(TimePoint now) {
    for (int looked_at = 0; looked_at < kLookedAtPerAddition && !turns_.empty(); ++looked_at) {
        const auto entry = by_seq_.find(turns_.front());
        if (entry->second.tensor.expires > now) {
            turns_.splice(turns_.end(), turns_, turns_.begin());
            continue;
        }
        drop(entry);
    }
}

// The old one goes, not the new one: a peer that connects, asks and hangs up again and again leaves
// entries behind, and must not keep everybody else from being remembered.
void WaitingTensors::make_room(const Key& added) {
    if (segments_ < kMaxSegments) return;
    if (turns_.front() == added) turns_.splice(turns_.end(), turns_, turns_.begin());
    if (turns_.front() != added) drop(by_seq_.find(turns_.front()));
}

void WaitingTensors::drop(Entries::iterator entry) {
    segments_ -= entry->second.tensor.segments.size();
    erase(entry);
}

}  // namespace innet
