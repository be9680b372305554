#pragma once
// How a tensor is cut into segments.

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace innet {

/// Segments of one tensor or object: bounds its tables to something that a machine can have, and
/// keeps a segment's number within a request's key.
inline constexpr std::uint64_t kMaxSegments = std::uint64_t{1} << 26U;

/// A tensor of `blocks` equal blocks of `block_bytes`, each cut into segments of `segment_bytes`
/// (the last of a block may be shorter). An empty block still has one empty segment, so that its
/// name exists. Segments are numbered through the blocks.
struct Segmentation {
    std::uint64_t blocks = 1;
    std::uint64_t block_bytes = 0;
    std::uint64_t segment_bytes = 1;

    std::uint64_t segments_per_block() const {
        return std::max<std::uint64_t>(1, (block_bytes + segment_bytes - 1) / segment_bytes);
    }
    std::uint64_t segments() const { return blocks * segments_per_block(); }
    std::uint64_t block_of(std::uint64_t segment) const { return segment / segments_per_block(); }
    std::uint64_t offset_of(std::uint64_t segment) const {
        return block_of(segment) * block_bytes + (segment % segments_per_block()) * segment_bytes;
    }
    std::uint64_t size_of(std::uint64_t segment) const {
        const std::uint64_t within = (segment % segments_per_block()) * segment_bytes;
        return std::min(segment_bytes, block_bytes - std::min(block_bytes, within));
    }
    bool operator==(const Segmentation&) const = default;
};

}  // namespace innet
