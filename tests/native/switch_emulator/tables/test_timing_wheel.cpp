#include <doctest/doctest.h>

#include <vector>

#include "switch_emulator/tables/timing_wheel.hpp"

using namespace innet;
using namespace std::chrono_literals;
using tables::TimerLink;
using tables::TimingWheel;

namespace {

struct Clocked {
    TimingWheel wheel;
    TimePoint now{std::chrono::hours(24 * 365)};
    std::vector<TimerLink*> due;

    void schedule_in(TimerLink& link, Duration delay) { wheel.schedule(link, now + delay, now); }
    std::size_t advance(Duration duration) {
        due.clear();
        now += duration;
        wheel.advance(now, [&](TimerLink& link) { due.push_back(&link); });
        return due.size();
    }
};

}  // namespace

TEST_CASE("a timer is never early, and at most one slot late") {
    Clocked clock;
    for (const Duration delay : {Duration(1), Duration(1ms), Duration(1500us), Duration(100ms)}) {
        TimerLink link;
        clock.schedule_in(link, delay);
        CHECK(clock.advance(delay - Duration(1)) == 0);
        CHECK(clock.advance(1ms) == 1);
        CHECK_FALSE(link.scheduled());
    }
}

TEST_CASE("a deadline beyond the span of the wheel is kept") {
    Clocked clock;
    TimerLink link;
    clock.schedule_in(link, 60s);
    for (int second = 0; second < 59; ++second) CHECK(clock.advance(1s) == 0);
    CHECK(clock.advance(1001ms) == 1);
}

TEST_CASE("after a long sleep everything that is due fires once") {
    Clocked clock;
    std::vector<TimerLink> links(100);
    for (std::size_t i = 0; i < links.size(); ++i) {
        clock.schedule_in(links[i], std::chrono::milliseconds(1 + 97 * i));
    }
    CHECK(clock.advance(1h) == 100);
    CHECK(clock.advance(1h) == 0);
    CHECK(clock.wheel.next_deadline() == kNever);
}

TEST_CASE("a cancelled timer does not fire and causes no wake-up") {
    Clocked clock;
    TimerLink kept;
    TimerLink cancelled;
    clock.schedule_in(cancelled, 10ms);
    clock.schedule_in(kept, 20ms);
    clock.wheel.cancel(cancelled);
    CHECK(clock.wheel.next_deadline() >= clock.now + 20ms);
    CHECK(clock.wheel.next_deadline() <= clock.now + 21ms);
    CHECK(clock.advance(30ms) == 1);
}

TEST_CASE("a timer callback may cancel and set timers") {
    Clocked clock;
    TimerLink first;
    TimerLink second;
    clock.schedule_in(first, 5ms);
    clock.schedule_in(second, 5ms);
    int fired = 0;
    clock.now += 10ms;
    clock.wheel.advance(clock.now, [&](TimerLink& link) {
        ++fired;
        clock.wheel.cancel(&link == &first ? second : first);
        clock.wheel.schedule(link, clock.now + 5ms, clock.now);
    });
    CHECK(fired == 1);
    CHECK(clock.wheel.size() == 1);
    CHECK(clock.advance(6ms) == 1);
}
