#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include "transport/fetch/loss_detector.hpp"

using namespace innet;
using namespace std::chrono_literals;

namespace {

constexpr PublicationTag kFirst = 11;
constexpr PublicationTag kSecond = 22;

TimePoint at(Duration since_start) { return TimePoint{} + since_start; }

std::vector<LostRequest> lost(LossDetector& detector, TimePoint now) {
    std::vector<LostRequest> found;
    detector.collect(now, found);
    return found;
}

/// A detector that knows the path's RTT (1 ms), at time 100 ms.
LossDetector warmed_up() {
    LossDetector detector(5ms, 500ms, 1s);
    for (RequestKey key = 1000; key < 1050; ++key) {
        detector.on_sent(key, 1, at(99ms));
        CHECK(detector.on_answered(key, at(100ms)));
    }
    return detector;
}

}  // namespace

TEST_CASE("a request is lost by gap after three later answers and 9/8 of the RTT") {
    LossDetector detector = warmed_up();
    for (RequestKey key = 0; key < 5; ++key) detector.on_sent(key, kFirst, at(100ms));
    detector.on_answered(1, at(101ms));
    detector.on_answered(2, at(101ms));
    CHECK(lost(detector, at(103ms)).empty());
    detector.on_answered(3, at(101ms));
    CHECK(lost(detector, at(101ms)).empty());
    CHECK(detector.next_deadline() == at(101ms + 125us));
    const auto found = lost(detector, at(101ms + 125us));
    REQUIRE(found.size() == 1);
    CHECK(found[0].key == 0);
    CHECK(found[0].cause == LossCause::kGap);
    CHECK(found[0].consecutive_timeouts == 0);
    CHECK(detector.outstanding(0));
}

TEST_CASE("answers that wait for other nodes can overtake each other by a round trip") {
    for (const AnswerOrder order : {AnswerOrder::kWhenReady, AnswerOrder::kLocal}) {
        LossDetector detector(5ms, 500ms, 1s, nullptr, order);
        for (RequestKey key = 0; key < 50; ++key) detector.on_sent(key, kFirst, at(99ms));
        for (RequestKey key = 0; key < 50; ++key) detector.on_answered(key, at(100ms));
        for (RequestKey key = 0; key < 4; ++key) detector.on_sent(key, kFirst, at(100ms));
        for (RequestKey key = 1; key < 4; ++key) detector.on_answered(key, at(101ms));
        CHECK(lost(detector, at(102ms + 124us)).empty());
        if (order == AnswerOrder::kWhenReady) {
            CHECK(detector.next_deadline() == at(102ms + 125us));
            CHECK(lost(detector, at(102ms + 125us)).size() == 1);
        } else {
            // Until its Interest expires.
            CHECK(detector.next_deadline() == at(100ms) + 1s);
        }
    }
}

TEST_CASE("answers that wait for other nodes are considered lost sooner once packets are lost") {
    LossDetector detector(5ms, 500ms, 1s, nullptr, AnswerOrder::kWhenReady);
    for (RequestKey key = 0; key < 50; ++key) detector.on_sent(key, kFirst, at(99ms));
    for (RequestKey key = 0; key < 50; ++key) detector.on_answered(key, at(100ms));
    const auto lost_after = [&](TimePoint sent, Duration answered_after) {
        for (RequestKey key = 0; key < 4; ++key) detector.on_sent(key, kFirst, sent);
        for (RequestKey key = 1; key < 4; ++key) detector.on_answered(key, sent + 1ms);
        const TimePoint deadline = detector.next_deadline();
        REQUIRE(lost(detector, deadline).size() == 1);
        detector.on_sent(0, kFirst, deadline);
        detector.on_answered(0, deadline + answered_after);
        return deadline - sent;
    };
    const Duration unknown = lost_after(at(100ms), 2ms);
    const Duration lossy = lost_after(at(200ms), 2ms);
    CHECK(unknown == lossy + 1ms);
    // Sooner than any answer: the first sending was late, not lost.
    for (int needless = 0; needless < 8; ++needless) lost_after(at(300ms + needless * 50ms), 10us);
    CHECK(lost_after(at(900ms), 2ms) > lossy + 1ms);
}

/// Detectors of one node: each for a sum of another node, of which it requests four segments.
class SumsOfOneNode {
  public:
    explicit SumsOfOneNode(std::size_t sums) {
        awaited_.history = &history;
        for (std::size_t sum = 0; sum < sums; ++sum) {
            detectors_.emplace_back(50ms, 500ms, 10s, &awaited_, AnswerOrder::kWhenReady);
            for (RequestKey key = 0; key < 4; ++key) detectors_[sum].on_sent(key, sum, at(0ms));
        }
    }

    LossDetector& operator[](std::size_t sum) { return detectors_[sum]; }
    std::size_t lost_until(TimePoint now) {
        std::size_t found = 0;
        for (LossDetector& detector : detectors_) found += lost(detector, now).size();
        return found;
    }

    AnswerHistory history;

  private:
    AwaitedBytes awaited_;
    std::vector<LossDetector> detectors_;
};

TEST_CASE("sums that come one after the other are not requested again") {
    // Each takes the link for 40 ms: the last waits for 3.2 s, longer than any timeout.
    SumsOfOneNode sums(20);
    TimePoint now = at(0ms);
    for (std::size_t sum = 0; sum < 20; ++sum) {
        for (RequestKey key = 0; key < 4; ++key) {
            now += 40ms;
            CHECK(sums.lost_until(now) == 0);
            sums[sum].on_answered(key, now);
        }
    }
    CHECK_FALSE(sums.history.lossy);
}

TEST_CASE("when sums stop arriving, one request of each is repeated") {
    SumsOfOneNode sums(20);
    for (RequestKey key = 0; key < 4; ++key) sums[0].on_answered(key, at(480ms));
    CHECK(sums.lost_until(at(529ms)) == 0);
    CHECK(sums.lost_until(at(530ms)) == 19);
}

TEST_CASE("once packets are lost, other sums no longer keep a request from being repeated") {
    SumsOfOneNode sums(2);
    const auto repeat_after_silence = [&](Duration answered_after) {
        for (RequestKey key = 1; key < 4; ++key) sums[1].forget(key);
        const TimePoint deadline = sums[1].next_deadline();
        REQUIRE(lost(sums[1], deadline).size() == 1);
        sums[1].on_sent(0, 1, deadline);
        sums[1].on_answered(0, deadline + answered_after);
        return deadline + answered_after;
    };
    SUBCASE("the answer to the repetition comes as soon as a link allows") {
        const TimePoint now = repeat_after_silence(10ms);
        CHECK(sums.history.lossy);
        CHECK(sums[0].next_deadline() < now);
    }
    SUBCASE("the sum was late") {
        const TimePoint now = repeat_after_silence(100ms);
        CHECK_FALSE(sums.history.lossy);
        CHECK(sums[0].next_deadline() == now + 50ms);
    }
}

TEST_CASE("a late sum of the own node is not requested again before its Interest expires") {
    LossDetector detector(5ms, 500ms, 1s, nullptr, AnswerOrder::kLocal);
    for (RequestKey key = 0; key < 50; ++key) detector.on_sent(key, kFirst, at(99ms));
    for (RequestKey key = 0; key < 50; ++key) detector.on_answered(key, at(100ms));
    detector.on_sent(0, kFirst, at(100ms));
    CHECK(lost(detector, at(1099ms)).empty());
    const auto found = lost(detector, at(1100ms));
    REQUIRE(found.size() == 1);
    CHECK(found[0].cause == LossCause::kRefresh);
}

TEST_CASE("an answer after a retransmission is sampled only when it is unambiguous") {
    LossDetector detector = warmed_up();
    for (RequestKey key = 0; key < 4; ++key) detector.on_sent(key, kFirst, at(100ms));
    for (RequestKey key = 1; key < 4; ++key) detector.on_answered(key, at(101ms));
    REQUIRE(lost(detector, at(101ms + 500us)).size() == 1);
    detector.on_sent(0, kFirst, at(101ms + 500us));
    const std::uint64_t samples = detector.rtt().samples();

    SUBCASE("sooner than the shortest round trip: a sample of the first sending") {
        CHECK(detector.on_answered(0, at(102ms)));
        CHECK(detector.rtt().samples() == samples + 1);
        CHECK(detector.rtt().latest() == 2ms);
    }
    SUBCASE("later: the answered transmission is ambiguous") {
        CHECK(detector.on_answered(0, at(102ms + 500us)));
        CHECK(detector.rtt().samples() == samples);
    }
}

TEST_CASE("reordering by two places is not a loss") {
    LossDetector detector = warmed_up();
    for (RequestKey key = 0; key < 30; ++key) detector.on_sent(key, kFirst, at(100ms));
    for (RequestKey key = 0; key < 30; key += 3) {
        for (const RequestKey shuffled : {key + 2, key + 1, key}) {
            detector.on_answered(shuffled, at(101ms));
            CHECK(lost(detector, at(101ms)).empty());
        }
    }
    CHECK(detector.outstanding_count() == 0);
    CHECK(detector.next_deadline() == kNever);
}

TEST_CASE("a silent flow repeats its oldest request, then all, and its timeout backs off") {
    LossDetector detector = warmed_up();
    const Duration rto = detector.rtt().timeout();
    for (RequestKey key = 0; key < 4; ++key) detector.on_sent(key, kFirst, at(100ms));
    CHECK(lost(detector, at(100ms + rto - 1us)).empty());
    CHECK(detector.next_deadline() == at(100ms + rto));
    const auto probes = lost(detector, at(100ms + rto));
    REQUIRE(probes.size() == 1);
    CHECK(probes[0].key == 0);
    CHECK(probes[0].cause == LossCause::kTimeout);
    CHECK(probes[0].consecutive_timeouts == 1);
    CHECK(detector.rtt().timeout() == 2 * rto);

    detector.on_sent(0, kFirst, at(100ms + rto));
    CHECK(lost(detector, at(100ms + 3 * rto - 1us)).empty());
    const auto all = lost(detector, at(100ms + 3 * rto));
    REQUIRE(all.size() == 4);
    CHECK(all[0].cause == LossCause::kTimeout);
    CHECK(std::ranges::count(all, 2U, &LostRequest::consecutive_timeouts) == 1);
}

TEST_CASE("requests older than an answered probe are lost, unless answers follow") {
    LossDetector detector = warmed_up();
    const TimePoint timeout = at(100ms) + detector.rtt().timeout();
    for (RequestKey key = 0; key < 6; ++key) detector.on_sent(key, kFirst, at(100ms));
    REQUIRE(lost(detector, timeout).size() == 1);
    detector.on_sent(0, kFirst, timeout);
    const TimePoint answered = timeout + 2ms;

    SUBCASE("nothing follows") {
        CHECK(detector.on_answered(0, answered));
        CHECK(lost(detector, answered).empty());
        CHECK(detector.next_deadline() < answered + 1ms);
        const auto found = lost(detector, detector.next_deadline());
        REQUIRE(found.size() == 5);
        CHECK(found[0].cause == LossCause::kGap);
    }
    SUBCASE("the others follow: all were late") {
        for (RequestKey key = 0; key < 6; ++key) {
            CHECK(detector.on_answered(key, answered + key * 100us));
            CHECK(lost(detector, answered + key * 100us).empty());
        }
    }
    SUBCASE("too soon for an answer to the probe: all were late") {
        CHECK(detector.on_answered(0, timeout + 500us));
        CHECK(lost(detector, timeout + 5ms).empty());
    }
}

TEST_CASE("a repetition that is lost again is detected by gap") {
    LossDetector detector = warmed_up();
    detector.on_sent(0, kFirst, at(100ms));
    const TimePoint timeout = at(100ms) + detector.rtt().timeout();
    REQUIRE(lost(detector, timeout).size() == 1);
    for (RequestKey key = 0; key < 4; ++key) detector.on_sent(key, kFirst, timeout);
    for (RequestKey key = 1; key < 4; ++key) detector.on_answered(key, timeout + 1ms);
    const auto found = lost(detector, timeout + 2ms);
    REQUIRE(found.size() == 1);
    CHECK(found[0].cause == LossCause::kGap);
}

TEST_CASE("a request in flight is refreshed before the tables on its way forget it") {
    LossDetector detector(400ms, 4s, 1s);
    for (RequestKey key = 0; key < 20; ++key) detector.on_sent(key, kFirst, at(0ms));
    for (RequestKey key = 0; key < 10; ++key) {
        CHECK(detector.on_answered(key, at(key * 100ms + 50ms)));
        CHECK(lost(detector, at(key * 100ms + 50ms)).empty());
    }
    CHECK(detector.next_deadline() == at(1s));
    const auto found = lost(detector, at(1s));
    REQUIRE(found.size() == 10);
    for (const LostRequest& request : found) CHECK(request.cause == LossCause::kRefresh);
}

TEST_CASE("a silent flow times out also where round trips are longer than an Interest lives") {
    LossDetector detector(400ms, 4s, 1s);
    detector.on_sent(1, kFirst, at(0ms));
    CHECK(detector.on_answered(1, at(2s)));
    detector.on_sent(2, kFirst, at(2s));
    const auto found = lost(detector, at(3s));
    REQUIRE(found.size() == 1);
    CHECK(found[0].cause == LossCause::kTimeout);
}

TEST_CASE("arriving answers postpone the timeout") {
    LossDetector detector = warmed_up();
    const Duration rto = detector.rtt().timeout();
    for (RequestKey key = 0; key < 100; ++key) detector.on_sent(key, kFirst, at(100ms));
    // A queue that drains at 1 ms per answer takes longer than the timeout.
    for (RequestKey key = 0; key < 100; ++key) {
        const TimePoint now = at(101ms + key * 1ms);
        CHECK(lost(detector, now).empty());
        detector.on_answered(key, now);
    }
    CHECK(100ms > rto);
}

TEST_CASE("a repeated request gives no RTT sample") {
    LossDetector detector(5ms, 500ms, 1s);
    detector.on_sent(1, kFirst, at(0ms));
    REQUIRE(lost(detector, at(50ms)).size() == 1);
    detector.on_sent(1, kFirst, at(50ms));
    detector.on_answered(1, at(51ms));
    CHECK_FALSE(detector.rtt().has_sample());
}

TEST_CASE("a round trip longer than the minimum timeout is measured behind held requests") {
    LossDetector detector(5ms, 500ms, 1s);
    for (RequestKey key = 0; key < 4; ++key) {
        detector.on_sent(key, kFirst, at(0ms));
        detector.on_held(key, at(1ms));
    }
    for (RequestKey key = 4; key < 8; ++key) detector.on_sent(key, kFirst, at(1ms));
    for (RequestKey key = 0; key < 4; ++key) detector.on_answered(key, at(20ms));
    // Three later ones are answered, and that is all there is to know: no sample says that the
    // others are overdue.
    detector.on_answered(7, at(31ms));
    CHECK(lost(detector, at(31ms)).empty());
    CHECK(detector.rtt().latest() == 30ms);
}

TEST_CASE("the first held request of a publication is refreshed soon, then less and less often") {
    LossDetector detector = warmed_up();
    for (const RequestKey key : {1, 2}) {
        detector.on_sent(key, kFirst, at(100ms));
        detector.on_held(key, at(100ms));
    }
    detector.on_sent(3, kSecond, at(100ms));
    detector.on_held(3, at(100ms));
    Duration now = 100ms;
    for (const Duration delay : {5ms, 10ms, 20ms, 40ms}) {
        now += delay;
        CHECK(lost(detector, at(now - 1ns)).empty());
        CHECK(detector.next_deadline() == at(now));
        const auto found = lost(detector, at(now));
        REQUIRE(found.size() == 2);
        CHECK(found[0].key == 1);
        CHECK(found[1].key == 3);
        for (const LostRequest& probe : found) {
            CHECK(probe.cause == LossCause::kRefresh);
            detector.on_sent(probe.key, probe.key == 1 ? kFirst : kSecond, at(now));
            detector.on_held(probe.key, at(now));
        }
    }
}

TEST_CASE("a held request for a sum is refreshed early only after sums have stopped") {
    AnswerHistory history;
    AwaitedBytes awaited;
    awaited.history = &history;
    LossDetector detector(5ms, 500ms, 1s, &awaited, AnswerOrder::kWhenReady);
    LossDetector other(5ms, 500ms, 1s, &awaited, AnswerOrder::kWhenReady);
    detector.on_sent(1, kFirst, at(0ms));
    detector.on_held(1, at(1ms));
    for (Duration now = 4ms; now <= 40ms; now += 4ms) {
        CHECK(lost(detector, at(now)).empty());
        other.on_sent(2, kSecond, at(now));
        other.on_answered(2, at(now));
    }
    CHECK(lost(detector, at(44ms)).empty());
    CHECK(detector.next_deadline() == at(45ms));
    const auto found = lost(detector, at(45ms));
    REQUIRE(found.size() == 1);
    CHECK(found[0].cause == LossCause::kRefresh);
}

TEST_CASE("a held request is refreshed once per interval and nothing else") {
    LossDetector detector = warmed_up();
    detector.on_sent(0, kFirst, at(100ms));
    detector.on_held(0, at(100ms));
    detector.on_sent(1, kFirst, at(100ms));
    detector.on_held(1, at(101ms));
    CHECK(detector.held_count() == 2);
    REQUIRE(lost(detector, at(200ms)).size() == 1);
    CHECK(lost(detector, at(1100ms)).empty());
    CHECK(detector.next_deadline() == at(1101ms));
    const auto found = lost(detector, at(1101ms));
    REQUIRE(found.size() == 1);
    CHECK(found[0].cause == LossCause::kRefresh);
    CHECK(found[0].consecutive_timeouts == 0);
    detector.on_sent(1, kFirst, at(1101ms));
    CHECK(detector.held_count() == 0);
    detector.on_held(1, at(1102ms));
    CHECK(lost(detector, at(2101ms)).empty());
    const Duration before = detector.rtt().smoothed();
    CHECK(detector.on_answered(1, at(2101ms)));
    CHECK(detector.rtt().smoothed() == before);
}

TEST_CASE("answers of one publication do not affect held Interests of another") {
    LossDetector detector = warmed_up();
    detector.on_sent(1, kSecond, at(100ms));
    detector.on_held(1, at(101ms));
    for (RequestKey key = 10; key < 40; ++key) {
        detector.on_sent(key, kFirst, at(102ms));
        detector.on_answered(key, at(103ms));
    }
    for (const LostRequest& request : lost(detector, at(1000ms))) {
        CHECK(request.cause == LossCause::kRefresh);
    }
}

TEST_CASE("an answer shows that held requests of its publication are in flight or lost") {
    LossDetector detector = warmed_up();
    for (RequestKey key = 0; key < 6; ++key) {
        detector.on_sent(key, kFirst, at(100ms));
        detector.on_held(key, at(101ms));
    }
    detector.on_answered(0, at(300ms));
    CHECK(detector.held_count() == 0);
    for (const RequestKey key : {2, 3, 4, 5}) detector.on_answered(key, at(300ms));
    const auto found = lost(detector, at(302ms));
    REQUIRE(found.size() == 1);
    CHECK(found[0].key == 1);
    CHECK(found[0].cause == LossCause::kGap);
    detector.on_sent(1, kFirst, at(302ms));
    detector.on_held(1, at(303ms));  // sent before the publication, overtaken by its Data
    CHECK(detector.held_count() == 0);
}

TEST_CASE("a held Interest can be answered before later ones") {
    LossDetector detector = warmed_up();
    for (RequestKey key = 0; key < 6; ++key) {
        detector.on_sent(key, kFirst, at(100ms));
        detector.on_held(key, at(101ms));
    }
    detector.on_sent(10, kSecond, at(299ms));
    for (RequestKey key = 0; key < 6; ++key) detector.on_answered(key, at(300ms));
    CHECK(lost(detector, at(303ms)).empty());
    for (RequestKey key = 11; key < 14; ++key) {
        detector.on_sent(key, kSecond, at(303ms));
        detector.on_answered(key, at(304ms));
    }
    CHECK(lost(detector, at(304ms)).size() == 1);
}

TEST_CASE(
    "a request that is never answered among others that are is repeated less and less often") {
    LossDetector detector = warmed_up();
    detector.on_sent(1, kFirst, at(100ms));
    int repeats = 0;
    RequestKey other = 5000;
    for (Duration time = 100ms; time < 1100ms; time += 1ms) {
        for (int i = 0; i < 4; ++i, ++other) {
            detector.on_sent(other, kFirst, at(time));
            detector.on_answered(other, at(time + 1ms));
        }
        for (const LostRequest& request : lost(detector, at(time + 1ms))) {
            CHECK(request.key == 1);
            ++repeats;
            detector.on_sent(request.key, kFirst, at(time + 1ms));
        }
    }
    CHECK(repeats >= 5);
    CHECK(repeats <= 20);
}

TEST_CASE("a forgotten request never comes back") {
    LossDetector detector = warmed_up();
    for (RequestKey key = 0; key < 3; ++key) detector.on_sent(key, kFirst, at(100ms));
    detector.on_held(1, at(100ms));
    for (RequestKey key = 0; key < 3; ++key) detector.forget(key);
    CHECK(detector.outstanding_count() == 0);
    CHECK(detector.held_count() == 0);
    CHECK(lost(detector, at(5000ms)).empty());
    CHECK_FALSE(detector.on_answered(0, at(101ms)));
    CHECK(detector.next_deadline() == kNever);
}

TEST_CASE(
    "under random loss, holds and reordering every request ends answered, none is forgotten") {
    std::mt19937 random(7);
    const auto chance = [&](int percent) { return static_cast<int>(random() % 100) < percent; };
    LossDetector detector(5ms, 500ms, 1s);
    struct Flight {
        TimePoint arrives;
        RequestKey key;
        bool hold;
    };
    std::vector<Flight> flights;
    std::set<RequestKey> missing;
    std::vector<LostRequest> found;
    RequestKey next = 0;
    TimePoint now = at(0ms);
    const auto send = [&](RequestKey key) {
        detector.on_sent(key, key / 40, now);
        if (chance(20)) return;
        const Duration delay = 1ms + std::chrono::microseconds(random() % 2000);
        flights.push_back({now + delay, key, chance(5)});
    };
    while (next < 2000 || !missing.empty()) {
        while (next < 2000 && missing.size() < 64) {
            missing.insert(next);
            send(next++);
        }
        now += 100us;
        REQUIRE(now < at(60s));
        for (std::size_t i = 0; i < flights.size();) {
            if (flights[i].arrives > now) {
                ++i;
                continue;
            }
            const Flight flight = flights[i];
            flights.erase(flights.begin() + static_cast<std::ptrdiff_t>(i));
            if (flight.hold) {
                detector.on_held(flight.key, now);
            } else {
                CHECK(detector.on_answered(flight.key, now) == (missing.erase(flight.key) == 1));
            }
        }
        found.clear();
        detector.collect(now, found);
        for (const LostRequest& request : found) {
            CHECK(missing.count(request.key) == 1);
            send(request.key);
        }
        CHECK(detector.outstanding_count() == missing.size());
        if (!missing.empty()) CHECK(detector.next_deadline() != kNever);
    }
    CHECK(detector.next_deadline() == kNever);
}
