#include "tests/native/switch_emulator/reduction/reducer_fixture.hpp"

namespace innet::reduction::test {

TEST_CASE("a node's quick answers for one interval do not make another interval look lost") {
    // h0 gives its own contribution after a millisecond, and the sum that it waits for after
    // fifteen more: far more than any gap between the quick ones.
    constexpr std::uint64_t kSegments = 200;
    constexpr std::uint64_t kSlowSteps = 16;
    ReducerFixture f;
    f.reducer.install(rule_of("0-2", {{"0", "h0"}, {"1-2", "h0"}}));
    for (std::uint64_t step = 0; step < kSegments + kSlowSteps; ++step) {
        if (step < kSegments) {
            REQUIRE(f.admit(f.operand_uri("0-2", step)) == Admission::kAccepted);
        }
        f.pass(ReducerFixture::kMillisecond);
        if (step < kSegments) f.arrive(f.operand_uri("0", step), std::vector<float>{1});
        if (step + 1 >= kSlowSteps && step + 1 - kSlowSteps < kSegments) {
            f.arrive(f.operand_uri("1-2", step + 1 - kSlowSteps), std::vector<float>{2});
        }
    }
    CHECK(f.answers().size() == kSegments);
    CHECK(f.reducer.counters().operand_retransmissions == 0);
    f.check_nothing_left();
}

TEST_CASE("contributions are fetched within the credit") {
    // Half of it is granted at first: two contributions of the size assumed then.
    constexpr std::uint64_t kCredit = 32000;
    ReducerFixture f(64, kCredit);
    f.reducer.install(rule_of("0-3", {{"0", "h0"}, {"1", "h1"}, {"2", "h2"}, {"3", "h3"}}));
    REQUIRE(f.admit(f.operand_uri("0-3")) == Admission::kAccepted);
    CHECK(f.forwarder.asked.size() == 2);

    SUBCASE("an answer makes room") {
        f.arrive(f.operand_uri("0"), std::vector<float>{1});
        CHECK(f.times_asked(f.operand_uri("2")) == 1);
        CHECK(f.forwarder.asked.size() == 3);
        for (const std::string rank : {"1", "2", "3"}) {
            f.arrive(f.operand_uri(rank), std::vector<float>{1});
        }
        CHECK(f.answers().size() == 1);
        f.check_nothing_left();
    }
    SUBCASE("a late contribution leaves room for others") {
        f.hold(f.operand_uri("0"), "0");
        f.arrive(f.operand_uri("1"), std::vector<float>{1});
        CHECK(f.times_asked(f.operand_uri("2")) == 1);
    }
    SUBCASE("silent nodes do not occupy the others' window") {
        f.pass(400 * ReducerFixture::kMillisecond);
        CHECK(f.times_asked(f.operand_uri("3")) > 0);
    }
    SUBCASE("lost contributions take from it") {
        f.pass(400 * ReducerFixture::kMillisecond);
        for (const std::string rank : {"0", "1", "2", "3"}) {
            f.arrive(f.operand_uri(rank), std::vector<float>{1});
        }
        CHECK(f.answers().size() == 1);
        REQUIRE(f.admit(f.operand_uri("0-3", 10)) == Admission::kAccepted);
        CHECK(f.times_asked(f.operand_uri("0", 10)) == 1);
        CHECK(f.times_asked(f.operand_uri("1", 10)) == 0);
    }
    SUBCASE("a reduction without requesters frees its slot") {
        REQUIRE(f.admit(f.operand_uri("0-3", 10)) == Admission::kAccepted);
        CHECK(f.times_asked(f.operand_uri("0", 10)) == 0);
        f.reducer.abandon(name_of(f.operand_uri("0-3")).view());
        f.pass(ReducerFixture::kMillisecond);
        CHECK(f.times_asked(f.operand_uri("0", 10)) == 1);
    }
}

TEST_CASE("no more of a late rank is requested than half of the credit") {
    // Of the size assumed at first, two contributions are half of the credit.
    constexpr std::uint64_t kCredit = 32000;
    constexpr std::uint64_t kSegments = 6;
    ReducerFixture f(64, kCredit);
    f.reducer.install(rule_of("0-1", {{"0", "h0"}, {"1", "h1"}}));
    f.reducer.install(rule_of("2-3", {{"2", "h2"}, {"3", "h3"}}));
    for (std::uint64_t segment = 0; segment < kSegments; ++segment) {
        REQUIRE(f.admit(f.operand_uri("0-1", segment)) == Admission::kAccepted);
        f.arrive(f.operand_uri("0", segment), std::vector<float>{1});
        const std::string late = f.operand_uri("1", segment);
        if (f.times_asked(late) > 0) f.hold(late, "1");
    }
    f.pass(ReducerFixture::kMillisecond);
    const auto asked_of_late = [&] {
        std::size_t asked = 0;
        for (std::uint64_t segment = 0; segment < kSegments; ++segment) {
            asked += f.times_asked(f.operand_uri("1", segment)) > 0 ? 1 : 0;
        }
        return asked;
    };
    CHECK(asked_of_late() == 2);
    CHECK(f.forwarder.held.size() == kSegments);

    SUBCASE("others still get theirs") {
        REQUIRE(f.admit(f.operand_uri("2-3", 0)) == Admission::kAccepted);
        CHECK(f.times_asked(f.operand_uri("2", 0)) == 1);
    }
    SUBCASE("the rest is requested when it is late no more") {
        f.arrive(f.operand_uri("1", 0), std::vector<float>{2});
        CHECK(asked_of_late() > 2);
        for (std::uint64_t segment = 1; segment < kSegments; ++segment) {
            f.arrive(f.operand_uri("1", segment), std::vector<float>{2});
        }
        CHECK(f.answers().size() == kSegments);
        f.check_nothing_left();
    }
}

TEST_CASE("sums are requested regardless of the window, because they wait for each other") {
    ReducerFixture f(64, 1);
    f.reducer.install(rule_of("0-3", {{"0-1", "h1"}, {"2-3", "h3"}}));
    REQUIRE(f.admit(f.operand_uri("0-3")) == Admission::kAccepted);
    CHECK(f.forwarder.asked.size() == 2);
}

}  // namespace innet::reduction::test
