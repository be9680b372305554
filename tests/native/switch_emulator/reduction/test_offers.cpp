// Contributions that come before they are requested.

#include "tests/native/switch_emulator/reduction/reducer_fixture.hpp"

namespace innet::reduction::test {

namespace {

using namespace std::chrono_literals;

const std::vector<std::pair<std::string, std::string>> kThreeRanks{
    {"0", "h0"}, {"1", "h1"}, {"2", "h2"}};

std::string operand(std::string_view interval, std::uint64_t seq, std::uint64_t segment = 0) {
    return "/job/g0/" + std::string(interval) + "/sum.f32/seq=" + std::to_string(seq) +
           "/seg=" + std::to_string(segment);
}
std::string contribution(int rank, std::uint64_t seq = 1, std::uint64_t segment = 0) {
    return operand(std::to_string(rank), seq, segment);
}

struct Switch : ReducerFixture {
    Switch() { reducer.install(rule_of("0-2", kThreeRanks)); }

    std::string sum(std::uint64_t seq = 1, std::uint64_t segment = 0) const {
        return operand("0-2", seq, segment);
    }
    void offer_of(int rank, std::uint64_t seq = 1, std::uint64_t segment = 0) {
        offer(contribution(rank, seq, segment), std::vector<float>{static_cast<float>(rank) + 1});
    }
    /// Rank 0 sends its segments ahead, and requests the sums.
    void begin_segments(std::uint64_t seq, std::uint64_t segments) {
        for (std::uint64_t segment = 0; segment < segments; ++segment) {
            offer_of(0, seq, segment);
            REQUIRE(admit(sum(seq, segment)) == Admission::kAccepted);
        }
    }
    /// Each rank once.
    void all_came_ahead() {
        for (const int rank : {0, 1, 2}) offer_of(rank, 0);
        REQUIRE(admit(sum(0)) == Admission::kAccepted);
        CHECK(answers().size() == 1);
        forwarder.asked.clear();
    }
};

}  // namespace

TEST_CASE("a sum of contributions sent ahead requests none of them") {
    Switch f;
    f.all_came_ahead();
    f.offer_of(2);
    REQUIRE(f.admit(f.sum()) == Admission::kAccepted);
    f.offer_of(0);
    CHECK(f.answers().empty());
    f.offer_of(1);
    const auto answers = f.answers();
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].as<float>() == std::vector<float>{6});
    CHECK(f.forwarder.asked.empty());
    CHECK(f.reducer.counters().contributions_ahead == 6);
    f.check_nothing_left();
}

TEST_CASE("a contribution missing among those sent ahead is requested after two milliseconds") {
    Switch f;
    f.all_came_ahead();
    f.offer_of(0);
    REQUIRE(f.admit(f.sum()) == Admission::kAccepted);
    f.pass(1999us);
    CHECK(f.forwarder.asked.empty());
    f.offer_of(1);
    f.pass(1us);
    CHECK(f.forwarder.asked == std::vector{RecordingForwarder::Asked{contribution(2), "/n/h2"}});
    f.arrive(contribution(2), std::vector<float>{3.0F});
    CHECK(f.answers().size() == 1);
    f.check_nothing_left();
}

TEST_CASE("an operand that is not sent ahead is awaited once, and then requested at once") {
    Switch f;
    f.offer_of(0, 0);
    REQUIRE(f.admit(f.sum(0)) == Admission::kAccepted);
    CHECK(f.forwarder.asked.empty());
    f.pass(2ms);
    for (const int rank : {1, 2}) f.arrive(contribution(rank, 0), std::vector<float>{1.0F});
    CHECK(f.answers().size() == 1);
    f.offer_of(0);
    REQUIRE(f.admit(f.sum()) == Admission::kAccepted);
    CHECK(f.times_asked(contribution(1)) == 1);
    CHECK(f.times_asked(contribution(2)) == 1);
    for (const int rank : {1, 2}) f.arrive(contribution(rank), std::vector<float>{1.0F});
    CHECK(f.answers().size() == 1);
    f.check_nothing_left();
}

TEST_CASE("a contribution overtaken by the next one is requested at once") {
    Switch f;
    f.begin_segments(1, 3);
    f.begin_segments(2, 1);
    f.offer_of(1, 1, 1);
    using Asked = RecordingForwarder::Asked;
    CHECK(f.forwarder.asked == std::vector{Asked{contribution(1, 1, 0), "/n/h1"}});
    f.arrive(contribution(1, 1, 0), std::vector<float>{2.0F});
    f.offer_of(1, 2, 0);
    f.offer_of(1, 1, 2);
    for (std::uint64_t segment = 0; segment < 3; ++segment) f.offer_of(2, 1, segment);
    f.offer_of(2, 2, 0);
    CHECK(f.answers().size() == 4);
    CHECK(f.forwarder.asked.size() == 1);
    f.check_nothing_left();
}

TEST_CASE("segments whose sums started out of order are not considered lost") {
    Switch f;
    for (std::uint64_t segment = 0; segment < 4; ++segment) f.offer_of(0, 1, segment);
    for (const std::uint64_t segment : {1, 2, 0, 3}) {
        REQUIRE(f.admit(f.sum(1, segment)) == Admission::kAccepted);
    }
    for (const int rank : {1, 2}) {
        for (std::uint64_t segment = 0; segment < 4; ++segment) f.offer_of(rank, 1, segment);
    }
    CHECK(f.answers().size() == 4);
    CHECK(f.forwarder.asked.empty());
    f.check_nothing_left();
}

TEST_CASE("a contribution is overtaken by one that arrived before its sum started") {
    Switch f;
    f.begin_segments(1, 1);
    f.offer_of(1, 1, 1);
    CHECK(f.forwarder.asked.empty());
    f.offer_of(0, 1, 1);
    REQUIRE(f.admit(f.sum(1, 1)) == Admission::kAccepted);
    using Asked = RecordingForwarder::Asked;
    CHECK(f.forwarder.asked == std::vector{Asked{contribution(1, 1, 0), "/n/h1"}});
    f.arrive(contribution(1, 1, 0), std::vector<float>{2.0F});
    for (const std::uint64_t segment : {0, 1}) f.offer_of(2, 1, segment);
    CHECK(f.answers().size() == 2);
    f.check_nothing_left();
}

TEST_CASE("while contributions of a rank arrive, later ones are awaited") {
    Switch f;
    f.begin_segments(1, 5);
    for (std::uint64_t segment = 0; segment < 5; ++segment) {
        f.offer_of(1, 1, segment);
        f.pass(1900us);
        f.offer_of(2, 1, segment);
    }
    CHECK(f.answers().size() == 5);
    CHECK(f.forwarder.asked.empty());
    f.check_nothing_left();
}

TEST_CASE("contributions sent ahead too late are awaited longer") {
    Switch f;
    f.all_came_ahead();
    const auto asks_after = [&](std::uint64_t seq, Duration late) {
        f.offer_of(0, seq);
        REQUIRE(f.admit(f.sum(seq)) == Admission::kAccepted);
        f.offer_of(1, seq);
        f.pass(late);
        const bool asked = f.times_asked(contribution(2, seq)) > 0;
        if (asked) f.arrive(contribution(2, seq), std::vector<float>{3.0F});
        f.offer_of(2, seq);  // once more, if it was asked for
        CHECK(f.answers().size() == 1);
        return asked;
    };
    for (std::uint64_t seq = 1; seq <= 2; ++seq) CHECK(asks_after(seq, 5ms));
    CHECK(!asks_after(3, 5ms));
    CHECK(asks_after(4, 100ms));
    f.check_nothing_left();
}

TEST_CASE("a lost contribution does not extend the wait for later ones") {
    Switch f;
    f.all_came_ahead();
    for (const std::uint64_t seq : {1, 3}) {
        f.offer_of(0, seq);
        REQUIRE(f.admit(f.sum(seq)) == Admission::kAccepted);
        f.offer_of(1, seq);
        CHECK(f.times_asked(contribution(2, seq)) == 0);
        f.pass(2ms);
        CHECK(f.times_asked(contribution(2, seq)) == 1);
        f.arrive(contribution(2, seq), std::vector<float>{3.0F});

        f.offer_of(0, seq + 1);
        REQUIRE(f.admit(f.sum(seq + 1)) == Admission::kAccepted);
        f.offer_of(1, seq + 1);
        f.arrive(contribution(2, seq + 1), std::vector<float>{3.0F});
        f.offer_of(2, seq + 1);  // it had been sent ahead, and is asked for as well
    }
    CHECK(f.answers().size() == 4);
    f.check_nothing_left();
}

TEST_CASE("a rank whose segments all arrive too late is awaited longer") {
    Switch f;
    constexpr std::uint64_t kSegments = 8;
    const auto asks_after = [&](std::uint64_t seq, Duration late) {
        f.begin_segments(seq, kSegments);
        for (std::uint64_t segment = 0; segment < kSegments; ++segment) f.offer_of(1, seq, segment);
        f.pass(late);
        const bool asked = f.times_asked(contribution(2, seq, 0)) > 0;
        for (std::uint64_t segment = 0; segment < kSegments; ++segment) {
            if (asked) f.arrive(contribution(2, seq, segment), std::vector<float>{3.0F});
            f.offer_of(2, seq, segment);  // once more, if it was asked for
        }
        CHECK(f.answers().size() == kSegments);
        return asked;
    };
    for (std::uint64_t seq = 1; seq <= 2; ++seq) CHECK(asks_after(seq, 5ms));
    CHECK(!asks_after(3, 5ms));
    f.check_nothing_left();
}

TEST_CASE("contributions that no rule adds are not kept") {
    Switch f;
    f.offer_of(3);
    f.offer("/job/other/0/sum.f32/seq=41/seg=9", std::vector<float>{1.0F});
    f.offer(f.sum(), std::vector<float>{1.0F});
    f.offer("/job/g0/0/obj/seg=9", std::vector<float>{1.0F});
    CHECK(f.reducer.counters().contributions_ahead == 0);
    f.check_nothing_left();
}

TEST_CASE(
    "contributions sent ahead are dropped with their group, or after an Interest's lifetime") {
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
    for (std::uint64_t seq = 0; seq < kOffers; ++seq) f.offer_of(0, seq);
    const std::size_t kept_bytes = f.pool.bytes_in_use();
    for (std::uint64_t seq = 0; seq < kOffers; ++seq) {
        f.offer_of(1, kOffers + seq);
    }
    CHECK(f.pool.bytes_in_use() <= kept_bytes);
    REQUIRE(f.admit(f.sum(2 * kOffers - 1)) == Admission::kAccepted);
    f.offer_of(0, 2 * kOffers - 1);
    f.arrive(contribution(2, 2 * kOffers - 1), std::vector<float>{1.0F});
    CHECK(f.answers().size() == 1);
}

TEST_CASE("contributions of different calls sent ahead end their sum with an error") {
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
