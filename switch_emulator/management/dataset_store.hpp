#pragma once
// Versions of datasets, each as it was at the first request: all segments of a version stay
// available.

#include <cstdint>
#include <deque>
#include <optional>

#include "switch_emulator/management/message.hpp"
#include "transport/time.hpp"
#include "transport/wire/name.hpp"

namespace innet::management {

/// One version of a dataset.
struct Snapshot {
    wire::Name versioned_name;
    Bytes content;
    TimePoint made;

    /// At least one, which is empty for an empty dataset.
    std::uint64_t segments() const;
    /// `index < segments()`.
    wire::ByteView segment(std::uint64_t index) const;
};

/// Bounded in bytes and in age: drops the oldest version first.
class DatasetStore {
  public:
    explicit DatasetStore(std::size_t max_bytes = std::size_t{16} << 20) : max_bytes_(max_bytes) {}

    /// A new version of the dataset `name`, or the last one when nothing has changed since.
    /// Versions are times in milliseconds since 1970, and rise. Valid until the next call.
    const Snapshot& publish(wire::NameView name, Bytes content, std::uint64_t wall_time_ms,
                            TimePoint now);
    /// Null when there is none of this name, or none any more.
    const Snapshot* find(wire::NameView versioned_name, TimePoint now);

  private:
    void drop_oldest();
    void drop_old(TimePoint now);

    std::size_t max_bytes_;
    std::size_t size_bytes_ = 0;
    std::uint64_t last_version_ = 0;
    std::deque<Snapshot> snapshots_;  ///< oldest first
};

}  // namespace innet::management
