// Strategies whose decisions are made outside of the node.

#include <doctest/doctest.h>

#include <deque>

#include "../switch_under_test.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;
using forwarding::strategies::StrategyDecision;
using forwarding::strategies::StrategyEvent;

namespace {

constexpr Duration kPatience = 20ms;

struct Events final : forwarding::strategies::StrategyListener {
    bool on_event(StrategyEvent event) override {
        if (all.size() >= room) return false;
        all.push_back(std::move(event));
        return true;
    }
    StrategyEvent next() {
        REQUIRE_FALSE(all.empty());
        StrategyEvent first = std::move(all.front());
        all.pop_front();
        return first;
    }
    std::deque<StrategyEvent> all;
    std::size_t room = 100;
};

/// Three ways to /a, cheapest first: faces 1, 2 and 3.
struct Outside : SwitchUnderTest {
    Outside() {
        for (FaceId face = 1; face <= 3; ++face) node.add_route(name("/a"), face, face);
        REQUIRE(node.set_outside_strategy(name("/a"), name("/localhost/nfd/strategy/mine"), events,
                                          kPatience));
    }
    void decide(std::uint64_t question, std::vector<FaceId> faces) {
        node.decide(question, {.faces = std::move(faces)}, now);
    }
    std::shared_ptr<Events> events = std::make_shared<Events>();
};

}  // namespace

TEST_CASE("an Interest waits for the external decision and follows it") {
    Outside test;
    test.receive_interest(2, "/a/x", 7);
    CHECK(test.sent_everywhere() == 0);
    const StrategyEvent asked = test.events->next();
    CHECK(asked.name == name("/a/x"));
    CHECK(asked.face == 2);
    REQUIRE(asked.next_hops.size() == 2);  // not back
    CHECK(asked.next_hops[0].face == 1);
    CHECK(asked.next_hops[1].cost == 3);
    test.now += 5ms;
    test.decide(asked.question, {3});
    const auto sent = test.sent(3);
    REQUIRE(sent.size() == 1);
    CHECK(sent[0].nonce == 7);
    CHECK(test.sent_everywhere() == 0);
    test.now += 4ms;
    test.receive(3, test.data("/a/x"));
    CHECK(test.sent(2).size() == 1);
    const StrategyEvent answered = test.events->next();
    CHECK(answered.kind == StrategyEvent::Kind::kData);
    CHECK(answered.face == 3);
    CHECK(answered.rtt == 4ms);
}

TEST_CASE("best-route decides when the external decision is late, fails or cannot be requested") {
    Outside test;
    test.receive_interest(0, "/a/x", 7);
    const auto late = test.events->next().question;
    CHECK(test.node.next_deadline() <= test.now + kPatience);
    test.wait(kPatience);
    CHECK(test.sent(1).size() == 1);
    CHECK(test.node.counters().strategy_late == 1);
    test.decide(late, {2});
    CHECK(test.sent_everywhere() == 0);

    test.receive_interest(0, "/a/y", 8);
    test.node.decide(test.events->next().question, {.kind = StrategyDecision::Kind::kFailed},
                     test.now);
    CHECK(test.sent(1).size() == 1);
    CHECK(test.node.counters().strategy_failed == 1);

    test.events->room = 0;
    test.receive_interest(0, "/a/z", 9);
    CHECK(test.sent(1).size() == 1);
    CHECK(test.node.counters().strategy_crowded_out == 1);
}

TEST_CASE("a late decision does not apply to a face that was opened since") {
    Outside test;
    test.receive_interest(0, "/a/x", 7);
    const auto asked = test.events->next().question;
    test.node.close_face(3, test.now);
    REQUIRE(test.node.add_face() == 3);
    test.decide(asked, {3, 2});
    CHECK(test.sent(3).empty());
    CHECK(test.sent(2).size() == 1);

    test.receive_interest(0, "/a/y", 8);  // asked about the newcomer, it is meant
    test.node.add_route(name("/a"), 3, 1);
    test.decide(test.events->next().question, {3});
    CHECK(test.sent(3).size() == 1);
}

TEST_CASE("a decision can refuse, and a decision without a usable face refuses") {
    Outside test;
    test.receive_interest(0, "/a/x", 7);
    test.node.decide(
        test.events->next().question,
        {.kind = StrategyDecision::Kind::kRefuse, .reason = wire::NackReason::kCongestion},
        test.now);
    auto refusal = test.sent(0);
    REQUIRE(refusal.size() == 1);
    CHECK(refusal[0].reason == wire::NackReason::kCongestion);
    test.receive_interest(0, "/a/y", 8);
    test.decide(test.events->next().question, {0, 77});
    refusal = test.sent(0);
    REQUIRE(refusal.size() == 1);
    CHECK(refusal[0].reason == wire::NackReason::kNoRoute);
    CHECK(test.node.counters().pit_entries == 0);
}

TEST_CASE("one reflexive Interest per pending Interest, and none for an expired one") {
    Outside test;
    test.receive_interest(0, "/a/x", 7, {.lifetime = 10ms});
    test.receive_interest(0, "/a/x", 8, {.lifetime = 10ms});
    test.receive_interest(4, "/a/x", 9, {.lifetime = 10ms});
    const auto question = test.events->next().question;
    CHECK(test.events->all.empty());
    test.wait(12ms);
    CHECK(test.node.counters().pit_entries == 0);
    test.decide(question, {1});
    test.wait(kPatience);
    CHECK(test.sent_everywhere() == 0);
    CHECK(test.node.counters().strategy_late == 0);
}

TEST_CASE("an external strategy learns of Nacks and timeouts and decides again") {
    Outside test;
    test.receive_interest(0, "/a/x", 7, {.lifetime = 100ms});
    test.decide(test.events->next().question, {1});
    const auto sent = test.sent(1);
    REQUIRE(sent.size() == 1);
    test.receive(1, test.nack("/a/x", sent[0].nonce, wire::NackReason::kCongestion));
    const StrategyEvent refused = test.events->next();
    CHECK(refused.kind == StrategyEvent::Kind::kNack);
    CHECK(refused.reason == wire::NackReason::kCongestion);
    const StrategyEvent again = test.events->next();
    CHECK(again.repeated);
    REQUIRE(again.next_hops.size() == 2);
    test.decide(again.question, {2});
    CHECK(test.sent(2).size() == 1);
    test.wait(150ms);
    const StrategyEvent timeout = test.events->next();
    CHECK(timeout.kind == StrategyEvent::Kind::kTimeout);
    CHECK(timeout.face == 2);
}

TEST_CASE("a replaced strategy makes no more decisions") {
    Outside test;
    test.receive_interest(0, "/a/x", 7);
    const auto question = test.events->next().question;
    CHECK(test.node.unset_strategy(name("/a")));
    test.decide(question, {2});
    test.receive_interest(0, "/a/x", 8);
    CHECK(test.events->all.empty());
    CHECK(test.sent(1).size() == 1);
    CHECK(test.events.use_count() == 1);
}
