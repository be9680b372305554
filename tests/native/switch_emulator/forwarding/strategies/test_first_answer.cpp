// Strategies that ask several next hops at once: multicast and clone.

#include <doctest/doctest.h>

#include "../switch_under_test.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;

namespace {

/// Three ways to /a, cheapest first: faces 1, 2 and 3.
struct ThreeWays : SwitchUnderTest {
    explicit ThreeWays(const std::string& strategy) {
        for (FaceId face = 1; face <= 3; ++face) node.add_route(name("/a"), face, face);
        REQUIRE(node.set_strategy(name("/a"), name("/localhost/nfd/strategy/" + strategy)));
    }
};

}  // namespace

TEST_CASE("multicast sends to every face but the requester's") {
    ThreeWays test("multicast");
    test.receive_interest(2, "/a/x", 7);
    const auto first = test.sent(1);
    const auto last = test.sent(3);
    REQUIRE(first.size() == 1);
    REQUIRE(last.size() == 1);
    CHECK(first[0].nonce == 7);
    CHECK(last[0].nonce == 7);  // copies that meet are one Interest
    CHECK(test.sent(2).empty());
    CHECK(test.node.counters().strategy_copies == 1);
}

TEST_CASE("clone sends to the two cheapest, and the first answer serves every requester") {
    ThreeWays test("clone");
    test.receive_interest(0, "/a/x", 7);
    CHECK(test.sent(1).size() == 1);
    CHECK(test.sent(2).size() == 1);
    CHECK(test.sent(3).empty());
    test.receive(2, test.data("/a/x", "from two"));
    const auto answers = test.sent(0);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].content == "from two");
    test.receive(1, test.data("/a/x", "from one"));
    CHECK(test.sent(0).empty());
    CHECK(test.node.counters().unsolicited_data == 1);
}

TEST_CASE("with two upstreams, one Nack is ignored and two end the request") {
    ThreeWays test("clone");
    test.receive_interest(0, "/a/x", 7);
    test.sent_everywhere();
    test.receive(1, test.nack("/a/x", 7, wire::NackReason::kCongestion));
    CHECK(test.sent_everywhere() == 0);
    test.receive(2, test.nack("/a/x", 7, wire::NackReason::kNoRoute));
    const auto third = test.sent(3);
    REQUIRE(third.size() == 1);
    CHECK(third[0].nonce != 7);
    test.receive(3, test.nack("/a/x", third[0].nonce, wire::NackReason::kNoRoute));
    const auto refusal = test.sent(0);
    REQUIRE(refusal.size() == 1);
    CHECK(refusal[0].reason == wire::NackReason::kCongestion);
}

TEST_CASE("clone with one next hop left uses it") {
    ThreeWays test("clone");
    test.node.close_face(1, test.now);
    test.node.close_face(3, test.now);
    test.receive_interest(0, "/a/x", 7);
    CHECK(test.sent(2).size() == 1);
    test.node.close_face(2, test.now);
    const auto refusal = test.sent(0);
    REQUIRE(refusal.size() == 1);
    CHECK(refusal[0].kind == Sent::Kind::kNack);
}

TEST_CASE("a node asked for both copies tells the second, which waits for the first") {
    ThreeWays test("best-route");
    test.receive_interest(4, "/a/x", 7);
    test.receive_interest(5, "/a/x", 7);
    const auto second = test.sent(5);
    REQUIRE(second.size() == 1);
    CHECK(second[0].reason == wire::NackReason::kDuplicate);
    test.receive(1, test.data("/a/x"));
    CHECK(test.sent(4).size() == 1);
}

TEST_CASE("multicast sends pending Interests to a next hop that their route gets later") {
    for (const bool is_multicast : {true, false}) {
        ThreeWays test(is_multicast ? "multicast" : "clone");
        test.receive_interest(0, "/a/x", 7);
        test.receive_interest(4, "/b/x", 8);
        test.sent_everywhere();
        test.node.add_route(name("/a"), 5, 0);
        CHECK(test.sent(5).size() == (is_multicast ? 1 : 0));
        test.node.add_route(name("/a"), 5, 1);  // only its cost changes
        CHECK(test.sent(5).empty());
        test.node.add_route(name("/a"), 0, 0);  // the requester
        CHECK(test.sent(0).empty());
        test.node.add_route(name("/a/x"), 6, 0);  // a more specific route has no other next hop
        CHECK(test.sent(6).size() == (is_multicast ? 1 : 0));
        test.node.add_route(name("/"), 7, 0);  // a less specific one is not used
        CHECK(test.sent(7).empty());
    }
}

TEST_CASE("the requester is a new next hop for what another requester waits for as well") {
    ThreeWays test("multicast");
    test.receive_interest(0, "/a/x", 7);
    test.receive_interest(4, "/a/x", 8);
    test.sent_everywhere();
    test.node.add_route(name("/a"), 0, 0);
    CHECK(test.sent(0).size() == 1);
}
