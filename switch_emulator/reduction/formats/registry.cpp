#include "switch_emulator/reduction/formats/registry.hpp"

#include <array>

#include "switch_emulator/reduction/formats/block_scaled/q8_format.hpp"
#include "switch_emulator/reduction/formats/dense/dense_format.hpp"
#include "switch_emulator/reduction/formats/pairs/pairs_format.hpp"

namespace innet::reduction {

namespace {

using Find = const Format* (*)(std::string_view op, std::string_view type);

/// Each knows the operations and types of its own; to add a family of formats, add its function.
constexpr std::array<Find, 3> kFamilies{find_dense_format, find_pairs_format,
                                        find_block_scaled_format};

}  // namespace

const Format* find_format(std::string_view kind) {
    const std::size_t dot = kind.find('.');
    if (dot == std::string_view::npos) return nullptr;
    for (const Find find : kFamilies) {
        if (const Format* format = find(kind.substr(0, dot), kind.substr(dot + 1))) return format;
    }
    return nullptr;
}

}  // namespace innet::reduction
