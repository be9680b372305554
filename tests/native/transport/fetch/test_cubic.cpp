// CUBIC on a model of one path: requests are free, answers are segments of 8 KiB that queue at one
// link.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

#include "transport/fetch/cubic.hpp"
#include "transport/fetch/flow.hpp"

using namespace innet;
using namespace std::chrono_literals;

namespace {

constexpr double kSegmentBits = 8.0 * 8192;

struct Path {
    double rate_bps = 200e6;
    Duration round_trip = 1ms;  ///< without any queue
    double loss = 0;
    Duration queue_limit = 1s;  ///< an answer that would wait longer is dropped
    Duration mark_above = 1s;   ///< an answer that waits longer is marked
};

struct Result {
    double utilisation = 0;
    Duration worst_queue{0};
    Duration last_queue{0};
    double repeated = 0;  ///< share of requests that were repetitions
    std::uint32_t window = 0;
};

TimePoint at(Duration since_start) { return TimePoint{} + since_start; }

/// One flow that always has more to ask, for `time`; figures are of its second half.
Result run(const Path& path, Duration time, CubicOptions options = {}) {
    Flow flow(wire::Name::from_uri("/n/s0").value(), LossDetector(5ms, 500ms, 1s),
              std::make_unique<Cubic>(options));
    std::mt19937 random(5);
    struct Answer {
        RequestKey key;
        bool marked;
    };
    std::multimap<TimePoint, Answer> answers;
    std::vector<LostRequest> lost;
    std::vector<RequestKey> repeat;
    const Duration serialisation(static_cast<Duration::rep>(1e9 * kSegmentBits / path.rate_bps));
    TimePoint link_free{};
    RequestKey next = 0;
    Result result;
    std::uint64_t sent = 0;
    std::uint64_t repeated = 0;
    std::uint64_t answered = 0;
    TimePoint now{};
    while (now < at(time)) {
        const bool counts = now >= at(time / 2);
        while (flow.has_room()) {
            RequestKey key = next;
            if (repeat.empty()) {
                ++next;
            } else {
                key = repeat.back();
                repeat.pop_back();
                repeated += counts ? 1 : 0;
            }
            sent += counts ? 1 : 0;
            flow.detector().on_sent(key, 1, now);
            if (static_cast<double>(random()) / 4294967296.0 < path.loss) continue;
            const TimePoint arrives = now + path.round_trip / 2;
            const Duration waits = std::max(Duration(0), link_free - arrives);
            if (waits > path.queue_limit) continue;
            result.last_queue = waits;
            if (counts) result.worst_queue = std::max(result.worst_queue, waits);
            link_free = arrives + waits + serialisation;
            answers.emplace(link_free + path.round_trip / 2, Answer{key, waits > path.mark_above});
        }
        const TimePoint next_answer = answers.empty() ? kNever : answers.begin()->first;
        now = std::min(next_answer, flow.next_deadline());
        if (now == next_answer) {
            answered += counts && flow.on_answered(answers.begin()->second.key,
                                                   answers.begin()->second.marked, now);
            if (!counts) {
                flow.on_answered(answers.begin()->second.key, answers.begin()->second.marked, now);
            }
            answers.erase(answers.begin());
        }
        lost.clear();
        flow.collect(now, lost);
        for (const LostRequest& request : lost) repeat.push_back(request.key);
    }
    const double seconds = std::chrono::duration<double>(time / 2).count();
    result.utilisation = static_cast<double>(answered) * kSegmentBits / seconds / path.rate_bps;
    result.repeated = static_cast<double>(repeated) / static_cast<double>(sent);
    result.window = flow.window();
    return result;
}

RttEstimator steady(Duration rtt) {
    RttEstimator estimator(5ms, 500ms);
    for (int i = 0; i < 50; ++i) estimator.sample(rtt);
    return estimator;
}

}  // namespace

TEST_CASE("CUBIC fills links of every speed without a long queue") {
    const std::vector<Path> paths{{50e6, 1ms},   {200e6, 100us}, {200e6, 1ms},  {200e6, 5ms},
                                  {1e9, 300us},  {1e9, 5ms},     {10e9, 100us}, {10e9, 300us},
                                  {100e6, 20ms}, {500e6, 50ms}};
    for (const Path& path : paths) {
        CAPTURE(path.rate_bps);
        CAPTURE(path.round_trip.count());
        const Result result = run(path, 4s);
        CHECK(result.utilisation > 0.95);
        CHECK(result.worst_queue < 15ms);
        CHECK(result.repeated == 0);
    }
}

TEST_CASE("CUBIC is fast from the start") {
    CHECK(run({200e6, 1ms}, 100ms).utilisation > 0.95);
    CHECK(run({1e9, 1ms}, 100ms).utilisation > 0.95);
    CHECK(run({10e9, 300us}, 20ms).utilisation > 0.9);
}

TEST_CASE("random loss does not shrink CUBIC's window") {
    for (const double loss : {0.01, 0.02, 0.04}) {
        CAPTURE(loss);
        for (const Path& path : {Path{200e6, 1ms}, Path{1e9, 2ms}, Path{200e6, 20ms}}) {
            CAPTURE(path.round_trip.count());
            Path lossy = path;
            lossy.loss = loss;
            const Result result = run(lossy, 4s);
            CHECK(result.utilisation > 0.95 * (1 - loss));
            CHECK(result.repeated < 1.5 * loss + 0.01);
        }
    }
}

TEST_CASE("a queue too short to show up as delay does not make CUBIC flood it") {
    for (const Duration limit : {1ms, 2ms, 4ms}) {
        CAPTURE(limit.count());
        Path path{1e9, 1ms};
        path.queue_limit = limit;
        const Result result = run(path, 4s);
        CHECK(result.utilisation > 0.9);
        CHECK(result.repeated < 0.15);
    }
}

TEST_CASE("marks hold the queue at the marking threshold") {
    Path path{1e9, 1ms};
    path.mark_above = 1ms;
    const Result result = run(path, 4s);
    CHECK(result.utilisation > 0.9);
    CHECK(result.worst_queue < 3ms);
    CHECK(result.repeated == 0);
}

TEST_CASE("CUBIC decreases at most once per round trip, and never below four segments") {
    Cubic cubic({16, 512, 5ms});
    const RttEstimator rtt = steady(10ms);
    for (int i = 0; i < 16; ++i) cubic.on_answer(at(1000ms), rtt, true, true);
    CHECK(cubic.window() == 11);
    cubic.on_answer(at(1009ms), rtt, true, true);
    CHECK(cubic.window() == 11);
    for (int i = 0; i < 20; ++i) cubic.on_answer(at(1020ms + i * 10ms), rtt, true, true);
    CHECK(cubic.window() == 4);
    for (int i = 0; i < 20; ++i) cubic.on_refusal(at(2000ms + i * 10ms), rtt);
    CHECK(cubic.window() == 4);
}

TEST_CASE("CUBIC leaves slow start by delay, keeping its window when the target is met") {
    Cubic cubic({16, 512, 5ms});
    RttEstimator rtt = steady(1ms);
    CHECK(cubic.in_slow_start());
    for (int i = 0; i < 20; ++i) cubic.on_answer(at(1ms), rtt, false, true);
    CHECK(cubic.window() == 36);
    const auto answer = [&](Duration sample) {
        rtt.sample(sample);
        cubic.on_answer(at(10ms), rtt, false, true);
    };
    for (int i = 0; i < 7; ++i) answer(8ms);
    CHECK(cubic.in_slow_start());
    CHECK(cubic.window() == 43);
    answer(8ms);
    CHECK_FALSE(cubic.in_slow_start());
    CHECK(cubic.window() == 30);
}

TEST_CASE("some long samples among short ones do not indicate a queue") {
    Cubic cubic({16, 512, 5ms});
    RttEstimator rtt = steady(1ms);
    for (int i = 0; i < 400; ++i) {
        rtt.sample(i % 4 == 0 ? 1ms : 20ms);
        cubic.on_answer(at(i * 1ms), rtt, false, true);
    }
    CHECK(cubic.in_slow_start());
}

TEST_CASE("an unused window does not grow") {
    Cubic cubic({16, 512, 5ms});
    const RttEstimator rtt = steady(1ms);
    for (int i = 0; i < 1000; ++i) cubic.on_answer(at(1ms * i), rtt, false, false);
    CHECK(cubic.window() == 16);
}

TEST_CASE("before the first round trip is known, the window stays as it is") {
    Cubic cubic({16, 512, 5ms});
    const RttEstimator unknown(5ms, 500ms);
    for (int i = 0; i < 1000; ++i) cubic.on_answer(at(1ms * i), unknown, false, true);
    CHECK(cubic.window() == 16);
}

TEST_CASE("some own segments can wait where each takes longer than the target") {
    const Result result = run({10e6, 1ms}, 20s);  // 6.6 ms a segment
    CHECK(result.worst_queue > 8 * 6ms);
    CHECK(result.worst_queue < 11 * 6ms);
    CHECK(result.utilisation > 0.95);
}

TEST_CASE("CUBIC returns towards the window from before, faster than it explores beyond") {
    CubicOptions options{16, 5000, 5ms};
    Cubic cubic(options);
    const RttEstimator rtt = steady(50ms);
    for (int i = 0; i < 984; ++i) cubic.on_answer(at(1ms), rtt, false, true);
    CHECK(cubic.window() == 1000);
    cubic.on_answer(at(100ms), rtt, true, true);
    CHECK(cubic.window() == 700);
    TimePoint now = at(100ms);
    const auto run_for = [&](Duration time) {
        for (const TimePoint end = now + time; now < end; now += 50ms) {
            const std::uint32_t answers = cubic.window();
            for (std::uint32_t i = 0; i < answers; ++i) cubic.on_answer(now, rtt, false, true);
        }
        return cubic.window();
    };
    // K = cbrt(300 / 0.4) = 9.1 s (RFC 9438, section 4.2).
    CHECK(run_for(4s) > 930);
    const std::uint32_t plateau = run_for(5s);
    CHECK(plateau >= 995);
    CHECK(plateau <= 1005);
    CHECK(run_for(6s) > 1060);
}
