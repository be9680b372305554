// Sums that go to the node that adds them before it requests them.

#include <algorithm>
#include <utility>

#include "tests/native/switch_emulator/reduction/reducer_fixture.hpp"

namespace innet::reduction::test {

namespace {

using namespace std::chrono_literals;

std::string value(std::string_view interval, std::uint64_t seq, std::uint64_t segment = 0,
                  std::string_view kind = "sum.f32") {
    return "/job/g0/" + std::string(interval) + "/" + std::string(kind) +
           "/seq=" + std::to_string(seq) + "/seg=" + std::to_string(segment);
}

/// Adds ranks 0 to 2 for the spine.
struct LeafReducer : ReducerFixture {
    explicit LeafReducer(std::uint32_t slots = 64) : ReducerFixture(slots) {
        reducer.install(rule_of("0-2", {{"0", "h0"}, {"1", "h1"}, {"2", "h2"}}, true, {"spine"}));
    }

    void offer_of(int rank, std::uint64_t seq) {
        offer(value(std::to_string(rank), seq),
              std::vector<float>{1.0F + static_cast<float>(rank)});
    }
    void offer_all(std::uint64_t seq) {
        for (const int rank : {0, 1, 2}) offer_of(rank, seq);
    }
    /// Whether the sum of that operation was sent ahead, alone.
    bool went_ahead(std::uint64_t seq) {
        const auto sent = std::exchange(forwarder.ahead, {});
        if (sent.empty()) return false;
        CHECK(sent.size() == 1);
        CHECK(sent[0].name == value("0-2", seq));
        CHECK(sent[0].hint == "/n/spine");
        const auto sum = wire::DataView::parse(sent[0].packet.bytes());
        security::Keyring keyring;
        keyring.accept_digest(true);
        CHECK(keyring.verify(*sum) == security::Verdict::kValid);
        CHECK(std::ranges::equal(sum->content(), bytes_of(std::vector<float>{6.0F})));
        return true;
    }
};

/// Adds the sums of two leaves, for a core where it is not the root.
struct SpineReducer : ReducerFixture {
    explicit SpineReducer(const std::vector<std::string>& ahead_to = {}) {
        reducer.install(rule_of("0-3", {{"0-1", "leaf0"}, {"2-3", "leaf1"}}, true, ahead_to));
    }

    void offer_of(std::string_view interval, std::uint64_t seq) {
        offer(value(interval, seq), std::vector<float>{2.0F});
    }
    void offer_both(std::uint64_t seq) {
        for (const auto* interval : {"0-1", "2-3"}) offer_of(interval, seq);
    }
    /// Both leaves' sums come unrequested once.
    void both_came_ahead() {
        offer_both(0);
        REQUIRE(admit(value("0-3", 0)) == Admission::kAccepted);
        CHECK(answers().size() == 1);
    }
};

}  // namespace

TEST_CASE("a sum whose operands were all sent ahead is sent ahead, in any order of arrival") {
    LeafReducer f;
    std::vector<int> ranks{0, 1, 2};
    std::uint64_t seq = 0;
    do {
        ++seq;
        f.offer_of(ranks[0], seq);
        f.offer_of(ranks[1], seq);
        CHECK(!f.went_ahead(seq));
        f.offer_of(ranks[2], seq);
        CHECK(f.went_ahead(seq));
    } while (std::ranges::next_permutation(ranks).found);
    CHECK(f.forwarder.asked.empty());
    CHECK(f.answers().empty());
    CHECK(f.reducer.counters().sums_ahead == seq);
    f.pass(1s);
    f.check_nothing_left();
}

TEST_CASE("concurrent operations each send their sum ahead") {
    LeafReducer f;
    for (const int rank : {0, 1}) {
        for (std::uint64_t seq = 1; seq <= 8; ++seq) f.offer_of(rank, seq);
    }
    for (std::uint64_t seq = 1; seq <= 8; ++seq) {
        f.offer_of(2, seq);
        CHECK(f.went_ahead(seq));
    }
}

TEST_CASE("a lost sum is sent again on request without requests to ranks") {
    LeafReducer f;
    f.offer_all(1);
    CHECK(f.went_ahead(1));
    REQUIRE(f.admit(value("0-2", 1)) == Admission::kAccepted);
    const auto answers = f.answers();
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].as<float>() == std::vector<float>{6});
    CHECK(f.forwarder.asked.empty());
    f.check_nothing_left();
}

TEST_CASE("a sum that was dropped is computed again") {
    LeafReducer f;
    f.offer_all(1);
    f.pass(1s);
    REQUIRE(f.admit(value("0-2", 1)) == Admission::kAccepted);
    for (const auto* rank : {"0", "1", "2"}) {
        CHECK(f.times_asked(value(rank, 1)) == 1);
        f.arrive(value(rank, 1), std::vector<float>{2.0F});
    }
    CHECK(f.answers().size() == 1);
    f.check_nothing_left();
}

TEST_CASE("a sum with a late rank waits for its request and is not sent ahead") {
    LeafReducer f;
    f.offer_all(0);
    CHECK(f.went_ahead(0));
    f.offer_of(0, 1);
    f.offer_of(2, 1);
    REQUIRE(f.admit(value("0-2", 1)) == Admission::kAccepted);
    CHECK(f.forwarder.asked.empty());
    f.offer_of(1, 1);
    CHECK(f.answers().size() == 1);
    CHECK(f.forwarder.ahead.empty());
    f.pass(1s);
    f.check_nothing_left();
}

TEST_CASE("repeated contributions send no sum again") {
    LeafReducer f;
    f.offer_all(2);
    CHECK(f.went_ahead(2));
    f.offer_all(2);
    f.offer_all(1);
    CHECK(f.forwarder.ahead.empty());
    CHECK(f.reducer.counters().contributions_ahead == 3);
}

TEST_CASE("a node that requests sums despite receiving them ahead gets fewer ahead") {
    LeafReducer f;
    int ahead = 0;
    constexpr std::uint64_t kOperations = 100;
    for (std::uint64_t seq = 1; seq <= kOperations; ++seq) {
        f.offer_all(seq);
        ahead += f.went_ahead(seq) ? 1 : 0;
        REQUIRE(f.admit(value("0-2", seq)) == Admission::kAccepted);
        CHECK(f.answers().size() == 1);
    }
    CHECK(ahead < 16);
    CHECK(f.forwarder.asked.empty());
    // It takes them again.
    for (std::uint64_t seq = kOperations + 1; seq <= 2 * kOperations; ++seq) {
        f.offer_all(seq);
        ahead = f.went_ahead(seq) ? ahead + 1 : ahead;
    }
    CHECK(ahead > 80);
}

TEST_CASE("requests that cross the sums of one operation delay no later sum") {
    LeafReducer f;
    for (std::uint64_t segment = 0; segment < 20; ++segment) {
        for (const auto* rank : {"0", "1", "2"}) {
            f.offer(value(rank, 1, segment), std::vector<float>{2.0F});
        }
    }
    for (std::uint64_t segment = 0; segment < 20; ++segment) {
        REQUIRE(f.admit(value("0-2", 1, segment)) == Admission::kAccepted);
    }
    CHECK(f.answers().size() == 20);
    CHECK(f.forwarder.ahead.size() == 20);
    f.forwarder.ahead.clear();
    f.offer_all(2);
    CHECK(f.went_ahead(2));
}

TEST_CASE("a sum of some ranks is sent ahead without the others") {
    LeafReducer f;
    for (const auto* rank : {"0", "2"}) {
        f.offer(value(rank, 1, 0, "sum.f32.of-5"), std::vector<float>{1.0F});
    }
    REQUIRE(f.forwarder.ahead.size() == 1);
    CHECK(f.forwarder.ahead[0].name == value("0-2", 1, 0, "sum.f32.of-5"));
}

TEST_CASE(
    "disagreeing operands send nothing ahead, and the request for their sum gets the reason") {
    LeafReducer f;
    f.offer(value("0", 1), std::vector<float>{1.0F});
    f.offer(value("1", 1), std::vector<float>{1.0F, 2.0F});
    f.offer_of(2, 1);
    CHECK(f.forwarder.ahead.empty());
    f.forwarder.put.clear();
    REQUIRE(f.admit(value("0-2", 1)) == Admission::kAccepted);
    f.arrive(value("0", 1), std::vector<float>{1.0F});
    f.arrive(value("1", 1), std::vector<float>{1.0F, 2.0F});
    const auto answers = f.answers();
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].error == static_cast<std::uint64_t>(wire::TensorErrorCode::kMismatch));
    f.check_nothing_left();
}

TEST_CASE("no sum is sent ahead while all slots are in use") {
    LeafReducer f(1);
    f.reducer.install(rule_of("5-6", {{"5", "h5"}, {"6", "h6"}}));
    REQUIRE(f.admit(value("5-6", 1)) == Admission::kAccepted);
    f.offer_all(1);
    CHECK(f.forwarder.ahead.empty());
    f.reducer.abandon(name_of(value("5-6", 1)).view());
    REQUIRE(f.admit(value("0-2", 1)) == Admission::kAccepted);
    CHECK(f.answers().size() == 1);
    f.check_nothing_left();
}

TEST_CASE("a rule that was replaced or removed sends nothing ahead to its old place") {
    LeafReducer f;
    f.offer_of(0, 1);
    const std::vector<std::pair<std::string, std::string>> ranks{{"0", "h0"}, {"1", "h1"}};
    SUBCASE("by one without a place") {
        f.reducer.install(rule_of("0-2", ranks));
        f.offer_of(1, 1);
        CHECK(f.forwarder.ahead.empty());
    }
    SUBCASE("by one with another place") {
        f.reducer.install(rule_of("0-2", ranks, true, {"spine1"}));
        f.offer_of(1, 1);
        REQUIRE(f.forwarder.ahead.size() == 1);
        CHECK(f.forwarder.ahead[0].hint == "/n/spine1");
    }
    SUBCASE("removed") {
        f.reducer.remove_group(name_of("/job/g0"));
        f.reducer.install(rule_of("0-1", ranks));
        f.offer_all(1);
        CHECK(f.forwarder.ahead.empty());
    }
    f.pass(1s);
    f.check_nothing_left();
}

TEST_CASE("a node accepts no sum from others that it makes itself") {
    LeafReducer f;
    f.reducer.install(rule_of("0-5", {{"0-2", "me"}, {"3-5", "leaf1"}}));
    CHECK(!f.reducer.may_use(name_of(value("0-2", 1)).view()));
    CHECK(f.reducer.may_use(name_of(value("3-5", 1)).view()));
}

TEST_CASE("congestion marks of operands are sent ahead with their sum") {
    LeafReducer f;
    f.offer_of(0, 1);
    f.offer(f.packet_of(value("1", 1), bytes_of(std::vector<float>{2.0F}), {.elements = 1}), true);
    f.offer_of(2, 1);
    REQUIRE(f.forwarder.ahead.size() == 1);
    CHECK(f.forwarder.ahead[0].marked);
}

TEST_CASE("sums are awaited once earlier ones were sent ahead") {
    SpineReducer f;
    REQUIRE(f.admit(value("0-3", 0)) == Admission::kAccepted);
    CHECK(f.forwarder.asked.size() == 2);
    for (const auto* interval : {"0-1", "2-3"}) {
        f.arrive(value(interval, 0), std::vector<float>{2.0F});
        f.offer_of(interval, 0);  // the request crossed it, and was answered as well
    }
    f.forwarder.asked.clear();
    for (std::uint64_t seq = 1; seq <= 3; ++seq) {
        REQUIRE(f.admit(value("0-3", seq)) == Admission::kAccepted);
        f.pass(1ms);
        f.offer_both(seq);
    }
    CHECK(f.forwarder.asked.empty());
    CHECK(f.answers().size() == 4);
    f.check_nothing_left();
}

TEST_CASE("a sum not sent ahead is requested after a pause, and later ones at once for some time") {
    SpineReducer f;
    f.both_came_ahead();
    REQUIRE(f.admit(value("0-3", 1)) == Admission::kAccepted);
    f.pass(1999us);
    CHECK(f.forwarder.asked.empty());
    f.offer_of("2-3", 1);
    f.pass(1us);
    CHECK(f.forwarder.asked == std::vector{RecordingForwarder::Asked{value("0-1", 1), "/n/leaf0"}});
    f.arrive(value("0-1", 1), std::vector<float>{2.0F});
    for (std::uint64_t seq = 2; seq <= 6; ++seq) {
        REQUIRE(f.admit(value("0-3", seq)) == Admission::kAccepted);
        const bool asked = f.times_asked(value("0-1", seq)) > 0;
        CHECK(asked == (seq < 6));
        CHECK(f.times_asked(value("2-3", seq)) == 0);
        if (asked) f.arrive(value("0-1", seq), std::vector<float>{2.0F});
        f.offer_both(seq);  // it does come, and so is there twice if it was requested
    }
    CHECK(f.answers().size() == 6);
    f.check_nothing_left();
}

TEST_CASE("sums of shards are sent ahead to the nodes that add them, or wait for requests") {
    ReducerFixture f;
    f.reducer.install(rule_of("0-1", {{"0", "h0"}, {"1", "h1"}}, true, {"spine0", "", "spine2"}));
    for (std::uint64_t segment = 0; segment < 6; ++segment) {
        for (const auto* rank : {"0", "1"}) {
            f.offer(value(rank, 1, segment), std::vector<float>{1.0F});
        }
    }
    std::vector<std::pair<std::string, std::string>> sent;
    for (const auto& ahead : f.forwarder.ahead) sent.emplace_back(ahead.name, ahead.hint);
    using Sent = std::pair<std::string, std::string>;
    CHECK(sent == std::vector{Sent{value("0-1", 1, 0), "/n/spine0"},
                              Sent{value("0-1", 1, 2), "/n/spine2"},
                              Sent{value("0-1", 1, 3), "/n/spine0"},
                              Sent{value("0-1", 1, 5), "/n/spine2"}});
    REQUIRE(f.admit(value("0-1", 1, 1)) == Admission::kAccepted);
    CHECK(f.answers().size() == 1);
    CHECK(f.forwarder.asked.empty());
}

TEST_CASE("segments of one shard do not overtake those of another") {
    ReducerFixture f;
    const std::vector<std::pair<std::string, std::string>> ranks{{"0", "h0"}, {"1", "h1"}};
    f.reducer.install(rule_of("0-1", ranks, true, {"spine0", "spine1"}));
    const auto offer_of = [&](const char* rank, std::uint64_t segment) {
        f.offer(value(rank, 1, segment), std::vector<float>{1.0F});
    };
    SUBCASE("of which the sum is begun") {
        offer_of("0", 0);
        REQUIRE(f.admit(value("0-1", 1, 0)) == Admission::kAccepted);
        for (const auto* rank : {"0", "1"}) offer_of(rank, 5);
        CHECK(f.forwarder.asked.empty());
        offer_of("1", 0);
        CHECK(f.answers().size() == 1);
    }
    SUBCASE("of which no sum is begun") {
        for (const std::uint64_t segment : {5, 0}) {
            for (const auto* rank : {"0", "1"}) offer_of(rank, segment);
        }
        CHECK(f.forwarder.ahead.size() == 2);
    }
}

TEST_CASE("a sum overtaken by the next one is requested at once") {
    SpineReducer f;
    f.both_came_ahead();
    for (std::uint64_t segment = 0; segment < 2; ++segment) {
        REQUIRE(f.admit(value("0-3", 1, segment)) == Admission::kAccepted);
        f.offer(value("2-3", 1, segment), std::vector<float>{2.0F});
    }
    CHECK(f.forwarder.asked.empty());
    f.offer(value("0-1", 1, 1), std::vector<float>{2.0F});
    CHECK(f.forwarder.asked ==
          std::vector{RecordingForwarder::Asked{value("0-1", 1, 0), "/n/leaf0"}});
    f.arrive(value("0-1", 1, 0), std::vector<float>{2.0F});
    CHECK(f.answers().size() == 2);
    f.check_nothing_left();
}

TEST_CASE("a contribution overtaken by one of the next sum is requested at once") {
    LeafReducer f;
    f.offer_of(0, 1);
    f.offer_of(1, 1);
    REQUIRE(f.admit(value("0-2", 1)) == Admission::kAccepted);
    CHECK(f.forwarder.asked.empty());
    for (const auto* rank : {"0", "1", "2"}) {
        f.offer(value(rank, 1, 1), std::vector<float>{1.0F});
    }
    CHECK(f.forwarder.asked == std::vector{RecordingForwarder::Asked{value("2", 1), "/n/h2"}});
    CHECK(f.forwarder.ahead.size() == 1);
    f.arrive(value("2", 1), std::vector<float>{3.0F});
    CHECK(f.answers().size() == 1);
}

TEST_CASE("sums of sums sent ahead are sent ahead in turn") {
    SpineReducer f({"core"});
    f.offer_both(1);
    REQUIRE(f.forwarder.ahead.size() == 1);
    CHECK(f.forwarder.ahead[0].name == value("0-3", 1));
    CHECK(f.forwarder.ahead[0].hint == "/n/core");
    CHECK(f.forwarder.asked.empty());
    f.pass(1s);
    f.check_nothing_left();
}

TEST_CASE("a flood of sums ahead is kept in bounded memory") {
    LeafReducer f;
    constexpr std::uint64_t kOperations = 3000;
    std::size_t kept_bytes = 0;
    for (std::uint64_t seq = 1; seq <= kOperations; ++seq) {
        f.offer_all(seq);
        f.forwarder.ahead.clear();
        if (seq == kOperations / 2) kept_bytes = f.pool.bytes_in_use();
    }
    CHECK(f.pool.bytes_in_use() <= kept_bytes);
    f.pass(1s);
    f.check_nothing_left();
}

}  // namespace innet::reduction::test
