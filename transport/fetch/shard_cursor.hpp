#pragma once
// Which segments of a fetch which of its targets answers.

#include <cstdint>

#include "transport/endpoint/operation.hpp"

namespace innet {

/// How segments are dealt out to the targets of a fetch.
struct Sharding {
    std::uint64_t segments_per_shard = 1;
    std::uint64_t targets = 1;

    Sharding() = default;
    explicit Sharding(const FetchSpec& spec)
        : segments_per_shard(
              spec.shard_rule == ShardRule::kBlock ? spec.segmentation.segments_per_block() : 1),
          targets(spec.targets.size()) {}

    /// The target that answers for a segment.
    std::uint64_t target_of(std::uint64_t segment) const {
        return segment / segments_per_shard % targets;
    }
    bool operator==(const Sharding&) const = default;
};

/// Walks over the segments that one target answers.
class ShardCursor {
  public:
    ShardCursor() = default;
    /// The segments of `spec` that `spec.targets[target]` answers for, in ascending order.
    ShardCursor(const FetchSpec& spec, std::size_t target)
        : sharding_(spec), target_(target), next_(spec.first_segment), end_(spec.end_segment) {
        skip_to_own();
    }

    bool at_end() const { return next_ >= end_; }
    /// The segment that `take` gives; the end of the fetch or more when there is none.
    std::uint64_t next() const { return next_; }
    /// The next segment; only when not at the end.
    std::uint64_t take() {
        const std::uint64_t segment = next_++;
        skip_to_own();
        return segment;
    }

  private:
    void skip_to_own() {
        const std::uint64_t targets = sharding_.targets;
        const std::uint64_t ahead = (target_ + targets - sharding_.target_of(next_)) % targets;
        if (ahead == 0) return;
        const std::uint64_t shard = next_ / sharding_.segments_per_shard;
        next_ = (shard + ahead) * sharding_.segments_per_shard;
    }

    Sharding sharding_;
    std::uint64_t target_ = 0;
    std::uint64_t next_ = 0;
    std::uint64_t end_ = 0;
};

}  // namespace innet
