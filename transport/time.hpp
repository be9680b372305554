#pragma once
// Time as the engine sees it: handed in by a driver, never read from a clock.

#include <chrono>
#include <cstdint>

namespace innet {

using Duration = std::chrono::nanoseconds;

/// A clock without `now()`: the driver (socket loop, simulator, test) passes the time.
struct EngineClock {
    using rep = Duration::rep;
    using period = Duration::period;
    using duration = Duration;
    using time_point = std::chrono::time_point<EngineClock, Duration>;
    static constexpr bool is_steady = true;
};

using TimePoint = EngineClock::time_point;

/// The deadline that never expires.
inline constexpr TimePoint kNever = TimePoint::max();

}  // namespace innet
