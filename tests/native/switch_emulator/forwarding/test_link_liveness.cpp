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

    /// Both nodes' timers at every interval for `time`.
    void pass(Duration time) {
        for (const TimePoint end = now + time; now < end; now += kInterval) {
            for (forwarding::Node* node : {&a, second}) {
                if (node->next_deadline() <= now) node->on_timer(now);
            }
            carry(a, *second, a_to_b);
            carry(*second, a, b_to_a);
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
    forwarding::Node* second = &b;
    bool a_to_b = true;
    bool b_to_a = true;
    TimePoint now{1h};
};

}  // namespace

TEST_CASE("a link is silent while it is cut, and not while it carries hellos") {
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

TEST_CASE("both ends notice the loss of one direction") {
    Pair pair;
    pair.pass(kTimeout);
    pair.a_to_b = false;
    pair.pass(3 * kTimeout);
    CHECK(pair.b.is_silent(0));
    CHECK(pair.a.is_silent(0));
}

TEST_CASE("any packet is a sign of life, which the next hello acknowledges") {
    forwarding::LinkLiveness liveness(kTimeout);
    liveness.add_face(0, true);
    TimePoint now{1h};
    for (int tick = 0; tick < 30; ++tick, now += kInterval) {
        liveness.on_timer(now);
        CHECK(liveness.receives_from(0));
        liveness.on_received(0);
    }
    for (int tick = 0; tick < 30; ++tick, now += kInterval) liveness.on_timer(now);
    CHECK_FALSE(liveness.receives_from(0));
}

TEST_CASE("a node that starts late gets a full silence timeout") {
    Pair pair;
    pair.b_to_a = false;
    pair.pass(2 * kTimeout);
    CHECK(pair.a.is_silent(0));
    forwarding::Node late{pair.options, pair.pool, pair.keyring, nullptr};
    late.add_face();
    pair.second = &late;
    pair.b_to_a = true;
    for (int tick = 0; tick < 20; ++tick) {
        pair.pass(kInterval);
        CHECK_FALSE(late.is_silent(0));
    }
    CHECK_FALSE(pair.a.is_silent(0));
}

TEST_CASE("a node that was suspended for an hour reports no silent neighbour") {
    forwarding::LinkLiveness liveness(kTimeout);
    liveness.add_face(0, true);
    liveness.on_timer(TimePoint{1h});
    liveness.on_timer(TimePoint{2h});
    CHECK_FALSE(liveness.is_silent(0));
}

TEST_CASE("without a timeout no hello is sent and no link is silent") {
    forwarding::LinkLiveness liveness(Duration{0});
    liveness.add_face(0, true);
    CHECK(liveness.next_deadline() == kNever);
    CHECK_FALSE(liveness.is_silent(0));
}
