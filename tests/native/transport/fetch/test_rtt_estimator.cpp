#include <doctest/doctest.h>

#include "transport/fetch/rtt_estimator.hpp"

using namespace innet;
using namespace std::chrono_literals;

TEST_CASE("before the first sample the timeout is ten times the minimum, within the maximum") {
    CHECK(RttEstimator(5ms, 500ms).timeout() == 50ms);
    CHECK(RttEstimator(100ms, 500ms).timeout() == 500ms);
}

TEST_CASE("the first sample sets the estimate, later ones move it slowly") {
    RttEstimator rtt(1ms, 500ms);
    rtt.sample(16ms);
    CHECK(rtt.smoothed() == 16ms);
    CHECK(rtt.variation() == 8ms);
    CHECK(rtt.timeout() == 48ms);
    rtt.sample(24ms);
    CHECK(rtt.smoothed() == 17ms);
    CHECK(rtt.variation() == 8ms);
    CHECK(rtt.minimum() == 16ms);
    CHECK(rtt.latest() == 24ms);
}

TEST_CASE("a steady path keeps a margin of a millisecond and never goes below the minimum") {
    RttEstimator rtt(5ms, 500ms);
    for (int i = 0; i < 200; ++i) rtt.sample(20ms);
    CHECK(rtt.timeout() >= 21ms);
    CHECK(rtt.timeout() < 22ms);
    RttEstimator fast(5ms, 500ms);
    for (int i = 0; i < 200; ++i) fast.sample(100us);
    CHECK(fast.timeout() == 5ms);
}

TEST_CASE("back-offs double the timeout up to the maximum and end with the next sample") {
    RttEstimator rtt(5ms, 500ms);
    rtt.sample(4ms);
    const Duration normal = rtt.timeout();
    rtt.back_off();
    CHECK(rtt.timeout() == 2 * normal);
    for (int i = 0; i < 100; ++i) rtt.back_off();
    CHECK(rtt.timeout() == 500ms);
    rtt.sample(4ms);
    CHECK(rtt.timeout() <= normal);
}

TEST_CASE("a round trip longer than the maximum is not timed out before its time") {
    RttEstimator rtt(5ms, 500ms);
    for (int i = 0; i < 100; ++i) rtt.sample(2s);
    CHECK(rtt.timeout() > 2s);
    rtt.back_off();
    CHECK(rtt.timeout() < 3s);
}

TEST_CASE("a request's own back-offs count when they exceed the flow's") {
    RttEstimator rtt(5ms, 500ms);
    rtt.sample(4ms);
    const Duration normal = rtt.timeout();
    rtt.back_off();
    CHECK(rtt.timeout(1) == 2 * normal);
    CHECK(rtt.timeout(3) == 8 * normal);
}
