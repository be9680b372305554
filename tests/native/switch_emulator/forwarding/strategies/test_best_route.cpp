// NFD's best-route: retransmissions go to next hops that were not used yet.

#include <doctest/doctest.h>

#include "../switch_under_test.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;

namespace {

/// Three ways to /a, cheapest first: faces 1, 2 and 3. Requesters at 0 and 4.
struct ThreeWays : SwitchUnderTest {
    ThreeWays() {
        for (FaceId face = 1; face <= 3; ++face) node.add_route(name("/a"), face, face);
    }

    void retransmit(std::uint32_t nonce, FaceId requester = 0) {
        wait(300ms);
        receive_interest(requester, "/a/x", nonce, {.lifetime = 10s});
    }

    /// The face to which an Interest went; kNoFace for none.
    FaceId next_hop() {
        FaceId found = kNoFace;
        for (FaceId face = 1; face <= 3; ++face) {
            const std::size_t interests = sent(face).size();
            if (interests == 0) continue;
            CHECK(found == kNoFace);
            CHECK(interests == 1);
            found = face;
        }
        return found;
    }
};

}  // namespace

TEST_CASE("a retransmission goes to the cheapest unused next hop, then to the first used again") {
    ThreeWays test;
    std::uint32_t nonce = 1;
    test.receive_interest(0, "/a/x", nonce++, {.lifetime = 10s});
    CHECK(test.next_hop() == 1);
    for (const int expected : {2, 3, 1, 2, 3, 1}) {
        test.retransmit(nonce++);
        CHECK(test.next_hop() == expected);
    }
}

TEST_CASE("another requester's Interest counts as a retransmission") {
    ThreeWays test;
    test.receive_interest(0, "/a/x", 1, {.lifetime = 10s});
    CHECK(test.next_hop() == 1);
    test.retransmit(2, 4);
    CHECK(test.next_hop() == 2);
}

TEST_CASE("an Interest within the suppression interval goes nowhere") {
    ThreeWays test;
    test.receive_interest(0, "/a/x", 1, {.lifetime = 10s});
    CHECK(test.next_hop() == 1);
    test.receive_interest(4, "/a/x", 2, {.lifetime = 10s});
    CHECK(test.next_hop() == kNoFace);
}

TEST_CASE("a next hop that refused, or that the requester is behind, is not used") {
    ThreeWays test;
    test.receive_interest(0, "/a/x", 1, {.lifetime = 10s});
    CHECK(test.next_hop() == 1);
    test.receive(1, test.nack("/a/x", 1, wire::NackReason::kNoRoute));
    CHECK(test.next_hop() == 2);
    test.retransmit(2, 3);
    CHECK(test.next_hop() == 2);
}

TEST_CASE("a next hop whose answer is late is asked again, and no other") {
    ThreeWays test;
    test.receive_interest(0, "/a/x", 1, {.lifetime = 10s});
    CHECK(test.next_hop() == 1);
    test.receive(1, test.hold("/a/x", 1, "rank 3"));
    test.wait(5s);
    test.receive_interest(0, "/a/x", 2, {.lifetime = 10s});
    CHECK(test.next_hop() == 1);
}

TEST_CASE("the answer of the second next hop satisfies the requester after the first was silent") {
    ThreeWays test;
    test.receive_interest(0, "/a/x", 1, {.lifetime = 10s});
    test.retransmit(2);
    test.receive(2, test.data("/a/x", "from two"));
    const auto answers = test.sent(0);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].content == "from two");
}

TEST_CASE("a new Interest for the name begins with the cheapest next hop again") {
    ThreeWays test;
    test.receive_interest(0, "/a/x", 1, {.lifetime = 100ms});
    CHECK(test.next_hop() == 1);
    test.wait(2s);
    test.receive_interest(0, "/a/x", 2, {.lifetime = 10s});
    CHECK(test.next_hop() == 1);
}

TEST_CASE("an Interest that names another node begins with the cheapest next hop") {
    ThreeWays test;
    test.node.add_route(name("/n/s1"), 2, 1);
    test.node.add_route(name("/n/s1"), 3, 2);
    test.node.add_route(name("/n/s2"), 2, 1);
    test.node.add_route(name("/n/s2"), 3, 2);
    test.receive_interest(0, "/a/x", 1, {.hint = "/n/s1", .lifetime = 10s});
    CHECK(test.next_hop() == 2);
    test.receive_interest(4, "/a/x", 2, {.hint = "/n/s2", .lifetime = 10s});
    CHECK(test.next_hop() == 2);
}
