#include <doctest/doctest.h>

#include "transport/fetch/receive_credit.hpp"

namespace innet {
namespace {

constexpr std::uint64_t kMost = 64'000;
constexpr std::size_t kAnswer = 1'000;

/// Answers that may be awaited at once.
std::size_t granted(ReceiveCredit& credit) {
    std::size_t count = 0;
    for (; credit.has_room() && count <= kMost / kAnswer; ++count) {
        credit.awaited().in_flight += kAnswer;
    }
    credit.awaited().in_flight = 0;
    return count;
}

TEST_CASE("a credit of 0 is no limit") {
    ReceiveCredit credit(0);
    credit.awaited().in_flight = 1ULL << 40;
    credit.on_answer(kAnswer, true);
    CHECK(credit.has_room());
}

TEST_CASE("answers without marks let a credit grow to all of it and no further") {
    ReceiveCredit credit(kMost);
    const std::size_t first = granted(credit);
    for (int i = 0; i < 10'000; ++i) credit.on_answer(kAnswer, false);
    CHECK(first < granted(credit));
    CHECK(granted(credit) == kMost / kAnswer);
}

TEST_CASE("a round trip of marks halves a credit, and never takes all of it") {
    ReceiveCredit credit(kMost);
    const std::size_t before = granted(credit);
    for (std::size_t i = 0; i < before; ++i) credit.on_answer(kAnswer, true);
    CHECK(granted(credit) <= before / 2 + 1);
    for (int i = 0; i < 10'000; ++i) credit.on_answer(kAnswer, true);
    CHECK(granted(credit) >= 1);
}

}  // namespace
}  // namespace innet
