// Reductions over some of the ranks: what the name leaves out is neither asked for nor added.

#include "tests/native/switch_emulator/reduction/reducer_fixture.hpp"

namespace innet::reduction::test {

namespace {

const std::vector<std::pair<std::string, std::string>> kFourRanks{
    {"0", "h0"}, {"1", "h1"}, {"2", "h2"}, {"3", "h3"}};

std::string over(std::string_view interval, const std::string& set,
                 const std::string& kind = "sum.f32") {
    return ReducerFixture::operand_uri(interval, 9, kind + ".of-" + set);
}

}  // namespace

TEST_CASE("operands without a contributor are not fetched") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-3", kFourRanks));
    REQUIRE(f.admit(over("0-3", "b")) == Admission::kAccepted);  // ranks 0, 1, 3
    CHECK(f.forwarder.asked.size() == 3);
    CHECK(f.times_asked(over("2", "b")) == 0);
    f.arrive(over("3", "b"), std::vector<float>{0.3F});
    f.arrive(over("0", "b"), std::vector<float>{1e8F});
    CHECK(f.forwarder.put.empty());
    f.arrive(over("1", "b"), std::vector<float>{-1e8F});
    const auto answers = f.answers();
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].name == over("0-3", "b"));
    CHECK(answers[0].as<float>() == std::vector<float>{0.3F});
    CHECK(answers[0].elements == 1U);
    f.check_nothing_left();
}

TEST_CASE("an inner interval is fetched when one of its ranks contributes") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-7", {{"0-3", "s0"}, {"4-5", "s1"}, {"6-7", "s2"}}));
    REQUIRE(f.admit(over("0-7", "48")) == Admission::kAccepted);  // ranks 3 and 6
    REQUIRE(f.forwarder.asked.size() == 2);
    CHECK(f.forwarder.asked[0] == RecordingForwarder::Asked{over("0-3", "48"), "/n/s0"});
    CHECK(f.forwarder.asked[1] == RecordingForwarder::Asked{over("6-7", "48"), "/n/s2"});
}

TEST_CASE("a single operand is passed through to the bit") {
    for (const auto& [kind, bytes] : std::vector<std::pair<std::string, std::vector<std::uint8_t>>>{
             {"sum.f32", {0x01, 0x00, 0xc0, 0x7f, 0x00, 0x00, 0x00, 0x80}},  // NaN, -0.0
             {"sum.bf16", {0x80, 0x7f, 0x00, 0x80}},                         // infinity, -0.0
             {"sum.i8", {0x80, 0x7f}},
             {"max.u64", {1, 2, 3, 4, 5, 6, 7, 0xff}}}) {
        CAPTURE(kind);
        ReducerFixture f;
        f.reducer.install(rule_of("0-3", kFourRanks));
        REQUIRE(f.admit(over("0-3", "4", kind)) == Admission::kAccepted);
        f.arrive(over("2", "4", kind), bytes, {.elements = 2});
        const auto answers = f.answers();
        REQUIRE(answers.size() == 1);
        CHECK(answers[0].content == bytes);
        f.check_nothing_left();
    }
}

TEST_CASE("a reduction over none of an interval's ranks has no value") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-3", kFourRanks));
    CHECK(f.admit(over("0-3", "10")) == Admission::kNoRule);
    CHECK(f.admit(over("0-3", "0")) == Admission::kNoRule);
    CHECK(f.forwarder.asked.empty());
    f.check_nothing_left();
}

TEST_CASE("sums over different sets of one operation are different values") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-1", {{"0", "h0"}, {"1", "h1"}}));
    REQUIRE(f.admit(over("0-1", "1")) == Admission::kAccepted);
    REQUIRE(f.admit(over("0-1", "3")) == Admission::kAccepted);
    REQUIRE(f.admit(f.operand_uri("0-1")) == Admission::kAccepted);
    f.arrive(over("0", "1"), std::vector<float>{1});
    f.arrive(over("0", "3"), std::vector<float>{10});
    f.arrive(over("1", "3"), std::vector<float>{20});
    const auto answers = f.answers();
    REQUIRE(answers.size() == 2);
    CHECK(answers[0].as<float>() == std::vector<float>{1});
    CHECK(answers[1].as<float>() == std::vector<float>{30});
}

TEST_CASE("differing contributor sets are reported") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-3", kFourRanks));
    REQUIRE(f.admit(over("0-3", "c")) == Admission::kAccepted);
    f.arrive(over("2", "c"), bytes_of(std::vector<float>{1, 2}), {.elements = 2});
    f.arrive(over("3", "c"), bytes_of(std::vector<float>{1}), {.elements = 1});
    const auto answers = f.answers();
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].error == static_cast<std::uint64_t>(wire::TensorErrorCode::kMismatch));
    CHECK(answers[0].text().find("rank 2 has 2 elements, rank 3 has 1 element") !=
          std::string::npos);
    f.check_nothing_left();
}

TEST_CASE("a resumed reduction has the operands that take part") {
    ReducerFixture f(1);
    f.reducer.install(rule_of("0-3", kFourRanks));
    REQUIRE(f.admit(over("0-3", "c")) == Admission::kAccepted);
    f.hold(over("3", "c"), "3");
    REQUIRE(f.admit(f.operand_uri("0-3", 10, "sum.f32.of-1")) == Admission::kAccepted);
    CHECK(f.reducer.counters().reductions_parked == 1);
    f.arrive(f.operand_uri("0", 10, "sum.f32.of-1"), std::vector<float>{5});
    f.arrive(over("3", "c"), std::vector<float>{4});
    f.arrive(over("2", "c"), std::vector<float>{3});
    const auto answers = f.answers();
    REQUIRE(answers.size() == 2);
    CHECK(answers[1].as<float>() == std::vector<float>{7});
    f.check_nothing_left();
}

}  // namespace innet::reduction::test
