// A node that was asked for what it does not have yet, and gets it from another itself.

#include <doctest/doctest.h>

#include "switch_under_test.hpp"

using namespace innet;
using namespace innet::testing;

namespace {

constexpr FaceId kAsker = 0;
constexpr FaceId kProducer = 1;
constexpr auto kBlock = "/kv/t/block/seg=0";

/// The asker waits for the block; the application expects it.
struct Home : SwitchUnderTest {
    Home() : SwitchUnderTest(2) {
        node.add_route(name("/n/producer"), kProducer, 1);
        application.productions[kBlock] = {Production::Kind::kPending, {}, bytes("home")};
        receive_interest(kAsker, kBlock, 1, {.hint = default_options().own_name.view().to_uri()});
        CHECK(sent(kAsker)[0].kind == Sent::Kind::kHold);
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

TEST_CASE("what a node fetches reaches those at once who wait for it there") {
    Home f;
    f.fetch();
    const auto asked = f.sent(kProducer);
    REQUIRE(asked.size() == 1);
    CHECK(asked[0].kind == Sent::Kind::kInterest);
    f.receive(kProducer, f.data(kBlock, "kv"));
    CHECK(f.application.contents == std::vector<std::string>{"kv"});
    const auto answer = f.sent(kAsker);
    REQUIRE(answer.size() == 1);
    CHECK(answer[0].content == "kv");
    CHECK(f.node.counters().pit_entries == 0);
}

TEST_CASE("who waits hears at once that the producer has it no more") {
    Home f;
    f.fetch();
    const auto asked = f.sent(kProducer);
    f.receive(kProducer, f.nack(kBlock, asked[0].nonce, wire::NackReason::kNoData));
    CHECK(f.application.nacks.size() == 1);
    const auto answer = f.sent(kAsker);
    REQUIRE(answer.size() == 1);
    CHECK(answer[0].reason == wire::NackReason::kNoData);
}

TEST_CASE("a fetch that is given up lets nobody wait for its answer") {
    Home f;
    f.fetch();
    SUBCASE("the application wants it still: its answer is for all") {
        f.node.nack(name(kBlock).view(), wire::NackReason::kNoData);
        f.node.run_pending(f.now);
        CHECK(f.sent(kAsker).empty());
    }
    SUBCASE("the application wants it no more") {
        f.node.cancel(RequesterId::kApplication, name(kBlock).view());
        f.node.nack(name(kBlock).view(), wire::NackReason::kNoData);
        f.node.run_pending(f.now);
        const auto answer = f.sent(kAsker);
        REQUIRE(answer.size() == 1);
        CHECK(answer[0].reason == wire::NackReason::kNoData);
        CHECK(f.node.counters().pit_entries == 0);
    }
}
