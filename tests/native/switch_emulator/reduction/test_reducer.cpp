#include <algorithm>

#include "tests/native/switch_emulator/reduction/reducer_fixture.hpp"
#include "transport/fetch/flow_table.hpp"

namespace innet::reduction::test {

namespace {

const std::vector<std::pair<std::string, std::string>> kFourRanks{
    {"0", "h0"}, {"1", "h1"}, {"2", "h2"}, {"3", "h3"}};

}  // namespace

TEST_CASE("a reduction fetches every operand and answers with the signed sum") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-3", kFourRanks));
    const std::string sum = f.operand_uri("0-3");
    REQUIRE(f.admit(sum) == Admission::kAccepted);
    REQUIRE(f.forwarder.asked.size() == 4);
    CHECK(f.forwarder.asked[2] ==
          RecordingForwarder::Asked{"/job/g0/2/sum.f32/seq=41/seg=9", "/n/h2"});
    CHECK(f.reducer.counters().slots_in_use == 1);

    for (int rank = 0; rank < 4; ++rank) {
        CHECK(f.forwarder.put.empty());
        f.arrive(f.operand_uri(std::to_string(rank)),
                 std::vector<float>{static_cast<float>(rank), 1.5F, -2.0F});
    }
    const auto answers = f.answers();
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].name == sum);
    CHECK(answers[0].as<float>() == std::vector<float>{6, 6, -8});
    CHECK(answers[0].elements == 3U);
    CHECK(!answers[0].marked);
    CHECK(!answers[0].error);
    CHECK(f.reducer.counters().reductions_completed == 1);
    f.check_nothing_left();
}

TEST_CASE("a group's sums are signed by its key from its arrival until the group ends") {
    ReducerFixture f;
    const wire::Name group = name_of("/job/g0");
    const wire::Name key = name_of("/job/KEY/v=1");
    const std::vector<std::uint8_t> secret(16, 7);
    const std::shared_ptr<security::Signer> signer = security::make_gmac_signer(key, secret, {});
    const auto key_of_sum = [&](std::uint64_t segment) {
        REQUIRE(f.admit(f.operand_uri("0-1", segment)) == Admission::kAccepted);
        for (const char* rank : {"0", "1"}) {
            f.arrive(f.operand_uri(rank, segment), std::vector<float>{1.0F});
        }
        REQUIRE(f.forwarder.put.size() == 1);
        const PacketRef sum = std::move(f.forwarder.put.front().packet);
        f.forwarder.put.clear();
        return wire::Name(wire::DataView::parse(sum.bytes())->key_name());
    };
    const Rule rule = rule_of("0-1", {{"0", "h0"}, {"1", "h1"}});
    f.reducer.install(rule);
    CHECK(key_of_sum(0) == wire::Name());
    f.reducer.set_group_signer(group, signer);
    CHECK(key_of_sum(1) == key);
    f.reducer.remove_group(group);
    f.reducer.install(rule);
    CHECK(key_of_sum(2) == wire::Name());
    f.reducer.remove_group(group);
    f.reducer.set_group_signer(group, signer);
    f.reducer.install(rule);
    CHECK(key_of_sum(3) == key);
}

TEST_CASE("the order of arrival does not change a bit of the sum") {
    const std::vector<std::vector<float>> operands{
        {1e8F, 0.1F}, {1.0F, 0.2F}, {-1e8F, 0.3F}, {3.14159F, 1e-9F}};
    std::vector<float> left_to_right = operands[0];
    for (std::size_t rank = 1; rank < 4; ++rank) {
        for (std::size_t i = 0; i < 2; ++i) left_to_right[i] += operands[rank][i];
    }
    std::array<std::size_t, 4> order{0, 1, 2, 3};
    do {
        ReducerFixture f;
        f.reducer.install(rule_of("0-3", kFourRanks));
        REQUIRE(f.admit(f.operand_uri("0-3")) == Admission::kAccepted);
        for (const std::size_t rank : order) {
            f.arrive(f.operand_uri(std::to_string(rank)), operands[rank]);
        }
        const auto answers = f.answers();
        REQUIRE(answers.size() == 1);
        CHECK(answers[0].as<float>() == left_to_right);
    } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("repeated and unrequested operands change nothing") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-1", {{"0", "h0"}, {"1", "h1"}}));
    f.arrive(f.operand_uri("0"), std::vector<float>{100});
    REQUIRE(f.admit(f.operand_uri("0-1")) == Admission::kAccepted);
    f.arrive(f.operand_uri("0"), std::vector<float>{1});
    f.arrive(f.operand_uri("0"), std::vector<float>{7});
    f.arrive(f.operand_uri("7"), std::vector<float>{7});
    f.arrive(f.operand_uri("1"), std::vector<float>{2});
    f.arrive(f.operand_uri("1"), std::vector<float>{7});
    const auto answers = f.answers();
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].as<float>() == std::vector<float>{3});
    f.check_nothing_left();
}

TEST_CASE("a repeated keep request is accepted and fetches nothing again") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-3", kFourRanks));
    CHECK(f.admit(f.operand_uri("0-3")) == Admission::kAccepted);
    CHECK(f.admit(f.operand_uri("0-3")) == Admission::kAccepted);
    CHECK(f.forwarder.asked.size() == 4);
    CHECK(f.reducer.counters().slots_in_use == 1);
}

TEST_CASE("an operand of two reductions is fetched once") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-1", {{"0", "h0"}, {"1", "h1"}}));
    f.reducer.install(rule_of("0-2", {{"0", "h0"}, {"2", "h2"}}));
    REQUIRE(f.admit(f.operand_uri("0-1")) == Admission::kAccepted);
    REQUIRE(f.admit(f.operand_uri("0-2")) == Admission::kAccepted);
    CHECK(f.times_asked(f.operand_uri("0")) == 1);
    SUBCASE("both answer") {
        f.arrive(f.operand_uri("0"), std::vector<float>{1});
        f.arrive(f.operand_uri("1"), std::vector<float>{10});
        f.arrive(f.operand_uri("2"), std::vector<float>{20});
        const auto answers = f.answers();
        REQUIRE(answers.size() == 2);
        CHECK(answers[0].as<float>() == std::vector<float>{11});
        CHECK(answers[1].as<float>() == std::vector<float>{21});
        f.check_nothing_left();
    }
    SUBCASE("abandoning one request leaves the other") {
        f.reducer.abandon(name_of(f.operand_uri("0-1")).view());
        CHECK(f.forwarder.cancelled == std::vector<std::string>{f.operand_uri("1")});
        f.arrive(f.operand_uri("2"), std::vector<float>{20});
        f.arrive(f.operand_uri("0"), std::vector<float>{1});
        CHECK(f.answers().size() == 1);
        f.check_nothing_left();
    }
}

TEST_CASE("a lost operand is retransmitted until it arrives") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-3", kFourRanks));
    REQUIRE(f.admit(f.operand_uri("0-3")) == Admission::kAccepted);
    f.now += f.kMillisecond;
    for (const auto* rank : {"0", "1", "3"}) f.arrive(f.operand_uri(rank), std::vector<float>{1});
    f.pass(std::chrono::milliseconds(400));
    CHECK(f.times_asked(f.operand_uri("2")) >= 3);
    CHECK(f.times_asked(f.operand_uri("1")) == 1);
    CHECK(f.reducer.counters().operand_retransmissions == f.times_asked(f.operand_uri("2")) - 1);
    f.arrive(f.operand_uri("2"), std::vector<float>{1});
    CHECK(f.answers().size() == 1);
    f.check_nothing_left();
}

TEST_CASE("abandoning a reduction frees everything and cancels its operands") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-3", kFourRanks));
    REQUIRE(f.admit(f.operand_uri("0-3")) == Admission::kAccepted);
    f.arrive(f.operand_uri("1"), std::vector<float>{1});
    CHECK(f.pool.bytes_in_use() > 0);
    f.reducer.abandon(name_of(f.operand_uri("0-3")).view());
    CHECK(f.forwarder.cancelled.size() == 3);
    CHECK(f.reducer.counters().reductions_abandoned == 1);
    f.check_nothing_left();
    f.arrive(f.operand_uri("0"), std::vector<float>{1});
    f.check_nothing_left();
}

TEST_CASE("a congestion mark on any operand is passed on") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-1", {{"0", "h0"}, {"1", "h1"}}));
    REQUIRE(f.admit(f.operand_uri("0-1")) == Admission::kAccepted);
    const auto one = bytes_of(std::vector<float>{1});
    f.arrive(f.operand_uri("0"), one, {.elements = 1, .marked = true});
    f.arrive(f.operand_uri("1"), one, {.elements = 1});
    const auto answers = f.answers();
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].marked);
}

TEST_CASE("a sum states the least number of received segments, if all operands state one") {
    for (const bool all : {true, false}) {
        CAPTURE(all);
        ReducerFixture f;
        f.reducer.install(rule_of("0-3", kFourRanks));
        REQUIRE(f.admit(f.operand_uri("0-3")) == Admission::kAccepted);
        for (std::uint64_t rank = 0; rank < 4; ++rank) {
            ReducerFixture::Contribution contribution{.elements = 1};
            if (all || rank != 2) contribution.segments_received = 7 + (rank + 3) % 4;
            f.arrive(f.operand_uri(std::to_string(rank)), bytes_of(std::vector<float>{1}),
                     contribution);
        }
        const auto answers = f.answers();
        REQUIRE(answers.size() == 1);
        CHECK(answers[0].segments_received ==
              (all ? std::optional<std::uint64_t>(7) : std::nullopt));
    }
}

TEST_CASE("an empty segment has an empty sum") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-1", {{"0", "h0"}, {"1", "h1"}}));
    REQUIRE(f.admit(f.operand_uri("0-1")) == Admission::kAccepted);
    f.arrive(f.operand_uri("0"), std::vector<float>{});
    f.arrive(f.operand_uri("1"), std::vector<float>{});
    const auto answers = f.answers();
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].content.empty());
    CHECK(answers[0].elements == 0U);
    CHECK(!answers[0].error);
}

TEST_CASE("only names of reductions with a usable rule are accepted") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-3", kFourRanks, false));
    CHECK(f.admit(f.operand_uri("0-3")) == Admission::kNoRule);
    CHECK(f.admit(f.operand_uri("0-4"), true) == Admission::kNoRule);
    CHECK(f.admit(f.operand_uri("0-3", 9, "bcast.f32"), true) == Admission::kNoRule);
    CHECK(f.admit(f.operand_uri("0-3", 9, "sum.f8"), true) == Admission::kNoRule);
    CHECK(f.admit("/job/g1/0-3/sum.f32/seq=41/seg=9", true) == Admission::kNoRule);
    CHECK(f.admit(f.operand_uri("0-3"), true) == Admission::kAccepted);
    CHECK(f.reducer.counters().fallback_evaluations == 1);
}

TEST_CASE("without slots every reduction with a rule is refused") {
    ReducerFixture f(0);
    f.reducer.install(rule_of("0-3", kFourRanks));
    CHECK(f.admit(f.operand_uri("0-3")) == Admission::kNoSlot);
    CHECK(f.admit(f.operand_uri("0-7")) == Admission::kNoRule);
    CHECK(f.forwarder.asked.empty());
    CHECK(f.reducer.counters().refused_no_slot == 1);
}

TEST_CASE("a reduction beyond the slots is refused, and taken once one is free") {
    ReducerFixture f(2);
    f.reducer.install(rule_of("0-1", {{"0", "h0"}, {"1", "h1"}}));
    CHECK(f.admit(f.operand_uri("0-1", 0)) == Admission::kAccepted);
    CHECK(f.admit(f.operand_uri("0-1", 1)) == Admission::kAccepted);
    CHECK(f.admit(f.operand_uri("0-1", 2)) == Admission::kNoSlot);
    f.arrive(f.operand_uri("0", 1), std::vector<float>{1});
    f.arrive(f.operand_uri("1", 1), std::vector<float>{1});
    CHECK(f.admit(f.operand_uri("0-1", 2)) == Admission::kAccepted);
    CHECK(f.reducer.counters().slots_in_use_max == 2);
}

TEST_CASE("operands in large receive buffers are copied once those pin too much") {
    constexpr std::uint32_t kSlots = 16;
    ReducerFixture f(kSlots);
    f.reducer.install(rule_of("0-3", kFourRanks));
    const auto content = bytes_of(std::vector<float>(256));
    for (std::uint64_t segment = 0; segment < kSlots; ++segment) {
        REQUIRE(f.admit(f.operand_uri("0-3", segment)) == Admission::kAccepted);
        for (const auto* rank : {"0", "1", "2"}) {
            f.arrive(f.operand_uri(rank, segment), content,
                     {.elements = 256, .buffer_bytes = 60000});
        }
    }
    CHECK(f.reducer.counters().slots_in_use == kSlots);
    // The limit of 16 KiB a slot, and right-sized copies of the rest.
    CHECK(f.pool.bytes_in_use() < kSlots * (16384 + 3 * 4096));
    for (std::uint64_t segment = 0; segment < kSlots; ++segment) {
        f.arrive(f.operand_uri("3", segment), content, {.elements = 256});
    }
    CHECK(f.answers().size() == kSlots);
    f.check_nothing_left();
}

TEST_CASE("removing a group frees its slots, notifies its requesters and removes its rules") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-3", kFourRanks));
    REQUIRE(f.admit(f.operand_uri("0-3")) == Admission::kAccepted);
    f.arrive(f.operand_uri("1"), std::vector<float>{1});
    f.reducer.remove_group(name_of("/job/g1"));
    CHECK(f.reducer.rules().size() == 1);
    f.reducer.remove_group(name_of("/job/g0"));
    CHECK(f.reducer.rules().empty());
    CHECK(f.forwarder.nacked == std::vector<RecordingForwarder::Nacked>{
                                    {f.operand_uri("0-3"), wire::NackReason::kNoRule}});
    f.check_nothing_left();
    CHECK(f.admit(f.operand_uri("0-3")) == Admission::kNoRule);
}

TEST_CASE("a rule with new hints moves running reductions to the new nodes") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-1", {{"0", "h0"}, {"1", "h1"}}));
    REQUIRE(f.admit(f.operand_uri("0-1")) == Admission::kAccepted);
    f.arrive(f.operand_uri("0"), std::vector<float>{1});
    f.forwarder.asked.clear();
    f.reducer.install(rule_of("0-1", {{"0", "h8"}, {"1", "h9"}}));
    CHECK(f.forwarder.asked ==
          std::vector<RecordingForwarder::Asked>{{f.operand_uri("1"), "/n/h9"}});
    f.arrive(f.operand_uri("1"), std::vector<float>{2});
    CHECK(f.answers().size() == 1);
    f.check_nothing_left();
}

TEST_CASE("a rule that cannot be evaluated is refused with its reason") {
    ReducerFixture f;
    CHECK_THROWS_WITH_AS(f.reducer.install(rule_of("0-3", {})),
                         "the reduction rule for /0-3 has no operands", std::invalid_argument);
    CHECK_THROWS_AS(f.reducer.install(rule_of("0-1", {{"0", "h0"}, {"0", "h1"}})),
                    std::invalid_argument);
    CHECK_THROWS_AS(f.reducer.install(rule_of("0-1", {{"0-1", "h0"}})), std::invalid_argument);
    Rule two_components = rule_of("0-1", {{"0", "h0"}, {"1", "h1"}});
    two_components.interval.append("sum.f32");
    CHECK_THROWS_AS(f.reducer.install(two_components), std::invalid_argument);
    CHECK(f.reducer.rules().empty());
}

TEST_CASE("ended groups and nodes leave no state behind") {
    ReducerFixture f;
    for (int group = 0; group < 3000; ++group) {
        const std::string number = std::to_string(group);
        Rule rule = rule_of("0-1", {{"0", "a" + number}, {"1", "b"}});
        rule.group = name_of("/job/g" + number);
        f.reducer.install(rule);
        REQUIRE(f.admit("/job/g" + number + "/0-1/sum.f32/seq=1/seg=0") == Admission::kAccepted);
        f.reducer.remove_group(rule.group);
    }
    CHECK(f.reducer.counters().flows == FlowTable<int>::kKept);
    CHECK(f.reducer.rules().empty());
    f.check_nothing_left();
}

}  // namespace innet::reduction::test
