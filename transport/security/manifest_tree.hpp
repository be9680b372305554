#pragma once
// The shape of a tree of manifests, which the number of segments and the fan-out determine
// (docs/protocol.md, "Manifests").

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace innet::security {

inline constexpr std::uint64_t kMinManifestFanOut = 2;
inline constexpr std::uint64_t kMaxManifestFanOut = 2048;

/// Where a child stands: which manifest lists it, and at which place.
struct ManifestSlot {
    std::uint64_t manifest = 0;
    std::uint64_t position = 0;
};

/// Manifests numbered from the root (0) downwards, level by level.
class ManifestTree {
  public:
    /// Nothing without segments or with a fan-out outside 2..2048.
    static std::optional<ManifestTree> over(std::uint64_t segments, std::uint64_t fan_out);

    std::uint64_t segments() const { return segments_; }
    std::uint64_t fan_out() const { return fan_out_; }
    std::uint64_t manifests() const { return levels_.back().first + levels_.back().count; }
    /// How many digests manifest `manifest` lists; it is below `manifests()`.
    std::uint64_t children_of(std::uint64_t manifest) const;
    /// The slot that lists manifest `manifest`, which is not the root and below `manifests()`.
    ManifestSlot slot_of_manifest(std::uint64_t manifest) const;
    /// The slot that lists segment `segment`, which is below `segments()`.
    ManifestSlot slot_of_segment(std::uint64_t segment) const;
    /// First manifest of the lowest level; that and all after it list segments.
    std::uint64_t first_leaf() const { return levels_.back().first; }

    struct Level {
        std::uint64_t first = 0;
        std::uint64_t count = 0;
    };
    /// From the root downwards.
    std::span<const Level> levels() const { return levels_; }

  private:
    std::size_t level_of(std::uint64_t manifest) const;

    std::uint64_t segments_ = 0;
    std::uint64_t fan_out_ = 0;
    std::vector<Level> levels_;
};

}  // namespace innet::security
