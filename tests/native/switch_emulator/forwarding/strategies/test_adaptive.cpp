// The strategy that measures: asf.

#include <doctest/doctest.h>

#include "../switch_under_test.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;

namespace {

/// Two ways to /a: face 1 is cheaper.
struct TwoWays : SwitchUnderTest {
    explicit TwoWays(const std::string& parameters = "") {
        node.add_route(name("/a"), 1, 1);
        node.add_route(name("/a"), 2, 2);
        REQUIRE(node.set_strategy(name("/a"), name("/localhost/nfd/strategy/asf" + parameters)));
    }

    std::string next_name() { return "/a/" + std::to_string(++names); }

    /// Asks for something new, which each face that is asked answers after its time, if it does.
    /// The faces asked.
    std::vector<FaceId> ask(std::map<FaceId, Duration> times) {
        const std::string uri = next_name();
        receive_interest(0, uri, static_cast<std::uint32_t>(names), {.lifetime = 1s});
        std::vector<FaceId> asked;
        std::multimap<Duration, FaceId> answers;
        for (const FaceId face : {FaceId{1}, FaceId{2}}) {
            if (sent(face).empty()) continue;
            asked.push_back(face);
            if (times.contains(face)) answers.emplace(times[face], face);
        }
        const TimePoint start = now;
        for (const auto& [time, face] : answers) {
            now = start + time;
            receive(face, data(uri));
        }
        if (answers.empty()) wait(1500ms);
        sent(0);
        return asked;
    }

    int names = 0;
};

}  // namespace

TEST_CASE("the faster next hop is found by a probe, and preferred from then on") {
    TwoWays test;
    const std::map<FaceId, Duration> times{{1, 50ms}, {2, 5ms}};
    CHECK(test.ask(times) == std::vector<FaceId>{1});
    std::size_t probes = 0;
    while (probes == 0 && test.names < 100) probes += test.ask(times).size() - 1;
    REQUIRE(probes == 1);
    CHECK(test.node.counters().strategy_probes == 1);
    const auto after = test.ask(times);
    CHECK(after == std::vector<FaceId>{2});
}

TEST_CASE("a probe has its own nonce and is sent once per interval") {
    TwoWays test("/v=5/probing-interval~200");
    const std::map<FaceId, Duration> times{{1, 1ms}};
    test.ask(times);
    for (int round = 1; round <= 4; ++round) {
        test.now += 200ms;
        const std::string uri = test.next_name();
        test.receive_interest(0, uri, 77);
        const auto first = test.sent(1);
        const auto second = test.sent(2);
        REQUIRE(first.size() + second.size() == 2);
        CHECK(first[0].nonce == 77);
        CHECK(second[0].nonce != 77);
        test.receive(1, test.data(uri));
        CHECK(test.node.counters().strategy_probes == static_cast<std::uint64_t>(round));
        CHECK(test.ask(times) == std::vector<FaceId>{1});
    }
}

TEST_CASE(
    "a next hop that falls silent is left after three timeouts, and taken again when it answers") {
    TwoWays test;
    CHECK(test.ask({{1, 5ms}, {2, 50ms}}).front() == 1);
    int asked_in_vain = 0;
    while (asked_in_vain < 10 && test.ask({{2, 50ms}}).front() == 1) ++asked_in_vain;
    CHECK(asked_in_vain >= 3);
    CHECK(asked_in_vain < 10);
    // Probed while it answers again: faster, and so preferred.
    bool back = false;
    for (int i = 0; i < 200 && !back; ++i) {
        back = test.ask({{1, 5ms}, {2, 50ms}}) == std::vector<FaceId>{1};
    }
    CHECK(back);
}

TEST_CASE("a retransmitted Interest uses another next hop") {
    TwoWays test;
    test.receive_interest(0, "/a/x", 1, {.lifetime = 4s});
    CHECK(test.sent(1).size() == 1);
    test.now += 60ms;
    test.receive_interest(0, "/a/x", 2, {.lifetime = 4s});
    CHECK(test.sent(1).empty());
    CHECK(test.sent(2).size() == 1);
}

TEST_CASE("a refusal counts like a timeout, except for a duplicate") {
    TwoWays test;
    test.ask({{1, 5ms}});
    const auto refuse = [&](wire::NackReason reason) {
        const std::string uri = test.next_name();
        test.receive_interest(0, uri, 500 + static_cast<std::uint32_t>(test.names));
        const auto asked = test.sent(1);
        if (asked.empty()) return false;
        test.receive(1, test.nack(uri, asked[0].nonce, reason));
        test.now += 300ms;
        test.receive(2, test.data(uri));
        test.sent_everywhere();
        return true;
    };
    for (int i = 0; i < 5; ++i) CHECK(refuse(wire::NackReason::kDuplicate));
    test.ask({{1, 5ms}, {2, 500ms}});
    int refusals = 0;
    while (refusals < 10 && refuse(wire::NackReason::kCongestion)) ++refusals;
    CHECK(refusals <= 3);
}

TEST_CASE("prefixes of the FIB are measured separately") {
    TwoWays test;
    test.node.add_route(name("/a/near"), 1, 1);
    test.node.add_route(name("/a/near"), 2, 2);
    // Silent for /a alone.
    for (int i = 0; i < 4; ++i) test.ask({{2, 5ms}});
    CHECK(test.ask({{2, 5ms}}).front() == 2);
    test.receive_interest(0, "/a/near/x", 9000);
    CHECK(test.sent(1).size() == 1);
    CHECK(test.sent(2).empty());
}
