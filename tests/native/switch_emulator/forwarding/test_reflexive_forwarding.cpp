// Interests that go back where a pending one came from.

#include <doctest/doctest.h>

#include "switch_emulator/tables/reflexive_routes.hpp"
#include "switch_under_test.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;

namespace {

constexpr FaceId kConsumer = 0;
constexpr FaceId kProducer = 1;
constexpr FaceId kStranger = 2;
constexpr auto kTrigger = "/f/59=0123456789abcdef";
constexpr auto kParameters = "/59=0123456789abcdef/args/seg=0";

struct Reflexive : SwitchUnderTest {
    Reflexive() { node.add_route(name("/f"), kProducer, 1); }

    void trigger(std::string_view uri = kTrigger, Duration lifetime = 1s) {
        receive_interest(kConsumer, uri, ++nonce, {.lifetime = lifetime});
        sent(kProducer);
    }
    std::vector<Sent> ask(FaceId from, std::string_view uri = kParameters,
                          Duration lifetime = 100ms) {
        receive_interest(from, uri, ++nonce, {.lifetime = lifetime});
        return sent(kConsumer);
    }
    /// What `face` is told; it must be a refusal.
    wire::NackReason refusal(FaceId face) {
        const auto packets = sent(face);
        REQUIRE(packets.size() == 1);
        REQUIRE(packets[0].kind == Sent::Kind::kNack);
        return packets[0].reason;
    }
    std::uint32_t nonce = 0;
};

}  // namespace

TEST_CASE("a producer can send reflexive Interests while the request is pending") {
    Reflexive test;
    test.trigger();
    CHECK(test.node.counters().reflexive_routes == 1);
    const auto asked = test.ask(kProducer);
    REQUIRE(asked.size() == 1);
    CHECK(asked[0].name == kParameters);
    test.receive(kConsumer, test.data(kParameters, "three"));
    const auto parameters = test.sent(kProducer);
    REQUIRE(parameters.size() == 1);
    CHECK(parameters[0].content == "three");
    CHECK(test.node.counters().cache_entries == 0);  // of this exchange alone

    test.receive(kProducer, test.data(kTrigger, "six"));
    CHECK(test.sent(kConsumer).size() == 1);
    CHECK(test.node.counters().reflexive_routes == 0);
    CHECK(test.ask(kProducer).empty());
    CHECK(test.refusal(kProducer) == wire::NackReason::kNoRoute);
    CHECK(test.node.counters().reflexive_refused == 1);
    CHECK(test.node.counters().reflexive_interests == 1);
}

TEST_CASE("other faces cannot send reflexive Interests") {
    Reflexive test;
    test.trigger();
    CHECK(test.ask(kStranger).empty());
    CHECK(test.refusal(kStranger) == wire::NackReason::kNoRoute);
    CHECK(test.ask(kProducer, "/59=0123456789abcdee/args").empty());
    CHECK(test.refusal(kProducer) == wire::NackReason::kNoRoute);
    CHECK(test.node.counters().reflexive_refused == 2);
}

TEST_CASE("a reflexive name reaches its consumer only, and no route leads there") {
    Reflexive test;
    test.node.add_route(wire::Name(), kStranger, 1);
    CHECK(test.ask(kProducer).empty());
    CHECK(test.sent(kStranger).empty());
    test.sent(kProducer);
    test.trigger();
    CHECK(test.ask(kProducer).size() == 1);
    CHECK(test.sent(kStranger).empty());
    test.receive_interest(kProducer, "/g", 99);
    CHECK(test.sent(kConsumer).empty());
    CHECK(test.sent(kStranger).size() == 1);
}

TEST_CASE("the reflexive path ends with its pending Interest") {
    Reflexive test;
    SUBCASE("time") {
        test.trigger();
        test.wait(1100ms);
    }
    SUBCASE("a refusal") {
        test.trigger();
        test.receive(kProducer, test.nack(kTrigger, test.nonce, wire::NackReason::kCongestion));
    }
    SUBCASE("the consumer's face is closed") {
        test.trigger();
        test.node.close_face(kConsumer, test.now);
    }
    CHECK(test.node.counters().reflexive_routes == 0);
    test.sent(kConsumer);
    CHECK(test.ask(kProducer).empty());
}

TEST_CASE("a pending Interest outlives its reflexive Interest by half of its lifetime") {
    Reflexive test;
    test.trigger(kTrigger, 200ms);
    test.now += 150ms;
    CHECK(test.ask(kProducer, kParameters, 400ms).size() == 1);
    test.wait(550ms);
    CHECK(test.node.counters().reflexive_routes == 1);
    test.receive(kProducer, test.data(kTrigger, "six"));
    CHECK(test.sent(kConsumer).back().content == "six");
    test.trigger("/f/59=0000000000000000", 200ms);
    test.wait(700ms);
    CHECK(test.node.counters().reflexive_routes == 0);
}

TEST_CASE("a consumer that disables reflexive Interests receives none") {
    Reflexive test;
    test.trigger();
    const auto asked = test.ask(kProducer);
    REQUIRE(asked.size() == 1);
    test.receive(kConsumer, test.nack(kParameters, asked[0].nonce, wire::NackReason::kForbidden));
    CHECK(test.refusal(kProducer) == wire::NackReason::kForbidden);
    CHECK(test.ask(kProducer, "/59=0123456789abcdef/args/seg=1").empty());
    CHECK(test.node.counters().pit_entries == 1);  // the call itself goes on
}

TEST_CASE("a name in use leads to its first owner") {
    Reflexive test;
    test.trigger();
    test.receive_interest(kStranger, "/f/g/59=0123456789abcdef", 50);
    CHECK(test.refusal(kStranger) == wire::NackReason::kDuplicate);
    CHECK(test.ask(kProducer).size() == 1);
    // A repetition is the same call.
    test.receive_interest(kConsumer, kTrigger, 51);
    CHECK(test.node.counters().reflexive_routes == 1);
}

TEST_CASE("a guessable short reflexive name is not routed") {
    Reflexive test;
    test.receive_interest(kConsumer, "/f/59=1234567", 1);
    CHECK(test.sent(kProducer).size() == 1);
    CHECK(test.node.counters().reflexive_routes == 0);
}

TEST_CASE("one face cannot use more than its share of reverse paths") {
    auto options = SwitchUnderTest::default_options();
    options.pit_capacity = 65536;
    SwitchUnderTest large(3, options);
    large.node.add_route(name("/f"), kProducer, 1);
    for (std::uint32_t i = 0; i < tables::ReflexiveRoutes::kMaxPerFace; ++i) {
        large.receive_interest(kConsumer, "/f/59=call" + std::to_string(10000 + i), i + 1);
    }
    CHECK(large.sent(kConsumer).empty());
    large.receive_interest(kConsumer, "/f/59=one-too-many", 9999);
    const auto refused = large.sent(kConsumer);
    REQUIRE(refused.size() == 1);
    CHECK(refused[0].reason == wire::NackReason::kCongestion);
    CHECK(large.node.counters().reflexive_full == 1);
    large.receive_interest(kStranger, "/f/59=another-face", 9999);
    CHECK(large.sent(kStranger).empty());
    CHECK(large.node.counters().reflexive_routes == tables::ReflexiveRoutes::kMaxPerFace + 1);
}

TEST_CASE(
    "the way back ends with its requester's waiting, though this node's application still waits") {
    Reflexive test;
    test.trigger();
    test.node.express(RequesterId::kApplication, name(kTrigger).view(), {}, 1s);
    test.node.run_pending(test.now);
    test.receive(kProducer, test.foreign_data(kTrigger));  // for the network alone
    CHECK(test.sent(kConsumer).size() == 1);
    CHECK(test.application.received.empty());
    // The request, and its repetition past caches.
    CHECK(test.node.counters().pit_entries == 2);
    CHECK(test.node.counters().reflexive_routes == 0);
    CHECK(test.ask(kProducer).empty());
}
