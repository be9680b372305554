// Bytes that nobody should send: the node counts, drops, stays within its bounds and goes on
// working.

#include <doctest/doctest.h>

#include <random>

#include "switch_under_test.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;

namespace {

constexpr FaceId kUpstream = 3;
constexpr auto kSum = "/train1/g0/0-1/sum.f32/seq=41/seg=9";

struct Target : SwitchUnderTest {
    static forwarding::NodeOptions small_tables() {
        forwarding::NodeOptions options = default_options();
        options.pit_capacity = 64;
        options.cache_bytes = 64 * 1024;
        options.reducer.slots = 4;
        return options;
    }

    Target() : SwitchUnderTest(4, small_tables()) {
        node.add_route(name("/train1"), kUpstream, 1);
        reduction::Rule rule;
        rule.group = name("/train1/g0");
        rule.interval = name("/0-1");
        rule.operands = {{name("/0"), name("/train1/g0/0")}, {name("/1"), name("/train1/g0/1")}};
        node.reducer().install(rule);
    }

    std::vector<PacketRef> every_kind_of_packet() {
        wire::LpFields marked;
        marked.congestion_mark = 1;
        marked.pit_token = bytes("token");
        return {interest(kSum, 1, {.hint = "/n/s0"}),
                interest("/train1/x", 2, {.can_be_prefix = true, .must_be_fresh = true}),
                interest("/train1/x", 3, {.hint = "/n/s1", .token = "t"}),
                with_headers(data("/train1/x", "value", 1s), marked),
                tensor("/train1/g0/0/sum.f32/seq=41/seg=9", {1.0F}),
                tensor(kSum, {3.0F}),
                nack("/train1/x", 2, wire::NackReason::kNoRoute),
                hold(kSum, 1, "1")};
    }
};

}  // namespace

TEST_CASE("packets with flipped, removed and repeated bytes neither crash nor fill a node") {
    Target target;
    const auto packets = target.every_kind_of_packet();
    std::mt19937 random(11);
    for (int step = 0; step < 30'000; ++step) {
        const PacketRef& original = packets[random() % packets.size()];
        std::vector<std::uint8_t> mutated(original.bytes().begin(), original.bytes().end());
        for (auto flips = random() % 4; flips > 0; --flips) {
            mutated[random() % mutated.size()] ^= static_cast<std::uint8_t>(1U << random() % 8);
        }
        if (random() % 8 == 0) mutated.resize(random() % (mutated.size() + 1));
        target.receive(static_cast<FaceId>(random() % 4), target.pool.copy_of(mutated));
        if (step % 50 == 0) target.wait(std::chrono::milliseconds(random() % 200));
        for (FaceId face = 0; face < 4; ++face) target.node.outbox().queue(face).clear();
        const forwarding::NodeCounters& counters = target.node.counters();
        REQUIRE(counters.pit_entries <= 64);
        REQUIRE(counters.cache_bytes <= 64 * 1024);
    }
    CHECK(target.node.counters().malformed > 0);

    for (int second = 0; second < 70; ++second) target.wait(1s);
    CHECK(target.node.counters().pit_entries == 0);
    CHECK(target.node.reducer().counters().slots_in_use == 0);
    target.sent_everywhere();
    target.receive_interest(0, "/train1/afterwards", 0xfefefefe);
    CHECK(target.sent(kUpstream).size() == 1);
}
