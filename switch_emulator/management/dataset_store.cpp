#include "switch_emulator/management/dataset_store.hpp"

#include <algorithm>

namespace innet::management {

namespace {

/// So that a segment fits with a long name into what every NDN program takes (8800 bytes).
constexpr std::size_t kSegmentBytes = 6144;
/// Longer than any client needs to fetch a dataset.
constexpr Duration kMaxAge = std::chrono::minutes(1);
/// Whatever their size: a query that finds nothing leaves an empty one, and its filter's name.
constexpr std::size_t kMaxSnapshots = 256;

}  // namespace

std::uint64_t Snapshot::segments() const {
    return std::max<std::size_t>(1, (content.size() + kSegmentBytes - 1) / kSegmentBytes);
}

wire::ByteView Snapshot::segment(std::uint64_t index) const {
    const wire::ByteView whole(content);
    const std::size_t start = static_cast<std::size_t>(index) * kSegmentBytes;
    return whole.subspan(start, std::min(kSegmentBytes, whole.size() - start));
}

const Snapshot& DatasetStore::publish(wire::NameView name, Bytes content,
                                      std::uint64_t wall_time_ms, TimePoint now) {
    drop_old(now);
    for (auto snapshot = snapshots_.rbegin(); snapshot != snapshots_.rend(); ++snapshot) {
        if (!(snapshot->versioned_name.view().parent() == name)) continue;
        if (snapshot->content == content) return *snapshot;
        break;  // an older one may look the same, but is not the newest
    }
    last_version_ = std::max(last_version_ + 1, wall_time_ms);
    wire::Name versioned(name);
    versioned.append_number(wire::kVersionComponent, last_version_);
    size_bytes_ += content.size();
    snapshots_.push_back({std::move(versioned), std::move(content), now});
    while (snapshots_.size() > 1 &&
           (size_bytes_ > max_bytes_ || snapshots_.size() > kMaxSnapshots)) {
        drop_oldest();
    }
    return snapshots_.back();
}

const Snapshot* DatasetStore::find(wire::NameView versioned_name, TimePoint now) {
    drop_old(now);
    const auto found = std::ranges::find_if(snapshots_, [&](const Snapshot& snapshot) {
        return snapshot.versioned_name.view() == versioned_name;
    });
    return found == snapshots_.end() ? nullptr : &*found;
}

void DatasetStore::drop_oldest() {
    size_bytes_ -= snapshots_.front().content.size();
    snapshots_.pop_front();
}

void DatasetStore::drop_old(TimePoint now) {
    while (!snapshots_.empty() && now - snapshots_.front().made > kMaxAge) drop_oldest();
}

}  // namespace innet::management
