#include "tests/native/switch_emulator/reduction/reducer_fixture.hpp"

namespace innet::reduction::test {

TEST_CASE("a node's quick answers for one interval make nothing of another interval look lost") {
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

}  // namespace innet::reduction::test
