#include <doctest/doctest.h>

#include <utility>

#include "transport/fetch/receive_credit.hpp"

namespace innet {
namespace {

constexpr std::uint64_t kMost = 64'000;
constexpr std::size_t kAnswer = 1'000;
constexpr double kRate = 8e9;  ///< an answer takes 1 µs
constexpr TimePoint kStart{std::chrono::seconds(1)};

/// Answers that may be awaited at once.
std::size_t granted(ReceiveCredit& credit, TimePoint now = kStart) {
    std::size_t count = 0;
    for (; credit.has_room(now) && count <= kMost / kAnswer; ++count) {
        credit.on_request(now);
        credit.awaited().in_flight += kAnswer;
    }
    credit.awaited().in_flight = 0;
    return count;
}

void answer(ReceiveCredit& credit, bool marked) {
    credit.on_answer(kAnswer, marked, Duration::max(), kStart);
}

TEST_CASE("a credit of 0 means no limit") {
    ReceiveCredit credit({});
    credit.awaited().in_flight = 1ULL << 40;
    answer(credit, true);
    CHECK(credit.has_room(kStart));
}

TEST_CASE("answers without marks let a credit grow to its maximum") {
    ReceiveCredit credit({.most_bytes = kMost});
    const std::size_t first = granted(credit);
    for (int i = 0; i < 10'000; ++i) answer(credit, false);
    CHECK(first < granted(credit));
    CHECK(granted(credit) == kMost / kAnswer);
}

TEST_CASE("a round trip of marks halves a credit, but never to 0") {
    ReceiveCredit credit({.most_bytes = kMost});
    const std::size_t before = granted(credit);
    for (std::size_t i = 0; i < before; ++i) answer(credit, true);
    CHECK(granted(credit) <= before / 2 + 1);
    for (int i = 0; i < 10'000; ++i) answer(credit, true);
    CHECK(granted(credit) >= 1);
}

TEST_CASE("held answers use a credit, but leave a quarter to others") {
    ReceiveCredit credit({.most_bytes = kMost});
    for (int i = 0; i < 10'000; ++i) answer(credit, false);
    credit.awaited().held = kMost / 2;
    CHECK(granted(credit) == kMost / 2 / kAnswer);
    credit.awaited().held = 2 * kMost;
    CHECK(granted(credit) == kMost / 4 / kAnswer);
}

TEST_CASE("late publications get no more than half of a credit") {
    ReceiveCredit credit({.most_bytes = kMost});
    credit.awaited().held = kMost / 4;
    CHECK(credit.has_room_for_late());
    credit.awaited().in_flight = kMost / 4;
    CHECK(!credit.has_room_for_late());
}

TEST_CASE("after silence, requests leave no faster than the link carries answers") {
    ReceiveCredit credit({.most_bytes = kMost, .rate_bps = kRate, .first_bytes = 4 * kAnswer});
    for (int round = 0; round < 2; ++round) {
        TimePoint now = kStart + std::chrono::seconds(round);
        std::size_t asked = 0;
        for (; credit.has_room(now); ++asked) {
            credit.on_request(now);
            credit.awaited().in_flight += kAnswer;
        }
        CHECK(asked == 5);
        for (; credit.room_at() != kNever; ++asked) {
            CHECK(credit.room_at() - now == std::chrono::microseconds(1));
            now = credit.room_at();
            CHECK(credit.has_room(now));
            credit.awaited().in_flight += kAnswer;
        }
        CHECK(asked == kMost / kAnswer);
        credit.awaited().in_flight = 0;
    }
}

TEST_CASE("beside sums of other nodes, a credit grows slowly beyond what fills the path") {
    ReceiveCredit credit({.most_bytes = kMost, .rate_bps = kRate, .first_bytes = 2 * kAnswer});
    for (int round = 0; round < 2; ++round) {
        const TimePoint begin = kStart + std::chrono::seconds(round);
        credit.on_request(begin);
        credit.awaited().in_flight = 3 * kAnswer;
        credit.on_answer_beside_sums(kAnswer, begin + std::chrono::microseconds(8));
        // Seven fill the path of 8 µs beside the one that is answered; later answers change
        // nothing.
        credit.on_answer_beside_sums(kAnswer, begin + std::chrono::microseconds(30));
        credit.awaited().in_flight = 7 * kAnswer;
        const TimePoint full = credit.room_at();
        CHECK(full - begin == std::chrono::microseconds(5));
        for (int more = 1; more <= 3; ++more) {
            credit.awaited().in_flight += kAnswer;
            CHECK(credit.room_at() - full == more * std::chrono::microseconds(10));
        }
        credit.awaited().in_flight = 0;
    }
}

TEST_CASE("beside sums of other nodes, half of a credit is used until nothing is in flight") {
    ReceiveCredit credit({.most_bytes = kMost, .rate_bps = kRate, .first_bytes = kAnswer});
    const TimePoint late = kStart + std::chrono::seconds(1);
    credit.on_request(kStart);
    credit.awaited().in_flight = kMost / 2;
    CHECK(credit.has_room(late));
    credit.on_answer_beside_sums(kAnswer, kStart + std::chrono::microseconds(8));
    CHECK(!credit.has_room(late));
    CHECK(credit.room_at() == kNever);
    credit.awaited().in_flight = 0;
    credit.on_request(late);
    credit.awaited().in_flight = kMost / 2;
    CHECK(credit.has_room(late + std::chrono::seconds(1)));
}

TEST_CASE("an answer frees its share of the table at once") {
    ReceiveCredit credit({.most_bytes = kMost, .rate_bps = kRate, .first_bytes = kAnswer});
    credit.on_request(kStart);
    credit.awaited().in_flight = 2 * kAnswer;
    CHECK(!credit.has_room(kStart));
    credit.awaited().in_flight -= kAnswer;
    CHECK(credit.has_room(kStart));
}

/// A credit whose path has 16 answers in a round trip of a millisecond.
ReceiveCredit measured_credit() {
    ReceiveCredit credit({.most_bytes = kMost, .measures_path = true});
    credit.on_request(kStart);
    for (int i = 1; i <= 10'000; ++i) {
        const TimePoint now = kStart + i * std::chrono::nanoseconds(62'500);
        credit.on_answer(kAnswer, false, std::chrono::milliseconds(1), now);
    }
    return credit;
}

/// Answers that may be awaited at once, without an end.
std::size_t room_of(ReceiveCredit& credit) {
    for (; credit.has_room(kStart); credit.awaited().in_flight += kAnswer) {
    }
    return std::exchange(credit.awaited().in_flight, 0) / kAnswer;
}

TEST_CASE("with an unknown rate, the bytes that fill the path are granted besides the queue") {
    ReceiveCredit credit = measured_credit();
    CHECK(room_of(credit) == kMost / kAnswer + 16);
}

TEST_CASE("with an unknown rate, losses shrink a credit and answers restore it") {
    ReceiveCredit credit = measured_credit();
    const std::size_t before = room_of(credit);
    for (std::size_t i = 0; i < before; ++i) credit.on_loss(kAnswer);
    CHECK(room_of(credit) <= before / 2 + 1);
    for (int i = 0; i < 10'000; ++i) answer(credit, false);
    CHECK(room_of(credit) == before);
}

TEST_CASE("one loss in a hundred leaves a credit whole") {
    ReceiveCredit credit = measured_credit();
    const std::size_t before = room_of(credit);
    for (int i = 1; i <= 10'000; ++i) {
        if (i % 100 == 0) credit.on_loss(kAnswer);
        answer(credit, false);
    }
    CHECK(room_of(credit) >= before - 1);
}

TEST_CASE("with a known rate, a loss does not indicate a full queue") {
    ReceiveCredit credit({.most_bytes = kMost, .rate_bps = kRate, .first_bytes = kMost});
    const std::size_t before = room_of(credit);
    for (int i = 0; i < 1'000; ++i) credit.on_loss(kAnswer);
    CHECK(room_of(credit) == before);
}

}  // namespace
}  // namespace innet
