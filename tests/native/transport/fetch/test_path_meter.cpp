#include <doctest/doctest.h>

#include "transport/fetch/path_meter.hpp"

namespace innet {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::size_t kAnswer = 1'000;
constexpr Duration kRoundTrip = milliseconds(2);
constexpr TimePoint kStart{std::chrono::seconds(1)};

/// Answers that arrive at intervals of `apart`; returns when the last one did.
TimePoint feed(PathMeter& meter, int answers, Duration apart, TimePoint from,
               Duration round_trip = kRoundTrip) {
    for (int i = 0; i < answers; ++i) meter.on_answer(kAnswer, round_trip, from += apart);
    return from;
}

TEST_CASE("the bytes of a round trip fill a path") {
    PathMeter meter;
    meter.on_first_request(kStart);
    feed(meter, 1'000, microseconds(100), kStart);
    CHECK(meter.path_bytes() == doctest::Approx(20 * kAnswer));
}

TEST_CASE("the longest round trip of the flows counts") {
    PathMeter meter;
    meter.on_first_request(kStart);
    TimePoint now = kStart;
    for (int i = 0; i < 500; ++i) {
        now = feed(meter, 1, microseconds(100), now, kRoundTrip);
        now = feed(meter, 1, microseconds(100), now, microseconds(50));
    }
    CHECK(meter.path_bytes() == doctest::Approx(20 * kAnswer));
}

TEST_CASE("a path without a round trip has no estimate") {
    PathMeter meter;
    meter.on_first_request(kStart);
    feed(meter, 1'000, microseconds(100), kStart, Duration::max());
    CHECK(meter.path_bytes() == 0);
}

TEST_CASE("silence does not make a path look slow") {
    PathMeter meter;
    TimePoint now = kStart;
    for (int busy = 0; busy < 10; ++busy) {
        now += std::chrono::seconds(1);
        meter.on_first_request(now);
        now = feed(meter, 100, microseconds(100), now);
    }
    CHECK(meter.path_bytes() == doctest::Approx(20 * kAnswer));
}

TEST_CASE("answers that are read late, all at once, do not make a path look much faster") {
    PathMeter meter;
    meter.on_first_request(kStart);
    TimePoint now = kStart;
    // A window of 100 answers waits in each pause, which is as long as the link needs for it.
    for (int pause = 0; pause < 20; ++pause) {
        now = feed(meter, 100, Duration{0}, now + milliseconds(10));
    }
    CHECK(meter.path_bytes() <= 2 * 20 * kAnswer);
}

TEST_CASE("the estimate decreases slowly when less arrives") {
    PathMeter meter;
    meter.on_first_request(kStart);
    TimePoint now = feed(meter, 1'000, microseconds(100), kStart);
    now = feed(meter, 100, milliseconds(1), now);
    CHECK(meter.path_bytes() >= 10 * kAnswer);
    feed(meter, 1'000, milliseconds(1), now);
    CHECK(meter.path_bytes() == doctest::Approx(2 * kAnswer).epsilon(0.2));
}

}  // namespace
}  // namespace innet
