#include <doctest/doctest.h>

#include "switch_emulator/forwarding/link_liveness.hpp"
#include "switch_emulator/forwarding/node.hpp"
#include "transport/security/keyring.hpp"

using namespace innet;
using namespace std::chrono_literals;

namespace {

constexpr Duration kTimeout = 800ms;
constexpr Duration kInterval = kTimeout / 8;

/// Two nodes and the link between them, in both directions of which packets may disappear.
struct Pair {
    Pair() {
        for (forwarding::Node* node : {&a, &b}) node->add_face();
    }

    /// Both nodes' timers at every interval for `time`, as far as they run.
    void pass(Duration time, bool b_runs = true) {
        for (const TimePoint end = now + time; now < end; now += kInterval) {
            if (a.next_deadline() <= now) a.on_timer(now);
            if (b_runs && b.next_deadline() <= now) b.on_timer(now);
            carry(a, b, a_to_b);
            carry(b, a, b_to_a);
        }
    }

    void carry(forwarding::Node& from, forwarding::Node& to, bool through) {
        for (OutgoingPacket& packet : from.outbox().queue(0)) {
            if (through) to.on_packet(0, pool.copy_of(packet.header_bytes()), now);
        }
        from.outbox().queue(0).clear();
    }

    PacketPool pool;
    security::Keyring keyring;
    forwarding::NodeOptions options = [] {
        forwarding::NodeOptions with_timeout;
        with_timeout.link_timeout = kTimeout;
        return with_timeout;
    }();
    forwarding::Node a{options, pool, keyring, nullptr};
    forwarding::Node b{options, pool, keyring, nullptr};
    bool a_to_b = true;
    bool b_to_a = true;
    TimePoint now{1h};
};

}  // namespace

TEST_CASE("a link that carries hellos is not silent, and one that is cut is, until it is whole") {
    Pair pair;
    pair.pass(10 * kTimeout);
    CHECK_FALSE(pair.a.is_silent(0));
    pair.a_to_b = pair.b_to_a = false;
    pair.pass(kTimeout / 2);
    CHECK_FALSE(pair.a.is_silent(0));
    pair.pass(kTimeout);
    CHECK(pair.a.is_silent(0));
    CHECK(pair.b.is_silent(0));
    pair.a_to_b = pair.b_to_a = true;
    pair.pass(2 * kInterval);
    CHECK_FALSE(pair.a.is_silent(0));
    CHECK_FALSE(pair.b.is_silent(0));
}

TEST_CASE("both ends know when one direction alone is lost") {
    Pair pair;
    pair.pass(kTimeout);
    pair.a_to_b = false;
    pair.pass(2 * kTimeout);
    CHECK(pair.b.is_silent(0));
    CHECK(pair.a.is_silent(0));
}

TEST_CASE("any packet is a sign of life") {
    Pair pair;
    pair.b_to_a = false;
    for (int i = 0; i < 30; ++i) {
        pair.pass(kInterval, false);
        const std::array<std::uint8_t, 3> nonsense{1, 1, 0};
        pair.a.on_packet(0, pair.pool.copy_of(nonsense), pair.now);
    }
    CHECK_FALSE(pair.a.is_silent(0));
}

TEST_CASE("a node that was not run for an hour blames nobody for the silence") {
    forwarding::LinkLiveness liveness(kTimeout);
    liveness.add_face();
    liveness.on_timer(TimePoint{1h});
    liveness.on_timer(TimePoint{2h});
    CHECK_FALSE(liveness.is_silent(0));
}

TEST_CASE("without a timeout nothing is sent and nothing is silent") {
    forwarding::LinkLiveness liveness(Duration{0});
    liveness.add_face();
    CHECK(liveness.next_deadline() == kNever);
    CHECK_FALSE(liveness.is_silent(0));
}
