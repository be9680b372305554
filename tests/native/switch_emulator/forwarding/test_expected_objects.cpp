// A node that was asked for what it does not have yet, and gets it from another itself.

#include <doctest/doctest.h>

#include "switch_under_test.hpp"

using namespace innet;
using namespace innet::testing;

namespace {

constexpr FaceId kRequester = 0;
constexpr FaceId kProducer = 1;
constexpr auto kBlock = "/kv/t/block/seg=0";

/// The requester waits for the block; the application expects it.
struct Home : SwitchUnderTest {
    Home() : SwitchUnderTest(2) {
        node.add_route(name("/n/producer"), kProducer, 1);
        application.productions[kBlock] = {Production::Kind::kPending, {}, bytes("home")};
        receive_interest(kRequester, kBlock, 1,
                         {.hint = default_options().own_name.view().to_uri()});
        now += std::chrono::milliseconds(2);
        node.on_timer(now);
        const auto held = sent(kRequester);
        REQUIRE(held.size() == 1);
        CHECK(held[0].kind == Sent::Kind::kHold);
        application.productions.clear();
    }

    /// The application asks the producer itself.
    void fetch() {
        node.express(RequesterId::kApplication, name(kBlock).view(), name("/n/producer").view(),
                     std::chrono::seconds(1));
        node.run_pending(now);
    }
};

}  // namespace

TEST_CASE("Data that a node fetches reaches its local requesters at once") {
    Home f;
    f.fetch();
    const auto asked = f.sent(kProducer);
    REQUIRE(asked.size() == 1);
    CHECK(asked[0].kind == Sent::Kind::kInterest);
    f.receive(kProducer, f.data(kBlock, "kv"));
    CHECK(f.application.contents == std::vector<std::string>{"kv"});
    const auto answer = f.sent(kRequester);
    REQUIRE(answer.size() == 1);
    CHECK(answer[0].content == "kv");
    CHECK(f.node.counters().pit_entries == 0);
}

TEST_CASE("a pending request ends at once when the producer drops the object") {
    Home f;
    f.fetch();
    const auto asked = f.sent(kProducer);
    f.receive(kProducer, f.nack(kBlock, asked[0].nonce, wire::NackReason::kNoData));
    CHECK(f.application.nacks.size() == 1);
    const auto answer = f.sent(kRequester);
    REQUIRE(answer.size() == 1);
    CHECK(answer[0].reason == wire::NackReason::kNoData);
}

TEST_CASE("a cancelled fetch leaves no request waiting for its answer") {
    Home f;
    f.fetch();
    SUBCASE("the application still requests it: the answer serves all") {
        f.node.nack(name(kBlock).view(), wire::NackReason::kNoData);
        f.node.run_pending(f.now);
        CHECK(f.sent(kRequester).empty());
    }
    SUBCASE("the application no longer requests it") {
        f.node.cancel(RequesterId::kApplication, name(kBlock).view());
        f.node.nack(name(kBlock).view(), wire::NackReason::kNoData);
        f.node.run_pending(f.now);
        const auto answer = f.sent(kRequester);
        REQUIRE(answer.size() == 1);
        CHECK(answer[0].reason == wire::NackReason::kNoData);
        CHECK(f.node.counters().pit_entries == 0);
    }
}

namespace {

/// The requester's Interest named the home, which asks the producer in its turn: one entry, two
/// ways.
struct SharedSwitch : SwitchUnderTest {
    static constexpr FaceId kHome = 1;
    static constexpr FaceId kSource = 2;
    static constexpr FaceId kOtherRequester = 3;

    SharedSwitch() : SwitchUnderTest(4) {
        node.add_route(name("/n/home"), kHome, 1);
        node.add_route(name("/n/producer"), kSource, 1);
        ask(kRequester, 1, "/n/home");
        ask(kHome, 2, "/n/producer");
        CHECK(sent(kHome).size() == 1);
        CHECK(sent(kSource).size() == 1);
    }

    void ask(FaceId face, std::uint32_t nonce, const std::string& hint) {
        receive_interest(face, kBlock, nonce, {.hint = hint, .lifetime = std::chrono::seconds(10)});
    }
};

}  // namespace

TEST_CASE("a home that announces that it waits receives no Hold") {
    SharedSwitch f;
    f.receive(SharedSwitch::kHome, f.hold(kBlock, 1, "home"));
    CHECK(f.sent(kRequester).size() == 1);
    CHECK(f.sent(SharedSwitch::kHome).empty());
    f.receive(SharedSwitch::kSource, f.hold(kBlock, 2, "producer"));
    CHECK(f.sent(kRequester).empty());
    CHECK(f.sent(SharedSwitch::kHome).size() == 1);
}

TEST_CASE(
    "a home's repeated Interest reaches the producer although the home holds the requester's") {
    SharedSwitch f;
    f.receive(SharedSwitch::kHome, f.hold(kBlock, 1, "home"));
    f.sent_everywhere();
    // The producer's Data is lost. The requester repeats itself meanwhile, which says nothing of
    // it.
    f.now += std::chrono::milliseconds(60);
    f.ask(kRequester, 3, "/n/home");
    f.now += std::chrono::milliseconds(1);
    f.ask(SharedSwitch::kHome, 4, "/n/producer");
    const auto again = f.sent(SharedSwitch::kSource);
    REQUIRE(again.size() == 1);
    CHECK(again[0].nonce == 4);
    f.receive(SharedSwitch::kSource, f.data(kBlock, "kv"));
    CHECK(f.sent(kRequester).back().content == "kv");
    CHECK(f.sent(SharedSwitch::kHome).back().content == "kv");
}

TEST_CASE("with two hints, a Nack reaches only the requesters of its hint") {
    SharedSwitch f;
    f.ask(SharedSwitch::kOtherRequester, 5, "/n/home");
    f.sent_everywhere();
    f.receive(SharedSwitch::kHome,
              f.nack(kBlock, 1, wire::NackReason::kNoData, {.hint = "/n/home"}));
    for (const FaceId requester : {kRequester, SharedSwitch::kOtherRequester}) {
        const auto answers = f.sent(requester);
        REQUIRE(answers.size() == 1);
        CHECK(answers[0].kind == Sent::Kind::kNack);
    }
    CHECK(f.sent(SharedSwitch::kHome).empty());
    f.receive(SharedSwitch::kSource, f.data(kBlock, "kv"));
    CHECK(f.sent(SharedSwitch::kHome)[0].content == "kv");
}

TEST_CASE("a home's own fetch is not held by its Holds to requesters") {
    Home f;
    f.fetch();
    f.sent_everywhere();
    f.application.productions[kBlock] = {Production::Kind::kPending, {}, bytes("home")};
    f.receive_interest(kRequester, kBlock, 7,
                       {.hint = SwitchUnderTest::default_options().own_name.view().to_uri()});
    CHECK(f.sent(kRequester).size() == 1);
    CHECK(f.application.holds.empty());
    f.application.productions.clear();
}
