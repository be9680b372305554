// Contributions that come before they are requested.

#include "tests/native/switch_emulator/reduction/reducer_fixture.hpp"

namespace innet::reduction::test {

namespace {

using namespace std::chrono_literals;

const std::vector<std::pair<std::string, std::string>> kThreeRanks{
    {"0", "h0"}, {"1", "h1"}, {"2", "h2"}};

std::string contribution(int rank, std::uint64_t segment = 9) {
    return ReducerFixture::operand_uri(std::to_string(rank), segment);
}

struct Switch : ReducerFixture {
    Switch() { reducer.install(rule_of("0-2", kThreeRanks)); }

    std::string sum(std::uint64_t segment = 9) const { return operand_uri("0-2", segment); }
    void offer_of(int rank, std::uint64_t segment = 9) {
        offer(contribution(rank, segment), std::vector<float>{static_cast<float>(rank) + 1});
    }
    /// A sum for which rank 0 alone sends its contribution ahead; the others are asked for.
    void round_with_one_offer(std::uint64_t segment) {
        offer_of(0, segment);
        REQUIRE(admit(sum(segment)) == Admission::kAccepted);
        pass(1ms);
        for (const int rank : {1, 2}) {
            CHECK(times_asked(contribution(rank, segment)) == 1);
            arrive(contribution(rank, segment), std::vector<float>{1.0F});
        }
        CHECK(answers().size() == 1);
    }
};

}  // namespace

TEST_CASE("a sum of contributions that came ahead asks for none of them") {
    Switch f;
    f.offer_of(2);
    REQUIRE(f.admit(f.sum()) == Admission::kAccepted);
    f.offer_of(0);
    CHECK(f.answers().empty());
    f.offer_of(1);
    const auto answers = f.answers();
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].as<float>() == std::vector<float>{6});
    CHECK(f.forwarder.asked.empty());
    CHECK(f.reducer.counters().offers_taken == 3);
    f.check_nothing_left();
}

TEST_CASE("what does not come ahead with the others is asked for after a millisecond") {
    Switch f;
    f.offer_of(0);
    REQUIRE(f.admit(f.sum()) == Admission::kAccepted);
    f.pass(999us);
    CHECK(f.forwarder.asked.empty());
    f.offer_of(1);
    f.pass(1us);
    CHECK(f.forwarder.asked == std::vector{RecordingForwarder::Asked{contribution(2), "/n/h2"}});
    f.arrive(contribution(2), std::vector<float>{3.0F});
    CHECK(f.answers().size() == 1);
    f.check_nothing_left();
}

TEST_CASE("an operand that did not come ahead twice in a row is asked for at once") {
    Switch f;
    f.round_with_one_offer(1);
    f.round_with_one_offer(2);
    f.offer_of(0, 3);
    REQUIRE(f.admit(f.sum(3)) == Admission::kAccepted);
    CHECK(f.times_asked(contribution(1, 3)) == 1);
    CHECK(f.times_asked(contribution(2, 3)) == 1);
    for (const int rank : {1, 2}) f.arrive(contribution(rank, 3), std::vector<float>{1.0F});

    f.offer_of(0, 4);
    f.offer_of(1, 4);  // and now it did
    REQUIRE(f.admit(f.sum(4)) == Admission::kAccepted);
    f.arrive(contribution(2, 4), std::vector<float>{1.0F});
    f.offer_of(0, 5);
    REQUIRE(f.admit(f.sum(5)) == Admission::kAccepted);
    CHECK(f.times_asked(contribution(1, 5)) == 0);
    CHECK(f.times_asked(contribution(2, 5)) == 1);
    f.reducer.abandon(name_of(f.sum(5)).view());
    f.check_nothing_left();
}

TEST_CASE("a rank that was late is waited for again once it answers at once") {
    Switch f;
    f.offer_of(0, 0);
    REQUIRE(f.admit(f.sum(0)) == Admission::kAccepted);
    for (const int rank : {1, 2}) f.offer_of(rank, 0);
    CHECK(f.answers().size() == 1);
    for (const std::uint64_t late : {1U, 2U}) f.round_with_one_offer(late);
    f.offer_of(0, 3);
    REQUIRE(f.admit(f.sum(3)) == Admission::kAccepted);
    f.arrive(contribution(1, 3), std::vector<float>{1.0F});
    f.pass(2ms);
    f.arrive(contribution(2, 3), std::vector<float>{1.0F});
    f.offer_of(0, 4);
    REQUIRE(f.admit(f.sum(4)) == Admission::kAccepted);
    CHECK(f.times_asked(contribution(1, 4)) == 0);
    CHECK(f.times_asked(contribution(2, 4)) == 1);
    f.reducer.abandon(name_of(f.sum(4)).view());
    f.check_nothing_left();
}

TEST_CASE("contributions that no rule adds are not kept") {
    Switch f;
    f.offer_of(3);
    f.offer("/job/other/0/sum.f32/seq=41/seg=9", std::vector<float>{1.0F});
    f.offer(f.sum(), std::vector<float>{1.0F});
    f.offer("/job/g0/0/obj/seg=9", std::vector<float>{1.0F});
    CHECK(f.reducer.counters().offers_taken == 0);
    f.check_nothing_left();
}

TEST_CASE("contributions that came ahead go with their group, and with an Interest's lifetime") {
    Switch f;
    f.offer_of(0, 1);
    CHECK(f.pool.bytes_in_use() > 0);
    SUBCASE("group") {
        f.reducer.remove_group(name_of("/job/g0"));
        f.check_nothing_left();
    }
    SUBCASE("lifetime") {
        f.pass(600ms);
        f.offer_of(1, 2);
        f.pass(400ms);
        REQUIRE(f.admit(f.sum(1)) == Admission::kAccepted);
        CHECK(f.times_asked(contribution(0, 1)) == 1);
        f.reducer.abandon(name_of(f.sum(1)).view());
        f.pass(600ms);
        f.check_nothing_left();
    }
}

TEST_CASE("a flood of contributions keeps the newest, in bounded memory") {
    Switch f;
    constexpr std::uint64_t kOffers = 3000;
    for (std::uint64_t segment = 0; segment < kOffers; ++segment) f.offer_of(0, segment);
    const std::size_t kept_bytes = f.pool.bytes_in_use();
    for (std::uint64_t segment = 0; segment < kOffers; ++segment) {
        f.offer_of(1, kOffers + segment);
    }
    CHECK(f.pool.bytes_in_use() <= kept_bytes);
    REQUIRE(f.admit(f.sum(2 * kOffers - 1)) == Admission::kAccepted);
    f.offer_of(0, 2 * kOffers - 1);
    f.offer_of(2, 2 * kOffers - 1);
    CHECK(f.answers().size() == 1);
}

TEST_CASE("contributions of different calls that came ahead end their sum with an error") {
    Switch f;
    f.offer(contribution(0), std::vector<float>{1.0F});
    f.offer(contribution(1), std::vector<float>{1.0F, 2.0F});
    f.offer(contribution(2), std::vector<float>{1.0F});
    REQUIRE(f.admit(f.sum()) == Admission::kAccepted);
    const auto answers = f.answers();
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].error == static_cast<std::uint64_t>(wire::TensorErrorCode::kMismatch));
    f.check_nothing_left();
}

}  // namespace innet::reduction::test
