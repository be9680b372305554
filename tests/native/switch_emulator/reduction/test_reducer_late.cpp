#include "tests/native/switch_emulator/reduction/reducer_fixture.hpp"

namespace innet::reduction::test {

namespace {

using Held = RecordingForwarder::Held;
using Nacked = RecordingForwarder::Nacked;

Rule two_ranks() { return rule_of("0-1", {{"0", "h0"}, {"1", "h1"}}); }

}  // namespace

TEST_CASE("a late rank's Hold is forwarded, and its operand is only refreshed") {
    ReducerFixture f;
    f.reducer.install(two_ranks());
    REQUIRE(f.admit(f.operand_uri("0-1")) == Admission::kAccepted);
    f.hold(f.operand_uri("1"), "1");
    CHECK(f.forwarder.held == std::vector<Held>{{f.operand_uri("0-1"), "1"}});
    f.arrive(f.operand_uri("0"), std::vector<float>{1});
    for (int step = 0; step < 1000; ++step) {
        const std::size_t asked = f.times_asked(f.operand_uri("1"));
        f.pass(std::chrono::milliseconds(10));
        if (f.times_asked(f.operand_uri("1")) > asked) f.hold(f.operand_uri("1"), "1");
    }
    // Ten Interest lifetimes of a second: each repeated a little before its end, and before that
    // after 5, 10, 20, ... 640 ms.
    CHECK(f.times_asked(f.operand_uri("1")) >= 11);
    CHECK(f.times_asked(f.operand_uri("1")) <= 13 + 8);
    CHECK(f.reducer.counters().operand_retransmissions == 0);
    f.arrive(f.operand_uri("1"), std::vector<float>{2});
    const auto answers = f.answers();
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].as<float>() == std::vector<float>{3});
    f.check_nothing_left();
}

TEST_CASE("a later request for a held reduction receives the Hold") {
    ReducerFixture f;
    f.reducer.install(two_ranks());
    f.reducer.install(rule_of("1-2", {{"1", "h1"}, {"2", "h2"}}));
    REQUIRE(f.admit(f.operand_uri("0-1")) == Admission::kAccepted);
    f.hold(f.operand_uri("1"), "1");
    f.forwarder.held.clear();
    CHECK(f.admit(f.operand_uri("0-1")) == Admission::kAccepted);
    CHECK(f.forwarder.held == std::vector<Held>{{f.operand_uri("0-1"), "1"}});
    f.forwarder.held.clear();
    CHECK(f.admit(f.operand_uri("1-2")) == Admission::kAccepted);
    CHECK(f.forwarder.held == std::vector<Held>{{f.operand_uri("1-2"), "1"}});
}

TEST_CASE("reductions that wait for a late rank do not block slots") {
    constexpr std::uint32_t kSlots = 4;
    constexpr std::uint64_t kHeld = 20;
    ReducerFixture f(kSlots);
    f.reducer.install(two_ranks());
    f.reducer.install(rule_of("2-3", {{"2", "h2"}, {"3", "h3"}}));
    for (std::uint64_t segment = 0; segment < kHeld; ++segment) {
        REQUIRE(f.admit(f.operand_uri("0-1", segment)) == Admission::kAccepted);
        f.arrive(f.operand_uri("0", segment), std::vector<float>{1});
        f.hold(f.operand_uri("1", segment), "1");
    }
    CHECK(f.reducer.counters().reductions_parked == kHeld - kSlots);
    CHECK(f.reducer.counters().slots_in_use == kSlots);

    for (std::uint64_t segment = 0; segment < 100; ++segment) {
        REQUIRE(f.admit(f.operand_uri("2-3", segment)) == Admission::kAccepted);
        f.arrive(f.operand_uri("2", segment), std::vector<float>{1});
        f.arrive(f.operand_uri("3", segment), std::vector<float>{1});
        CHECK(f.answers().size() == 1);
    }
    CHECK(f.forwarder.nacked.empty());

    // The late rank publishes: everything is answered, or refused so that the askers evaluate it.
    for (std::uint64_t segment = 0; segment < kHeld; ++segment) {
        f.arrive(f.operand_uri("1", segment), std::vector<float>{2});
        f.arrive(f.operand_uri("0", segment), std::vector<float>{1});
    }
    const auto answers = f.answers();
    CHECK(answers.size() == kHeld);
    for (const Answer& answer : answers) CHECK(answer.as<float>() == std::vector<float>{3});
    f.check_nothing_left();
}

TEST_CASE("a reduction that is not late is never parked") {
    ReducerFixture f(1);
    f.reducer.install(two_ranks());
    REQUIRE(f.admit(f.operand_uri("0-1", 0)) == Admission::kAccepted);
    CHECK(f.admit(f.operand_uri("0-1", 1)) == Admission::kNoSlot);
    f.hold(f.operand_uri("1", 0), "1");
    CHECK(f.admit(f.operand_uri("0-1", 1)) == Admission::kAccepted);
    f.hold(f.operand_uri("0", 1), "0");
    f.hold(f.operand_uri("1", 1), "1");
    f.arrive(f.operand_uri("0", 1), std::vector<float>{1});
    // Rank 1 is still late with segment 1.
    CHECK(f.admit(f.operand_uri("0-1", 2)) == Admission::kAccepted);
}

TEST_CASE("a parked reduction is refused if its late operand arrives while no slot is free") {
    ReducerFixture f(1);
    f.reducer.install(two_ranks());
    REQUIRE(f.admit(f.operand_uri("0-1", 0)) == Admission::kAccepted);
    f.hold(f.operand_uri("1", 0), "1");
    REQUIRE(f.admit(f.operand_uri("0-1", 1)) == Admission::kAccepted);
    CHECK(f.forwarder.cancelled == std::vector<std::string>{f.operand_uri("0", 0)});
    f.arrive(f.operand_uri("1", 0), std::vector<float>{1});
    CHECK(f.forwarder.nacked ==
          std::vector<Nacked>{{f.operand_uri("0-1", 0), wire::NackReason::kNoSlot}});
    CHECK(f.reducer.counters().refused_no_slot == 1);
    f.arrive(f.operand_uri("0", 1), std::vector<float>{1});
    f.arrive(f.operand_uri("1", 1), std::vector<float>{1});
    CHECK(f.answers().size() == 1);
    f.check_nothing_left();
}

TEST_CASE("a parked reduction that is requested again continues") {
    ReducerFixture f(1);
    f.reducer.install(two_ranks());
    REQUIRE(f.admit(f.operand_uri("0-1", 0)) == Admission::kAccepted);
    f.hold(f.operand_uri("1", 0), "1");
    REQUIRE(f.admit(f.operand_uri("0-1", 1)) == Admission::kAccepted);
    f.forwarder.held.clear();

    SUBCASE("stays parked while no slot is free, and its requester learns the late rank") {
        CHECK(f.admit(f.operand_uri("0-1", 0)) == Admission::kAccepted);
        CHECK(f.forwarder.held == std::vector<Held>{{f.operand_uri("0-1", 0), "1"}});
        CHECK(f.times_asked(f.operand_uri("0", 0)) == 1);
    }
    SUBCASE("resumes in a free slot without a new Interest to the late rank") {
        f.reducer.abandon(name_of(f.operand_uri("0-1", 1)).view());
        CHECK(f.admit(f.operand_uri("0-1", 0)) == Admission::kAccepted);
        CHECK(f.times_asked(f.operand_uri("0", 0)) == 2);
        CHECK(f.times_asked(f.operand_uri("1", 0)) == 1);
        f.arrive(f.operand_uri("0", 0), std::vector<float>{1});
        f.arrive(f.operand_uri("1", 0), std::vector<float>{1});
        CHECK(f.answers().size() == 1);
        f.check_nothing_left();
    }
    SUBCASE("is forgotten without requesters") {
        f.reducer.abandon(name_of(f.operand_uri("0-1", 0)).view());
        f.reducer.abandon(name_of(f.operand_uri("0-1", 1)).view());
        f.check_nothing_left();
    }
    SUBCASE("ends with its group") {
        f.reducer.remove_group(name_of("/job/g0"));
        CHECK(f.forwarder.nacked.size() == 2);
        f.check_nothing_left();
    }
    SUBCASE("becomes the error that its late operand is") {
        f.arrive(f.operand_uri("1", 0), {}, {.error = wire::TensorErrorCode::kAborted});
        const auto answers = f.answers();
        REQUIRE(answers.size() == 1);
        CHECK(answers[0].error == static_cast<std::uint64_t>(wire::TensorErrorCode::kAborted));
        CHECK(answers[0].name == f.operand_uri("0-1", 0));
    }
}

TEST_CASE("parked reductions are bounded: the oldest is refused") {
    ReducerFixture f(1);
    f.reducer.install(two_ranks());
    constexpr std::uint64_t kReductions = 200;
    for (std::uint64_t segment = 0; segment < kReductions; ++segment) {
        REQUIRE(f.admit(f.operand_uri("0-1", segment)) == Admission::kAccepted);
        f.hold(f.operand_uri("1", segment), "1");
    }
    constexpr std::uint64_t kParkedAtMost = 64;
    REQUIRE(f.forwarder.nacked.size() == kReductions - 1 - kParkedAtMost);
    CHECK(f.forwarder.nacked.front() == Nacked{f.operand_uri("0-1", 0), wire::NackReason::kNoSlot});
    f.reducer.remove_group(name_of("/job/g0"));
    f.check_nothing_left();
}

TEST_CASE("a silent rank holds no slots, and is no longer reported as late") {
    ReducerFixture f(1);
    f.reducer.install(two_ranks());
    REQUIRE(f.admit(f.operand_uri("0-1", 0)) == Admission::kAccepted);
    f.hold(f.operand_uri("1", 0), "1");
    f.arrive(f.operand_uri("0", 0), std::vector<float>{1});
    f.pass(std::chrono::seconds(30));
    f.forwarder.held.clear();
    CHECK(f.admit(f.operand_uri("0-1", 0)) == Admission::kAccepted);
    CHECK(f.forwarder.held.empty());
    CHECK(f.admit(f.operand_uri("0-1", 1)) == Admission::kAccepted);
    CHECK(f.reducer.counters().reductions_parked == 1);
}

}  // namespace innet::reduction::test
