// HopLimit, compared with NDN Packet Format v0.3 for each pair of faces: an Interest with 0 is
// dropped; others are decremented, and one that is then 0 goes to local faces alone.

#include <doctest/doctest.h>

#include <array>
#include <optional>
#include <string>

#include "switch_under_test.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;

namespace {

using HopLimit = std::optional<std::uint8_t>;

struct Expectation {
    bool forwarded = false;
    HopLimit sent{};
};

Expectation specified(HopLimit received, FaceScope out) {
    if (!received) return {.forwarded = true};
    if (*received == 0) return {};
    const auto left = static_cast<std::uint8_t>(*received - 1);
    if (left == 0 && out == FaceScope::kNonLocal) return {};
    return {.forwarded = true, .sent = left};
}

constexpr std::array kScopes{FaceScope::kLocal, FaceScope::kNonLocal};
constexpr std::array<HopLimit, 5> kLimits{HopLimit{}, HopLimit{0}, HopLimit{1}, HopLimit{2},
                                          HopLimit{255}};

}  // namespace

TEST_CASE("an Interest travels as far as its hop limit says, between faces of any scope") {
    for (const FaceScope in : kScopes) {
        for (const FaceScope out : kScopes) {
            for (const HopLimit limit : kLimits) {
                for (const char* strategy : {"best-route", "multicast", "asf", "clone"}) {
                    CAPTURE(static_cast<int>(in));
                    CAPTURE(static_cast<int>(out));
                    CAPTURE(limit ? std::to_string(*limit) : "none");
                    CAPTURE(strategy);
                    SwitchUnderTest test(0);
                    const FaceId from = test.node.add_face({.foreign = true, .scope = in});
                    const FaceId to = test.node.add_face({.foreign = true, .scope = out});
                    test.node.add_route(name("/a"), to, 0);
                    REQUIRE(test.node.set_strategy(
                        name("/a"), name("/localhost/nfd/strategy/" + std::string(strategy))));
                    test.receive_interest(from, "/a/x", 7, {.hop_limit = limit});
                    const Expectation expected = specified(limit, out);
                    const auto sent = test.sent(to);
                    CHECK(sent.size() == (expected.forwarded ? 1 : 0));
                    if (!sent.empty()) CHECK(sent[0].hop_limit == expected.sent);
                    CHECK(test.sent(from).empty());
                    CHECK(test.node.counters().hop_limit_exceeded == (expected.forwarded ? 0 : 1));
                    CHECK(test.node.counters().pit_entries == (expected.forwarded ? 1 : 0));
                }
            }
        }
    }
}

TEST_CASE("an Interest without hops left reaches the local one of several next hops") {
    for (const char* strategy : {"best-route", "multicast", "asf", "clone"}) {
        CAPTURE(strategy);
        SwitchUnderTest test(2);
        const FaceId program = test.node.add_face({.foreign = true, .scope = FaceScope::kLocal});
        test.node.add_route(name("/a"), 1, 0);
        test.node.add_route(name("/a"), program, 10);
        REQUIRE(test.node.set_strategy(name("/a"),
                                       name("/localhost/nfd/strategy/" + std::string(strategy))));
        test.receive_interest(0, "/a/x", 7, {.hop_limit = 1});
        CHECK(test.sent(1).empty());
        REQUIRE(test.sent(program).size() == 1);
        // It does not leave the node when the program refuses, either.
        test.receive(program, test.nack("/a/x", 7, wire::NackReason::kNoRoute));
        CHECK(test.sent(1).empty());
    }
}

TEST_CASE("a retransmission with more hops goes further than the first Interest") {
    SwitchUnderTest test(2);
    const FaceId program = test.node.add_face({.foreign = true, .scope = FaceScope::kLocal});
    test.node.add_route(name("/a"), program, 0);
    test.node.add_route(name("/a"), 1, 10);
    test.receive_interest(0, "/a/x", 1, {.lifetime = 10s, .hop_limit = 1});
    CHECK(test.sent(program).size() == 1);
    test.wait(300ms);
    test.receive_interest(0, "/a/x", 2, {.lifetime = 10s, .hop_limit = 1});
    CHECK(test.sent(1).empty());
    CHECK(test.sent(program).size() == 1);
    test.wait(300ms);
    test.receive_interest(0, "/a/x", 3, {.lifetime = 10s, .hop_limit = 5});
    CHECK(test.sent(1).size() == 1);
}

TEST_CASE("an Interest for a name without a route is refused whatever its hop limit is") {
    for (const HopLimit limit : {HopLimit{}, HopLimit{1}, HopLimit{2}}) {
        SwitchUnderTest test(2);
        test.receive_interest(0, "/nowhere", 7, {.hop_limit = limit});
        const auto answers = test.sent(0);
        REQUIRE(answers.size() == 1);
        CHECK(answers[0].kind == Sent::Kind::kNack);
        CHECK(answers[0].reason == wire::NackReason::kNoRoute);
    }
}
