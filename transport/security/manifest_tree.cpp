#include "transport/security/manifest_tree.hpp"

#include <algorithm>

namespace innet::security {

std::optional<ManifestTree> ManifestTree::over(std::uint64_t segments, std::uint64_t fan_out) {
    if (segments == 0 || fan_out < kMinManifestFanOut || fan_out > kMaxManifestFanOut) {
        return std::nullopt;
    }
    ManifestTree tree;
    tree.segments_ = segments;
    tree.fan_out_ = fan_out;
    std::uint64_t count = segments;
    do {
        count = (count - 1) / fan_out + 1;
        tree.levels_.push_back({0, count});
    } while (count > 1);
    std::reverse(tree.levels_.begin(), tree.levels_.end());
    for (std::size_t i = 1; i < tree.levels_.size(); ++i) {
        tree.levels_[i].first = tree.levels_[i - 1].first + tree.levels_[i - 1].count;
    }
    return tree;
}

std::size_t ManifestTree::level_of(std::uint64_t manifest) const {
    std::size_t level = levels_.size() - 1;
    while (levels_[level].first > manifest) --level;
    return level;
}

std::uint64_t ManifestTree::children_of(std::uint64_t manifest) const {
    const std::size_t level = level_of(manifest);
    const bool is_leaf = level + 1 == levels_.size();
    const std::uint64_t children = is_leaf ? segments_ : levels_[level + 1].count;
    const std::uint64_t before = (manifest - levels_[level].first) * fan_out_;
    return std::min(fan_out_, children - before);
}

ManifestSlot ManifestTree::slot_of_manifest(std::uint64_t manifest) const {
    const std::size_t level = level_of(manifest);
    const std::uint64_t place = manifest - levels_[level].first;
    return {levels_[level - 1].first + place / fan_out_, place % fan_out_};
}

ManifestSlot ManifestTree::slot_of_segment(std::uint64_t segment) const {
    return {first_leaf() + segment / fan_out_, segment % fan_out_};
}

}  // namespace innet::security
