#include "transport/publish/waiting_tensors.hpp"

#include <algorithm>

namespace innet {

namespace {

/// More than one, so that expired tensors are removed faster than new ones are added.
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
    if (segments_ < kMaxSegments && waiting.segments.insert(segment).second) ++segments_;
}

void WaitingTensors::remove(wire::NameView tensor, std::uint64_t seq, std::uint64_t segment) {
    const auto entry = by_seq_.find({seq, tensor.hash()});
    if (entry == by_seq_.end()) return;
    WaitingTensor& waiting = entry->second.tensor;
    if (waiting.name.view() != tensor || waiting.segments.erase(segment) == 0) return;
    --segments_;
    if (waiting.segments.empty()) erase(entry);
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

// Evicts the oldest entry instead of rejecting the new one: a peer that repeatedly connects,
// requests and disconnects must not block the entries of other requesters.
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
