#pragma once
// Walks over the segments that one target of a fetch answers.

#include <cstdint>

#include "transport/endpoint/operation.hpp"

namespace innet {

class ShardCursor {
  public:
    ShardCursor() = default;
    /// The segments of `spec` that come from `spec.targets[target]`, in ascending order.
    ShardCursor(const FetchSpec& spec, std::size_t target)
        : segments_per_shard_(
              spec.shard_rule == ShardRule::kBlock ? spec.segmentation.segments_per_block() : 1),
          targets_(spec.targets.size()),
          target_(target),
          next_(spec.first_segment),
          end_(spec.end_segment) {
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
        const std::uint64_t shard = next_ / segments_per_shard_;
        const std::uint64_t ahead = (target_ + targets_ - shard % targets_) % targets_;
        if (ahead != 0) next_ = (shard + ahead) * segments_per_shard_;
    }

    std::uint64_t segments_per_shard_ = 1;
    std::uint64_t targets_ = 1;
    std::uint64_t target_ = 0;
    std::uint64_t next_ = 0;
    std::uint64_t end_ = 0;
};

}  // namespace innet
