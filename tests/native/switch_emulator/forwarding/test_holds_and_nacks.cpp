// What requesters are told when their Data is late, or cannot be had.

#include <doctest/doctest.h>

#include "switch_under_test.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;

namespace {

constexpr FaceId kUpstream = 8;
constexpr FaceId kOtherUpstream = 7;
constexpr auto kSegment = "/train1/g0/0-7/sum.f32/seq=41/seg=9";

struct Star : SwitchUnderTest {
    explicit Star(const forwarding::NodeOptions& options = default_options())
        : SwitchUnderTest(9, options) {
        node.add_route(name("/train1/g0"), kUpstream, 1);
    }
};

}  // namespace

TEST_CASE("a Hold from upstream reaches every pending requester once") {
    Star star;
    star.receive_interest(0, kSegment, 10, {.token = "zero"});
    star.receive_interest(1, kSegment, 11);
    star.node.express(RequesterId::kApplication, name(kSegment).view(), {}, 1s);
    star.node.run_pending(star.now);
    star.sent(kUpstream);
    star.receive(kUpstream, star.hold(kSegment, 10, "3"));
    star.receive(kUpstream, star.hold(kSegment, 10, "3"));
    const auto first = star.sent(0);
    REQUIRE(first.size() == 1);
    CHECK(first[0].kind == Sent::Kind::kHold);
    CHECK(first[0].missing == "3");
    CHECK(first[0].token == "zero");
    CHECK(first[0].nonce == 10);
    const auto second = star.sent(1);
    REQUIRE(second.size() == 1);
    CHECK(second[0].nonce == 11);
    CHECK(star.application.holds.size() == 1);
    CHECK(star.application.holds[0].second == "3");
    CHECK(star.node.face_counters(0).holds_out == 1);
}

TEST_CASE("a later request for a held name receives a Hold at once and is not forwarded") {
    Star star;
    star.receive_interest(0, kSegment, 10);
    star.receive(kUpstream, star.hold(kSegment, 10, "3"));
    star.sent_everywhere();
    star.now += 200ms;
    star.receive_interest(1, kSegment, 11);
    const auto answers = star.sent(1);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].kind == Sent::Kind::kHold);
    CHECK(star.sent(kUpstream).empty());
}

TEST_CASE("a refreshed Interest gets a new Hold only after a new Hold from upstream") {
    Star star;
    star.receive_interest(0, kSegment, 10, {.lifetime = 2s});
    star.receive_interest(1, kSegment, 11, {.lifetime = 2s});
    star.receive(kUpstream, star.hold(kSegment, 10, "3"));
    star.sent_everywhere();
    star.now += 1s;
    star.receive_interest(0, kSegment, 20);
    CHECK(star.sent(kUpstream).size() == 1);
    CHECK(star.sent(0).empty());
    star.receive(kUpstream, star.hold(kSegment, 20, "3"));
    CHECK(star.sent(0).size() == 1);
    CHECK(star.sent(1).empty());
}

TEST_CASE("requesters receive a new Hold when the late rank changes, one in 50 ms") {
    Star star;
    star.receive_interest(0, kSegment, 10);
    star.receive(kUpstream, star.hold(kSegment, 10, "3"));
    star.now += 49ms;
    star.receive(kUpstream, star.hold(kSegment, 10, "5"));
    star.receive(kUpstream, star.hold(kSegment, 10, "7"));
    CHECK(star.sent(0).size() == 1);
    star.now += 2ms;
    star.node.on_timer(star.now);
    auto holds = star.sent(0);
    REQUIRE(holds.size() == 1);
    CHECK(holds[0].missing == "7");

    star.receive(kUpstream, star.hold(kSegment, 10, "8"));
    CHECK(star.sent(0).empty());
    star.receive_interest(0, kSegment, 20);
    star.receive(kUpstream, star.hold(kSegment, 20, "8"));
    holds = star.sent(0);
    REQUIRE(holds.size() == 1);
    CHECK(holds[0].missing == "8");
}

TEST_CASE("a Hold from a face without a request is ignored") {
    Star star;
    star.receive_interest(0, kSegment, 10);
    star.receive(5, star.hold(kSegment, 10, "3"));
    CHECK(star.sent(0).empty());
}

TEST_CASE("a label reaches requesters unchanged; a Hold with another encoding is malformed") {
    Star star;
    star.receive_interest(0, kSegment, 10);
    const std::string longest(wire::kMaxLabelSize, 'h');
    star.receive(kUpstream, star.hold(kSegment, 10, longest));
    const auto holds = star.sent(0);
    REQUIRE(holds.size() == 1);
    CHECK(holds[0].missing == longest);
    const std::string none[] = {"", longest + "h", "\xff", "\x1b[2J", "3\n"};
    for (const std::string& label : none) {
        star.receive(kUpstream, star.hold(kSegment, 10, label));
    }
    CHECK(star.sent(0).empty());
    CHECK(star.node.face_counters(kUpstream).malformed_in == std::size(none));
}

TEST_CASE("a request for unpublished Data is held, then answered") {
    Star star;
    Production late;
    late.kind = Production::Kind::kPending;
    late.missing = bytes("3");
    star.application.productions[kSegment] = late;
    star.receive_interest(0, kSegment, 10);
    star.node.express(RequesterId::kReducer, name(kSegment).view(), {}, 1s);
    star.node.run_pending(star.now);
    CHECK(star.sent(0).empty());
    star.now += 2ms;
    star.node.on_timer(star.now);
    const auto holds = star.sent(0);
    REQUIRE(holds.size() == 1);
    CHECK(holds[0].kind == Sent::Kind::kHold);
    CHECK(star.sent(kUpstream).empty());

    star.node.put_data(RequesterId::kApplication, star.data(kSegment), false);
    star.node.run_pending(star.now);
    const auto answers = star.sent(0);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].kind == Sent::Kind::kData);
    CHECK(star.node.counters().pit_entries == 0);
}

TEST_CASE("a request that is answered within a millisecond gets no Hold") {
    Star star;
    star.application.productions[kSegment] = {Production::Kind::kPending, {}, bytes("3")};
    star.receive_interest(0, kSegment, 10);
    CHECK(star.node.next_deadline() <= star.now + 2ms);
    star.node.put_data(RequesterId::kApplication, star.data(kSegment), false);
    star.node.run_pending(star.now);
    star.now += 2ms;
    star.node.on_timer(star.now);
    const auto answers = star.sent(0);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].kind == Sent::Kind::kData);
    CHECK(star.node.face_counters(0).holds_out == 0);
}

TEST_CASE("with long timers, a request is held later, but before it is repeated") {
    forwarding::NodeOptions options = SwitchUnderTest::default_options();
    options.reducer.min_rto = 250ms;
    Star star(options);
    star.application.productions[kSegment] = {Production::Kind::kPending, {}, bytes("3")};
    star.receive_interest(0, kSegment, 10);
    star.wait(50ms);
    CHECK(star.sent(0).empty());
    star.wait(2ms);
    CHECK(star.sent(0).size() == 1);
}

TEST_CASE("a repeated request for unpublished Data is held at once, not by the timer") {
    Star star;
    star.application.productions[kSegment] = {Production::Kind::kPending, {}, bytes("3")};
    star.receive_interest(0, kSegment, 10);
    star.receive_interest(0, kSegment, 11);
    const auto holds = star.sent(0);
    REQUIRE(holds.size() == 1);
    CHECK(holds[0].nonce == 11);
    star.now += 2ms;
    star.node.on_timer(star.now);
    CHECK(star.sent(0).empty());
}

TEST_CASE("a retransmission is answered as soon as the application has the Data") {
    Star star;
    Production production;
    production.kind = Production::Kind::kPending;
    production.missing = bytes("3");
    star.application.productions[kSegment] = production;
    star.receive_interest(0, kSegment, 10);
    star.sent_everywhere();
    production.kind = Production::Kind::kData;
    production.data = star.data(kSegment);
    star.application.productions[kSegment] = production;
    star.receive_interest(0, kSegment, 11);
    CHECK(star.sent(0).size() == 1);
    CHECK(star.node.counters().pit_entries == 0);
    star.application.productions.clear();
}

TEST_CASE("the application signs for the network only") {
    Star star;
    Production production;
    production.kind = Production::Kind::kData;
    production.data = star.data(kSegment);
    star.application.productions[kSegment] = production;
    star.receive_interest(0, kSegment, 1);
    star.node.express(RequesterId::kReducer, name(kSegment).view(), {}, 1s);
    star.node.run_pending(star.now);
    CHECK(star.application.asked_for_network == std::vector<bool>{true, false});
    CHECK(star.sent(0).size() == 1);
    CHECK(star.node.counters().cache_entries == 0);
    CHECK(star.node.counters().pit_entries == 0);
}

TEST_CASE("a Nack from the only upstream reaches every requester with its own nonce") {
    Star star;
    star.receive_interest(0, kSegment, 10);
    star.receive_interest(1, kSegment, 11, {.token = "one"});
    star.node.express(RequesterId::kApplication, name(kSegment).view(), {}, 1s);
    star.node.run_pending(star.now);
    star.receive(kUpstream, star.nack(kSegment, 10, wire::NackReason::kNoSlot));
    CHECK(star.sent(0)[0].nonce == 10);
    const auto second = star.sent(1);
    REQUIRE(second.size() == 1);
    CHECK(second[0].nonce == 11);
    CHECK(second[0].token == "one");
    CHECK(second[0].reason == wire::NackReason::kNoSlot);
    REQUIRE(star.application.nacks.size() == 1);
    CHECK(star.application.nacks[0].second == wire::NackReason::kNoSlot);
    CHECK(star.node.counters().pit_entries == 0);
}

TEST_CASE("a Nack of an earlier transmission does not end the request") {
    Star star;
    star.receive_interest(0, kSegment, 10);
    star.now += 5ms;
    star.receive_interest(0, kSegment, 20);
    star.receive(kUpstream, star.nack(kSegment, 10, wire::NackReason::kNoRoute));
    CHECK(star.sent(0).empty());
    star.receive(kUpstream, star.nack(kSegment, 20, wire::NackReason::kNoRoute));
    CHECK(star.sent(0).size() == 1);
}

TEST_CASE("a Nack from a face without a request does not end the request") {
    Star star;
    star.receive_interest(0, kSegment, 10);
    star.receive(5, star.nack(kSegment, 10, wire::NackReason::kNoRoute));
    CHECK(star.sent(0).empty());
    CHECK(star.node.counters().pit_entries == 1);
}

TEST_CASE(
    "after NoRoute the next way is tried, with a new nonce; the least severe reason is passed on") {
    Star star;
    star.node.add_route(name("/train1/g0"), kOtherUpstream, 2);
    star.receive_interest(0, kSegment, 10);
    star.receive(kUpstream, star.nack(kSegment, 10, wire::NackReason::kNoRoute));
    CHECK(star.sent(0).empty());
    const auto other = star.sent(kOtherUpstream);
    REQUIRE(other.size() == 1);
    CHECK(other[0].nonce != 10);
    star.receive(kOtherUpstream,
                 star.nack(kSegment, other[0].nonce, wire::NackReason::kCongestion));
    const auto answers = star.sent(0);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].reason == wire::NackReason::kCongestion);
    CHECK(answers[0].nonce == 10);
}

TEST_CASE("requests sent through a face that closes are retried elsewhere or nacked") {
    Star star;
    star.node.add_route(name("/train1/g0/3"), 5, 1);
    star.node.add_route(name("/train1/g0/3"), 6, 2);
    star.receive_interest(0, "/train1/g0/3/x", 10);
    star.receive_interest(0, kSegment, 11);
    star.node.close_face(5, star.now);
    CHECK(star.sent(6).size() == 1);
    star.node.close_face(kUpstream, star.now);
    const auto answers = star.sent(0);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].name == kSegment);
    CHECK(answers[0].reason == wire::NackReason::kNoRoute);
    CHECK(star.node.routes().size() == 1);
}

TEST_CASE("requests to an unreachable face are nacked; a peer that returns is used again") {
    Star star;
    star.receive_interest(0, kSegment, 10);
    star.sent_everywhere();
    star.node.on_peer_gone(kUpstream, star.now);
    const auto answers = star.sent(0);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].reason == wire::NackReason::kNoRoute);
    star.receive_interest(0, kSegment, 11);
    CHECK(star.sent(kUpstream).size() == 1);
    star.receive(kUpstream, star.data(kSegment));
    CHECK(star.sent(0).size() == 1);
}

TEST_CASE("a closed face neither sends nor receives") {
    Star star;
    star.receive_interest(0, kSegment, 10);
    star.receive_interest(1, kSegment, 11);
    star.node.close_face(0, star.now);
    star.receive(kUpstream, star.data(kSegment));
    CHECK(star.sent(0).empty());
    CHECK(star.sent(1).size() == 1);
    star.receive_interest(0, kSegment, 12);
    CHECK(star.sent(0).empty());
}

TEST_CASE("a cancelled request leaves the table unless it has other requesters") {
    Star star;
    star.node.express(RequesterId::kApplication, name(kSegment).view(), {}, 1s);
    star.node.run_pending(star.now);
    star.receive_interest(0, kSegment, 1);
    star.node.cancel(RequesterId::kApplication, name(kSegment).view());
    star.node.run_pending(star.now);
    CHECK(star.node.counters().pit_entries == 1);
    star.receive(kUpstream, star.data(kSegment));
    CHECK(star.application.received.empty());
    CHECK(star.sent(0).size() == 1);

    const auto other = name("/train1/g0/x");
    star.node.express(RequesterId::kApplication, other.view(), {}, 1s);
    star.node.cancel(RequesterId::kApplication, other.view());
    star.node.run_pending(star.now);
    CHECK(star.node.counters().pit_entries == 0);
}

TEST_CASE("an application's request in a callback runs after the packet") {
    Star star;
    star.application.when_received = [&] {
        star.node.express(RequesterId::kApplication, name("/train1/g0/next").view(), {}, 1s);
    };
    star.node.express(RequesterId::kApplication, name(kSegment).view(), {}, 1s);
    star.node.run_pending(star.now);
    star.sent(kUpstream);
    star.receive(kUpstream, star.data(kSegment));
    const auto upstream = star.sent(kUpstream);
    REQUIRE(upstream.size() == 1);
    CHECK(upstream[0].name == "/train1/g0/next");
}

TEST_CASE("a chain of requests that answer each other gives the driver its turn") {
    Star star;
    Production production;
    production.kind = Production::Kind::kData;
    production.data = star.data(kSegment);
    star.application.productions[kSegment] = production;
    star.application.when_received = [&] {
        star.node.express(RequesterId::kApplication, name(kSegment).view(), {}, 1s);
    };
    star.node.express(RequesterId::kApplication, name(kSegment).view(), {}, 1s);
    star.node.run_pending(star.now);
    CHECK(star.application.received.size() > 1);
    CHECK(star.node.next_deadline() <= star.now);
}
