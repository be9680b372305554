#pragma once
// Durations on the wire: milliseconds as NonNegativeIntegers, which may exceed the range of a
// Duration.

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "transport/time.hpp"

namespace innet::wire {

/// Longer ones count as this one, so that no sum with a TimePoint overflows.
inline constexpr Duration kLongestOnTheWire = std::chrono::hours(24 * 365 * 100);

constexpr Duration duration_of_ms(std::uint64_t ms) {
    constexpr auto kLongest =
        std::chrono::duration_cast<std::chrono::milliseconds>(kLongestOnTheWire);
    return std::chrono::milliseconds(std::min(ms, static_cast<std::uint64_t>(kLongest.count())));
}

/// Rounds down; a negative Duration counts as 0.
constexpr std::uint64_t ms_of_duration(Duration duration) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, ms));
}

}  // namespace innet::wire
