#pragma once
// Copies of large results into memory that nobody reads soon.

#include <cstdint>
#include <span>

namespace innet {

/// Copies `from` to the beginning of `into`, which is at least as long, past the caches where the
/// processor can: a cache line that is written in whole is not read from memory first, and does
/// not displace one that is needed again.
void copy_streaming(std::span<const std::uint8_t> from, std::span<std::uint8_t> into);

}  // namespace innet
