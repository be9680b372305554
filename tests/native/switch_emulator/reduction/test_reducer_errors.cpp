#include <algorithm>
#include <limits>

#include "switch_emulator/reduction/formats/carry.hpp"
#include "tests/native/switch_emulator/reduction/reducer_fixture.hpp"

namespace innet::reduction::test {

namespace {

constexpr auto kMismatch = static_cast<std::uint64_t>(wire::TensorErrorCode::kMismatch);

const std::vector<std::pair<std::string, std::string>> kTwoParts{{"0-3", "s0"}, {"4", "h4"}};

}  // namespace

TEST_CASE("operands of different lengths give an error that names both sides") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-4", kTwoParts));
    REQUIRE(f.admit(f.operand_uri("0-4")) == Admission::kAccepted);
    const auto content = bytes_of(std::vector<float>(8));
    std::string expected;
    SUBCASE("elements of the tensor") {
        f.arrive(f.operand_uri("4"), content, {.elements = 1000});
        f.arrive(f.operand_uri("0-3"), content, {.elements = 1024});
        expected =
            "ranks differ in operation 41: ranks 0-3 have 1024 elements, rank 4 has 1000 elements";
    }
    SUBCASE("elements of the tensor, when the right one comes last") {
        f.arrive(f.operand_uri("0-3"), content, {.elements = 1024});
        f.arrive(f.operand_uri("4"), content, {});
        expected =
            "ranks differ in operation 41: ranks 0-3 have 1024 elements, "
            "rank 4 does not state a number of elements";
    }
    SUBCASE("earlier calls") {
        f.arrive(f.operand_uri("4"), content, {.earlier_calls = "broadcast(root=1)"});
        f.arrive(f.operand_uri("0-3"), content, {.earlier_calls = "broadcast(root=0)"});
        expected =
            "ranks called different operations in an earlier call: ranks 0-3: broadcast(root=0); "
            "rank 4: broadcast(root=1). This call fails on all of them, once; call it again";
    }
    SUBCASE("bytes of the segment") {
        f.arrive(f.operand_uri("0-3"), content, {.elements = 1024});
        f.arrive(f.operand_uri("4"), bytes_of(std::vector<float>(7)), {.elements = 1024});
        expected =
            "ranks differ in operation 41: ranks 0-3 send 32 bytes as segment 9, "
            "rank 4 sends 28 bytes as segment 9";
    }
    SUBCASE("not a whole number of elements") {
        f.arrive(f.operand_uri("4"), {1, 2, 3}, {.elements = 1});
        expected =
            "rank 4 sends 3 bytes as segment 9 of operation 41, which is no whole number of "
            "elements";
    }
    const auto answers = f.answers();
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].error == kMismatch);
    CHECK(answers[0].text() == expected);
    CHECK(answers[0].name == f.operand_uri("0-4"));
    CHECK(f.reducer.counters().mismatches == 1);
    f.check_nothing_left();
}

TEST_CASE(
    "a rank that cannot state its earlier calls contributes, and the sum states the others'") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-2", {{"0", "h0"}, {"1", "h1"}, {"2", "h2"}}));
    const std::vector<float> content(8);
    const auto earlier = [&](std::string_view of_last) {
        REQUIRE(f.admit(f.operand_uri("0-2")) == Admission::kAccepted);
        f.arrive(f.operand_uri("0"), bytes_of(content), {.earlier_calls = wire::kUnknownCalls});
        f.arrive(f.operand_uri("1"), bytes_of(content), {.earlier_calls = "broadcast(root=1)"});
        f.arrive(f.operand_uri("2"), bytes_of(content), {.earlier_calls = of_last});
        return f.forwarder.put.back().packet;
    };
    {
        const PacketRef sum = earlier("broadcast(root=1)");
        const auto data = wire::DataView::parse(sum.bytes());
        CHECK(wire::text_of(data->earlier_calls()) == "broadcast(root=1)");
    }
    CHECK(f.answers()[0].error == std::nullopt);
    for (const std::string_view differs : {"broadcast(root=0)", ""}) {
        earlier(differs);
        CHECK(f.answers()[0].error == kMismatch);
    }
    f.check_nothing_left();
}

TEST_CASE("an operand that is an error makes the sum that error, at once") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-4", kTwoParts));
    REQUIRE(f.admit(f.operand_uri("0-4")) == Admission::kAccepted);
    const std::string text = "rank 2: allreduce(sum.f32, 7 elements)";
    f.arrive(f.operand_uri("0-3"), {text.begin(), text.end()},
             {.error = wire::TensorErrorCode::kMismatch});
    const auto answers = f.answers();
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].error == kMismatch);
    CHECK(answers[0].text() == text);
    CHECK(f.forwarder.cancelled == std::vector<std::string>{f.operand_uri("4")});
    f.check_nothing_left();
}

TEST_CASE("a sum of integers that leaves its type says so, and hands on what operands say") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-4", kTwoParts));
    const auto largest = std::numeric_limits<std::int32_t>::max();
    REQUIRE(f.admit(f.operand_uri("0-4", 9, "sum.i32")) == Admission::kAccepted);
    f.arrive(f.operand_uri("0-3", 9, "sum.i32"), std::vector<std::int32_t>{5, largest});
    f.arrive(f.operand_uri("4", 9, "sum.i32"), std::vector<std::int32_t>{5, 1});
    auto answers = f.answers();
    REQUIRE(answers.size() == 1);
    CHECK(!answers[0].error);
    const auto carry = answers[0].sum_carry;
    CHECK(carry == carry_weight(1));
    CHECK(f.reducer.counters().overflows == 1);

    // The operand's carry goes on, or is made up for.
    for (const std::int32_t last : {0, -1}) {
        const auto segment = static_cast<std::uint64_t>(10 - last);
        REQUIRE(f.admit(f.operand_uri("0-4", segment, "sum.i32")) == Admission::kAccepted);
        const std::vector<std::int32_t> values{5, std::numeric_limits<std::int32_t>::min()};
        f.arrive(f.operand_uri("0-3", segment, "sum.i32"), bytes_of(values),
                 {.elements = 2, .sum_carry = carry});
        f.arrive(f.operand_uri("4", segment, "sum.i32"), std::vector<std::int32_t>{5, last});
        answers = f.answers();
        REQUIRE(!answers.empty());
        CHECK(answers.back().sum_carry == (last == 0 ? carry : std::nullopt));
    }
    f.check_nothing_left();
}

TEST_CASE("NaN and infinity survive a reduction") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-4", kTwoParts));
    REQUIRE(f.admit(f.operand_uri("0-4")) == Admission::kAccepted);
    const float infinity = std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    f.arrive(f.operand_uri("0-3"), std::vector<float>{infinity, nan, infinity});
    f.arrive(f.operand_uri("4"), std::vector<float>{1, 1, -infinity});
    const auto answers = f.answers();
    REQUIRE(answers.size() == 1);
    const auto sum = answers[0].as<float>();
    CHECK(sum[0] == infinity);
    CHECK(sum[1] != sum[1]);
    CHECK(sum[2] != sum[2]);
}

TEST_CASE("a Nack for a rank's tensor is forwarded to the requesters") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-4", kTwoParts));
    REQUIRE(f.admit(f.operand_uri("0-4")) == Admission::kAccepted);
    f.nack(f.operand_uri("4"), wire::NackReason::kNoRoute);
    CHECK(f.forwarder.nacked == std::vector<RecordingForwarder::Nacked>{
                                    {f.operand_uri("0-4"), wire::NackReason::kNoRoute}});
    f.check_nothing_left();
}

TEST_CASE("a congestion Nack for an operand causes a retry") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-4", kTwoParts));
    REQUIRE(f.admit(f.operand_uri("0-4")) == Admission::kAccepted);
    f.nack(f.operand_uri("4"), wire::NackReason::kCongestion);
    CHECK(f.forwarder.nacked.empty());
    f.pass(std::chrono::milliseconds(200));
    CHECK(f.times_asked(f.operand_uri("4")) >= 2);
}

TEST_CASE("a refused partial sum is evaluated locally when a rule allows it") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-4", kTwoParts));
    f.reducer.install(rule_of("0-3", {{"0", "h0"}, {"1", "h1"}}, false));
    REQUIRE(f.admit(f.operand_uri("0-4")) == Admission::kAccepted);
    f.forwarder.asked.clear();
    f.nack(f.operand_uri("0-3"), wire::NackReason::kNoSlot);
    CHECK(f.forwarder.asked ==
          std::vector<RecordingForwarder::Asked>{{f.operand_uri("0-3"), "/n/me"}});
    CHECK(f.forwarder.nacked.empty());

    SUBCASE("and its value completes the sum") {
        REQUIRE(f.admit(f.operand_uri("0-3"), true) == Admission::kAccepted);
        f.arrive(f.operand_uri("0"), std::vector<float>{1});
        f.arrive(f.operand_uri("1"), std::vector<float>{2});
        const auto partial = f.answers();
        REQUIRE(partial.size() == 1);
        f.arrive(f.operand_uri("0-3"), partial[0].as<float>());
        f.arrive(f.operand_uri("4"), std::vector<float>{4});
        const auto answers = f.answers();
        REQUIRE(answers.size() == 1);
        CHECK(answers[0].as<float>() == std::vector<float>{7});
        f.check_nothing_left();
    }
    SUBCASE("and the sum is refused when that fails, too") {
        f.nack(f.operand_uri("0-3"), wire::NackReason::kNoSlot);
        CHECK(f.forwarder.nacked == std::vector<RecordingForwarder::Nacked>{
                                        {f.operand_uri("0-4"), wire::NackReason::kNoSlot}});
        f.check_nothing_left();
    }
}

TEST_CASE("a partial sum without an answer is evaluated locally in the end") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-4", kTwoParts));
    f.reducer.install(rule_of("0-3", {{"0", "h0"}, {"1", "h1"}}, false));
    REQUIRE(f.admit(f.operand_uri("0-4")) == Admission::kAccepted);
    f.pass(std::chrono::seconds(10));
    const auto& asked = f.forwarder.asked;
    const RecordingForwarder::Asked here{f.operand_uri("0-3"), "/n/me"};
    const RecordingForwarder::Asked there{f.operand_uri("0-3"), "/n/s0"};
    CHECK(std::count(asked.begin(), asked.end(), there) == 5);
    CHECK(std::count(asked.begin(), asked.end(), here) >= 1);
    // A single rank's tensor can only come from that rank.
    for (const auto& each : asked) CHECK((each.name == here.name || each.hint == "/n/h4"));
}

TEST_CASE("an expired signer refuses requests") {
    class Exhausted final : public security::Signer {
      public:
        wire::SignatureType type() const override { return wire::SignatureType::kHmacSha256; }
        wire::NameView key_name() const override { return {}; }
        std::size_t signature_size() const override { return 32; }
        bool sign(wire::ByteView, std::span<std::uint8_t>) override { return false; }
    } exhausted;
    ReducerFixture f;
    f.reducer.set_signer(&exhausted);
    f.reducer.install(rule_of("0-4", kTwoParts));
    REQUIRE(f.admit(f.operand_uri("0-4")) == Admission::kAccepted);
    f.arrive(f.operand_uri("0-3"), std::vector<float>{1});
    f.arrive(f.operand_uri("4"), std::vector<float>{1});
    CHECK(f.forwarder.put.empty());
    CHECK(f.forwarder.nacked == std::vector<RecordingForwarder::Nacked>{
                                    {f.operand_uri("0-4"), wire::NackReason::kNoSlot}});
    f.check_nothing_left();
}

}  // namespace innet::reduction::test
