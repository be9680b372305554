// Where Interests go: aggregation, loops, retransmission, expiry, routes, limits.

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "switch_under_test.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;

namespace {

constexpr FaceId kUpstream = 8;
constexpr auto kSegment = "/train1/g0/0-7/sum.f32/seq=41/seg=9";

/// Faces 0 to 7 lead to requesters, face 8 to the root.
struct Star : SwitchUnderTest {
    explicit Star(forwarding::NodeOptions options = default_options())
        : SwitchUnderTest(9, std::move(options)) {
        node.add_route(name("/train1/g0"), kUpstream, 1);
    }
    void ask_from_all(std::uint32_t first_nonce) {
        for (FaceId face = 0; face < 8; ++face) {
            receive_interest(face, kSegment, first_nonce + face);
        }
    }
};

}  // namespace

TEST_CASE("eight equal Interests are forwarded as one") {
    Star star;
    star.ask_from_all(100);
    const auto upstream = star.sent(kUpstream);
    REQUIRE(upstream.size() == 1);
    CHECK(upstream[0].name == kSegment);
    CHECK(upstream[0].nonce == 100);
    CHECK(star.node.counters().pit_aggregated == 7);
    CHECK(star.node.counters().pit_entries == 1);
}

TEST_CASE("the answer is sent to every requester once, and to no other face") {
    Star star;
    star.ask_from_all(100);
    star.sent(kUpstream);
    star.receive(kUpstream, star.data(kSegment));
    for (FaceId face = 0; face < 8; ++face) {
        const auto answers = star.sent(face);
        REQUIRE(answers.size() == 1);
        CHECK(answers[0].kind == Sent::Kind::kData);
        CHECK(answers[0].content == "value");
    }
    CHECK(star.sent(kUpstream).empty());
    CHECK(star.node.counters().pit_entries == 0);
}

TEST_CASE("an Interest that returns on another face is a loop") {
    Star star;
    star.receive_interest(0, kSegment, 7);
    star.sent(kUpstream);
    star.receive_interest(3, kSegment, 7);
    const auto answers = star.sent(3);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].kind == Sent::Kind::kNack);
    CHECK(answers[0].reason == wire::NackReason::kDuplicate);
    CHECK(star.node.counters().loops == 1);
    CHECK(star.sent(kUpstream).empty());
}

TEST_CASE("an Interest that returns after its answer is a loop") {
    auto options = SwitchUnderTest::default_options();
    options.cache_bytes = 0;
    Star star(options);
    star.receive_interest(0, kSegment, 7);
    star.receive(kUpstream, star.data(kSegment));
    star.sent_everywhere();
    star.receive_interest(3, kSegment, 7);
    REQUIRE(star.sent(3).size() == 1);
    CHECK(star.node.counters().loops == 1);
    CHECK(star.sent(kUpstream).empty());
}

TEST_CASE("a duplicated Interest is dropped without a Nack") {
    Star star;
    star.receive_interest(0, kSegment, 7);
    star.receive_interest(0, kSegment, 7);
    CHECK(star.sent(0).empty());
    CHECK(star.sent(kUpstream).size() == 1);
    star.receive(kUpstream, star.data(kSegment));
    CHECK(star.sent(0).size() == 1);
}

TEST_CASE("a requester's retransmission is sent upstream again") {
    Star star;
    star.receive_interest(0, kSegment, 1);
    star.now += 5ms;
    star.receive_interest(0, kSegment, 2);
    const auto upstream = star.sent(kUpstream);
    REQUIRE(upstream.size() == 2);
    CHECK(upstream[1].nonce == 2);
}

TEST_CASE("retransmissions of all requesters are forwarded as one, round after round") {
    Star star;
    star.ask_from_all(100);
    CHECK(star.sent(kUpstream).size() == 1);
    for (std::uint32_t round = 2; round < 6; ++round) {
        star.now += 10ms;
        star.ask_from_all(100 * round);
        CHECK(star.sent(kUpstream).size() == 1);
    }
}

TEST_CASE("a late requester's first Interest goes upstream when the last transmission is old") {
    Star star;
    star.receive_interest(0, kSegment, 1);
    star.now += 49ms;
    star.receive_interest(1, kSegment, 2);
    CHECK(star.sent(kUpstream).size() == 1);
    star.now += 1ms;
    star.receive_interest(2, kSegment, 3);
    CHECK(star.sent(kUpstream).size() == 1);
}

TEST_CASE("with long timers, a transmission is old when requesters would repeat it") {
    forwarding::NodeOptions options = SwitchUnderTest::default_options();
    options.reducer.min_rto = 260ms;
    SwitchUnderTest slow(9, options);
    slow.node.add_route(name("/train1/g0"), kUpstream, 1);
    slow.receive_interest(0, kSegment, 1);
    slow.now += 259ms;
    slow.receive_interest(1, kSegment, 2);
    CHECK(slow.sent(kUpstream).size() == 1);
    slow.now += 1ms;
    slow.receive_interest(2, kSegment, 3);
    CHECK(slow.sent(kUpstream).size() == 1);
}

TEST_CASE("an unanswered Interest leaves the table at the end of its lifetime") {
    Star star;
    star.receive_interest(0, kSegment, 1, {.lifetime = 100ms});
    star.wait(99ms);
    CHECK(star.node.counters().pit_entries == 1);
    star.wait(2ms);
    CHECK(star.node.counters().pit_entries == 0);
    CHECK(star.node.counters().pit_expired == 1);
    star.receive(kUpstream, star.data(kSegment));
    CHECK(star.sent(0).empty());
    CHECK(star.node.counters().unsolicited_data == 1);
}

TEST_CASE("a retransmission extends the lifetime") {
    Star star;
    star.receive_interest(0, kSegment, 1, {.lifetime = 100ms});
    star.wait(60ms);
    star.receive_interest(0, kSegment, 2, {.lifetime = 100ms});
    star.wait(60ms);
    CHECK(star.node.counters().pit_entries == 1);
    star.wait(50ms);
    CHECK(star.node.counters().pit_entries == 0);
}

TEST_CASE("Data goes only to requesters whose Interest has not expired") {
    Star star;
    star.receive_interest(0, kSegment, 1, {.lifetime = 10ms});
    star.receive_interest(1, kSegment, 2, {.lifetime = 100ms});
    star.wait(50ms);
    star.receive(kUpstream, star.data(kSegment));
    CHECK(star.sent(0).empty());
    CHECK(star.sent(1).size() == 1);
}

TEST_CASE("the node sleeps until the first Interest expires") {
    Star star;
    CHECK(star.node.next_deadline() == kNever);
    star.receive_interest(0, kSegment, 1, {.lifetime = 100ms});
    CHECK(star.node.next_deadline() >= star.now + 100ms);
    CHECK(star.node.next_deadline() <= star.now + 101ms);
}

TEST_CASE("a full table nacks with Congestion and keeps its entries") {
    auto options = SwitchUnderTest::default_options();
    options.pit_capacity = 2;
    Star star(options);
    star.receive_interest(0, "/train1/g0/a", 1);
    star.receive_interest(0, "/train1/g0/b", 2);
    star.receive_interest(1, "/train1/g0/c", 3);
    const auto answers = star.sent(1);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].reason == wire::NackReason::kCongestion);
    CHECK(star.node.counters().pit_full == 1);
    CHECK(star.node.counters().pit_entries == 2);
    star.receive_interest(1, "/train1/g0/a", 4);
    CHECK(star.sent(1).empty());
}

TEST_CASE("an Interest without a route gets a Nack NoRoute and leaves no state") {
    Star star;
    star.receive_interest(0, "/elsewhere/x", 1);
    const auto answers = star.sent(0);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].reason == wire::NackReason::kNoRoute);
    CHECK(answers[0].nonce == 1);
    CHECK(star.node.counters().no_route == 1);
    CHECK(star.node.last_unroutable().to_uri() == "/elsewhere/x");
    CHECK(star.node.counters().pit_entries == 0);
}

TEST_CASE("an Interest is never sent back to its face") {
    Star star;
    star.receive_interest(kUpstream, kSegment, 1);
    const auto answers = star.sent(kUpstream);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].kind == Sent::Kind::kNack);
}

TEST_CASE("the longest prefix wins, then the lowest cost") {
    Star star;
    star.node.add_route(name("/train1/g0/3"), 3, 5);
    star.node.add_route(name("/train1/g0/3"), 4, 2);
    star.receive_interest(0, "/train1/g0/3/sum.f32/seq=1/seg=0", 1);
    CHECK(star.sent(4).size() == 1);
    CHECK(star.sent(3).empty());
    CHECK(star.sent(kUpstream).empty());
}

TEST_CASE("a forwarding hint of another node determines the route instead of the name") {
    Star star;
    star.node.add_route(name("/n/s1"), 5, 1);
    star.receive_interest(0, kSegment, 1, {.hint = "/n/s1"});
    CHECK(star.sent(5).size() == 1);
    CHECK(star.sent(kUpstream).empty());
}

TEST_CASE("in its producer region an Interest is forwarded by name") {
    Star star;
    star.receive_interest(0, kSegment, 1, {.hint = "/n/s0"});
    star.receive_interest(1, kSegment, 2, {.hint = "/n/s0"});
    CHECK(star.sent(kUpstream).size() == 1);
}

TEST_CASE("an Interest to this node without a rule gets a Nack NoRule") {
    Star star;
    star.receive_interest(0, "/train2/g0/0-7/sum.f32/seq=1/seg=0", 1, {.hint = "/n/s0"});
    const auto answers = star.sent(0);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].reason == wire::NackReason::kNoRule);
}

TEST_CASE("Interests with different hints share an entry") {
    Star star;
    star.node.add_route(name("/n/s1"), kUpstream, 1);
    star.receive_interest(0, kSegment, 1, {.hint = "/n/s1"});
    star.receive_interest(1, kSegment, 2);
    CHECK(star.sent(kUpstream).size() == 1);
    CHECK(star.node.counters().pit_aggregated == 1);
}

TEST_CASE("a chain of reflexive Interests is forwarded and answered") {
    Star star;
    star.node.add_route(name("/n/home"), 5, 1);
    star.node.add_route(name("/n/source"), 4, 1);
    star.receive_interest(0, kSegment, 1, {.hint = "/n/home"});
    REQUIRE(star.sent(5).size() == 1);
    SUBCASE("by the face it was requested on") {
        star.receive_interest(5, kSegment, 2, {.hint = "/n/source"});
        REQUIRE(star.sent(4).size() == 1);
        star.receive(4, star.data(kSegment));
        CHECK(star.sent(5).size() == 1);
    }
    SUBCASE("by another face") {
        star.receive_interest(3, kSegment, 2, {.hint = "/n/source"});
        REQUIRE(star.sent(4).size() == 1);
        star.receive(4, star.data(kSegment));
        CHECK(star.sent(3).size() == 1);
    }
    CHECK(star.sent(0).size() == 1);
}

TEST_CASE("a producer whose reflexive Interest fails is notified and may refuse") {
    Star star;
    star.node.add_route(name("/n/home"), 5, 1);
    star.node.add_route(name("/n/source"), 4, 1);
    star.receive_interest(0, kSegment, 1, {.hint = "/n/home"});
    REQUIRE(star.sent(5).size() == 1);
    star.receive_interest(5, kSegment, 2, {.hint = "/n/source"});
    star.receive(4, star.nack(kSegment, 2, wire::NackReason::kNoData));
    const auto told = star.sent(5);
    REQUIRE(told.size() == 1);
    CHECK(told[0].reason == wire::NackReason::kNoData);
    CHECK(star.sent(0).empty());
    star.receive(5, star.nack(kSegment, 1, wire::NackReason::kNoData));
    CHECK(star.sent(0).size() == 1);
}

TEST_CASE("the hop limit is decremented on forwarding, and zero drops the Interest") {
    Star star;
    const auto limited = [&](std::uint8_t hops, std::uint32_t nonce) {
        const PacketRef plain = star.interest(kSegment, nonce);
        PacketRef packet = star.pool.allocate(plain.size() + 3);
        wire::Writer writer(packet.writable());
        writer.header(wire::kInterest, plain.size() - 2 + 3);
        writer.bytes(plain.bytes().subspan(2));
        const std::uint8_t value[] = {hops};
        writer.element(wire::kHopLimit, value);
        REQUIRE(writer.ok());
        return packet;
    };
    const PacketRef two_hops = limited(2, 1);
    star.receive(0, two_hops);
    const auto forwarded = star.sent(kUpstream);
    REQUIRE(forwarded.size() == 1);
    CHECK(forwarded[0].hop_limit == 1);
    CHECK(wire::InterestView::parse(two_hops.bytes())->hop_limit() == 2);

    star.wait(2s);
    star.receive(0, limited(1, 2));
    star.receive(0, limited(0, 3));
    CHECK(star.sent_everywhere() == 0);
    CHECK(star.node.counters().hop_limit_exceeded == 2);
    CHECK(star.node.counters().pit_entries == 0);
}

TEST_CASE("a missing nonce is added before an Interest is forwarded") {
    Star star;
    const PacketRef with = star.interest(kSegment, 0x01020304);
    std::vector<std::uint8_t> without(with.bytes().begin(), with.bytes().end());
    const std::vector<std::uint8_t> nonce{0x0a, 4, 1, 2, 3, 4};
    const auto found = std::ranges::search(without, nonce);
    REQUIRE(!found.empty());
    without.erase(found.begin(), found.end());
    without[1] = static_cast<std::uint8_t>(without[1] - nonce.size());
    REQUIRE(wire::InterestView::parse(without));
    star.receive(0, star.pool.copy_of(without));
    const auto upstream = star.sent(kUpstream);
    REQUIRE(upstream.size() == 1);
    CHECK(upstream[0].name == kSegment);
    CHECK(upstream[0].size == with.size());
}

TEST_CASE("malformed packets are counted on their face and dropped") {
    Star star;
    const std::vector<std::uint8_t> garbage{0x05, 0xff, 0x00};
    star.receive(2, star.pool.copy_of(garbage));
    const PacketRef good = star.interest(kSegment, 2);
    star.receive(2, good.slice(0, good.size() - 1));
    CHECK(star.node.face_counters(2).malformed_in == 2);
    CHECK(star.node.counters().malformed == 2);
    CHECK(star.sent_everywhere() == 0);
}

TEST_CASE("every Interest that a node makes for one name has the same length") {
    Star star;
    for (int i = 0; i < 32; ++i) {
        star.node.express(RequesterId::kApplication, name(kSegment).view(), {}, 1s);
        star.now += 10ms;
        star.node.run_pending(star.now);
    }
    const auto upstream = star.sent(kUpstream);
    REQUIRE(upstream.size() == 32);
    for (const Sent& packet : upstream) CHECK(packet.size == upstream[0].size);
}

TEST_CASE("a neighbour that holds every request leaves room for others") {
    constexpr std::size_t kCapacity = 64;
    auto options = SwitchUnderTest::default_options();
    options.pit_capacity = kCapacity;
    SwitchUnderTest test(4, options);
    std::uint32_t nonce = 0;
    const auto wait = [&](FaceId face, const std::string& uri) {
        test.application.productions[uri] = {Production::Kind::kPending, {}, bytes("3")};
        test.receive_interest(face, uri, ++nonce);
        const auto answers = test.sent(face);
        return answers.empty() || answers[0].kind == Sent::Kind::kHold;
    };
    const auto wait_for_many = [&](FaceId face) {
        std::size_t waiting = 0;
        for (std::size_t i = 0; i < kCapacity; ++i) {
            waiting += wait(face, "/h/" + std::to_string(face) + "/" + std::to_string(i)) ? 1 : 0;
        }
        return waiting;
    };
    CHECK(wait_for_many(0) == kCapacity / 4);
    CHECK(test.node.counters().over_share == kCapacity - kCapacity / 4);
    CHECK(wait_for_many(1) == kCapacity / 8);
    CHECK(wait(2, "/h/2"));
    CHECK(wait(2, "/h/0/0"));  // together with the first
    // What passes through is not held up by it.
    test.node.add_route(name("/p"), 3, 0);
    test.receive_interest(0, "/p/x", ++nonce);
    CHECK(test.sent(3).size() == 1);
    test.node.close_face(0, test.now);
    CHECK(wait_for_many(1) > kCapacity / 8);
    AuditReport report;
    test.node.audit(report);
    CHECK(report.complaints().empty());
}

TEST_CASE("expired application requests are dropped while a neighbour's stays") {
    SwitchUnderTest test;
    for (const auto* late : {"/h/short", "/h/both", "/h/long"}) {
        test.application.productions[late] = {Production::Kind::kPending, {}, {}};
    }
    test.receive_interest(0, "/h/short", 1, {.lifetime = 100ms});
    test.receive_interest(0, "/h/both", 2, {.lifetime = 100ms});
    test.receive_interest(1, "/h/both", 3, {.lifetime = 60s, .must_be_fresh = true});
    test.receive_interest(0, "/h/long", 4, {.lifetime = 60s});
    test.wait(1s);
    CHECK(test.node.counters().pit_expired == 2);
    CHECK(test.application.forgotten == std::vector<std::string>{"/h/short"});
}
