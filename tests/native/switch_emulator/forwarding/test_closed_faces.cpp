// What a face leaves behind when it is closed: nothing.

#include <doctest/doctest.h>

#include "switch_under_test.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;

namespace {

constexpr FaceId kLeaving = 1;
constexpr FaceId kStaying = 2;
constexpr FaceId kProducer = 3;
constexpr FaceId kOtherWay = 4;
constexpr std::uint32_t kMany = 10'000;

forwarding::NodeOptions with_large_pit() {
    auto options = SwitchUnderTest::default_options();
    options.pit_capacity = 1 << 17;
    options.cache_bytes = 0;
    return options;
}

struct LargeTable : SwitchUnderTest {
    LargeTable() : SwitchUnderTest(5, with_large_pit()) {
        node.add_route(name("/p"), kProducer, 0);
        for (std::uint32_t i = 0; i < kMany; ++i) {
            ask(kLeaving, "/p/own/", i);
            ask(kStaying, "/p/others/", i);
            ask(kLeaving, "/p/both/", i);
            ask(kStaying, "/p/both/", i);
        }
        sent_everywhere();
    }
    void ask(FaceId face, std::string_view prefix, std::uint32_t i) {
        receive_interest(face, std::string(prefix) + std::to_string(i), ++nonce, {.lifetime = 60s});
    }
    void check_tables() {
        AuditReport report;
        node.audit(report);
        CHECK(report.complaints().empty());
    }
    std::uint32_t nonce = 0;
};

}  // namespace

TEST_CASE("a closed face's requests leave a large table, and no others") {
    LargeTable test;
    CHECK(test.node.counters().pit_entries == 3 * kMany);
    test.node.close_face(kLeaving, test.now);
    CHECK(test.node.counters().pit_entries == 2 * kMany);
    test.check_tables();
    REQUIRE(test.node.add_face() == kLeaving);
    test.receive(kProducer, test.data("/p/both/7"));
    CHECK(test.sent(kLeaving).empty());
    CHECK(test.sent(kStaying).size() == 1);
    test.node.close_face(kStaying, test.now);
    CHECK(test.node.counters().pit_entries == 0);
    test.check_tables();
}

TEST_CASE("requests to a closed face in a large table are retried elsewhere or nacked") {
    LargeTable test;
    test.node.add_route(name("/p/others"), kOtherWay, 1);
    test.node.close_face(kProducer, test.now);
    CHECK(test.sent(kLeaving).size() == 2 * kMany);
    CHECK(test.sent(kStaying).size() == kMany);
    CHECK(test.sent(kOtherWay).size() == kMany);
    CHECK(test.node.counters().pit_entries == kMany);
    test.check_tables();
    test.node.close_face(kOtherWay, test.now);
    CHECK(test.node.counters().pit_entries == 0);
    CHECK(test.node.routes().empty());
    CHECK(test.pool.bytes_in_use() > 0);  // what is to be sent
    test.sent_everywhere();
    CHECK(test.pool.bytes_in_use() == 0);
    test.check_tables();
}

TEST_CASE("an expired requester has no reverse path while another is pending") {
    constexpr auto kTrigger = "/p/59=0123456789abcdef";
    SwitchUnderTest test;
    test.node.add_route(name("/p"), kProducer, 0);
    test.receive_interest(kLeaving, kTrigger, 1);
    test.receive_interest(kStaying, kTrigger, 2);
    CHECK(test.node.counters().reflexive_routes == 1);
    // The hop limit of its repetition ends the first one's waiting.
    PacketRef packet = test.pool.allocate(1024);
    const wire::Name trigger = name(kTrigger);
    wire::InterestFields limited;
    limited.name = trigger.view();
    limited.nonce = 3;
    limited.hop_limit = 1;
    packet.truncate(wire::encode_interest(limited, packet.writable()));
    test.now += 100ms;
    test.receive(kLeaving, packet);
    CHECK(test.node.counters().hop_limit_exceeded == 1);
    CHECK(test.node.counters().reflexive_routes == 0);
    test.node.close_face(kLeaving, test.now);
    REQUIRE(test.node.add_face() == kLeaving);
    test.receive_interest(kProducer, "/59=0123456789abcdef/args/seg=0", 9);
    CHECK(test.sent(kLeaving).empty());
}

TEST_CASE("a closed face's requests to the application are dropped") {
    SwitchUnderTest test;
    for (const auto* late : {"/h/own", "/h/both"}) {
        test.application.productions[late] = {Production::Kind::kPending, {}, {}};
    }
    test.node.add_route(name("/p"), kProducer, 0);
    test.receive_interest(kLeaving, "/h/own", 1);
    test.receive_interest(kLeaving, "/h/both", 2);
    test.receive_interest(kStaying, "/h/both", 3, {.must_be_fresh = true});
    test.receive_interest(kLeaving, "/p/elsewhere", 4);
    test.node.close_face(kLeaving, test.now);
    CHECK(test.application.forgotten == std::vector<std::string>{"/h/own"});
    test.node.close_face(kStaying, test.now);
    CHECK(test.application.forgotten == std::vector<std::string>{"/h/own", "/h/both"});
}
