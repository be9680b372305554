#include <doctest/doctest.h>

#include <set>

#include "switch_emulator/forwarding/link_reliability.hpp"
#include "switch_emulator/forwarding/node.hpp"
#include "switch_under_test.hpp"

using namespace innet;
using namespace innet::forwarding;
using namespace std::chrono_literals;

namespace {

constexpr Duration kRoundTrip = 4ms;

/// A packet whose header has the number that `sent` gives it.
OutgoingPacket numbered(PacketPool& pool, std::uint64_t number, std::size_t size = 100) {
    OutgoingPacket packet;
    packet.payload = pool.allocate(size);
    wire::LpFields fields;
    fields.tx_sequence = number;
    packet.header_size =
        static_cast<std::uint8_t>(wire::encode_lp_header(fields, size, packet.header));
    return packet;
}

std::uint64_t number_of(const OutgoingPacket& packet) {
    return *wire::LpView::parse_header(packet.header_bytes())->tx_sequence();
}

/// One direction of a link, whose packets are sent a millisecond apart.
struct Sender {
    std::uint64_t send(std::size_t size = 100) {
        const std::uint64_t number = kept.next_number();
        fits = kept.add(numbered(pool, number, size), now) == 0;
        now += 1ms;
        return number;
    }
    /// The numbers of the packets that are sent again now.
    std::vector<std::uint64_t> repeat() {
        std::vector<OutgoingPacket> packets;
        losses = kept.take_lost(now, packets);
        std::vector<std::uint64_t> numbers;
        for (const OutgoingPacket& packet : packets) numbers.push_back(number_of(packet));
        return numbers;
    }

    PacketPool pool;
    UnacknowledgedPackets kept;
    UnacknowledgedPackets::Losses losses;
    TimePoint now{1h};
    bool fits = true;
};

/// Remembers the names that were requested.
class Producer final : public Application {
  public:
    Production produce(const wire::InterestView& interest, bool, TimePoint) override {
        names.insert(interest.name().to_uri());
        return {};
    }
    void on_data(const wire::DataView&, const PacketRef&, bool, TimePoint) override {}
    void on_nack(wire::NameView, wire::NackReason, TimePoint) override {}
    void on_hold(wire::NameView, wire::ByteView, TimePoint) override {}

    std::set<std::string> names;
};

/// A node that sends Interests to another over a link that loses some of the packets.
struct LossyLink {
    explicit LossyLink(LinkRepetition repetition = LinkRepetition::kLossy, bool lossy = true) {
        options.link_repetition = repetition;
        a = std::make_unique<Node>(options, pool, keyring, nullptr);
        b = std::make_unique<Node>(options, pool, keyring, nullptr);
        for (Node* node : {a.get(), b.get()}) node->add_face({.lossy = lossy});
        a->set_application(&requester);
        b->set_application(&producer);
        a->add_route(testing::name("/"), 0, 0);
    }

    /// Sends an Interest each millisecond, and carries packets for `time`.
    void run(int interests, Duration time) {
        for (const TimePoint end = now + time; now < end; now += 1ms) {
            if (sent < interests) {
                const wire::Name name = testing::name("/a/" + std::to_string(sent++));
                a->express(RequesterId::kApplication, name.view(), {}, 10s);
                a->run_pending(now);
            }
            for (Node* node : {a.get(), b.get()}) {
                if (node->next_deadline() <= now) node->on_timer(now);
            }
            carry(*a, *b);
            carry(*b, *a);
        }
    }

    void carry(Node& from, Node& to) {
        for (OutgoingPacket& packet : std::exchange(from.outbox().queue(0), {})) {
            ++packets;
            const auto header = wire::LpView::parse_header(packet.header_bytes());
            numbered += header && header->tx_sequence() ? 1 : 0;
            if (packets % 3 == 0) continue;
            PacketRef whole = pool.allocate(packet.header_size + packet.payload.size());
            std::ranges::copy(
                packet.payload.bytes(),
                std::ranges::copy(packet.header_bytes(), whole.writable().begin()).out);
            to.on_packet(0, whole, now);
        }
    }

    PacketPool pool;
    security::Keyring keyring;
    NodeOptions options;
    testing::RecordingApplication requester;
    Producer producer;
    std::unique_ptr<Node> a, b;
    TimePoint now{1h};
    int sent = 0;
    int packets = 0;
    int numbered = 0;
};

}  // namespace

TEST_CASE("the node in front of a lossy link repeats what the link has lost") {
    LossyLink link;
    link.run(30, 200ms);
    CHECK(link.producer.names.size() == 30);
    CHECK(link.a->face_counters(0).repeated_out >= 10);
    CHECK(link.a->face_counters(0).given_up_out == 0);
    CHECK(link.b->face_counters(0).acknowledgements_out > 0);
    // Nothing is left to do once all was acknowledged.
    const int packets = link.packets;
    link.run(30, 2s);
    CHECK(link.packets <= packets + 2);
    CHECK(link.a->next_deadline() > link.now);
}

TEST_CASE("links without loss carry no numbers and no acknowledgements") {
    for (const auto repetition : {LinkRepetition::kLossy, LinkRepetition::kNone}) {
        LossyLink link(repetition, repetition == LinkRepetition::kNone);
        link.run(30, 200ms);
        CHECK(link.packets > 30);
        CHECK(link.numbered == 0);
        CHECK(link.b->face_counters(0).acknowledgements_out == 0);
        CHECK(link.producer.names.size() < 30);
    }
    LossyLink link(LinkRepetition::kAll, false);
    link.run(30, 200ms);
    CHECK(link.producer.names.size() == 30);
}

TEST_CASE("a packet is repeated, with a new number, once three later ones have arrived") {
    Sender link;
    const auto first = link.send();
    std::vector<std::uint64_t> later;
    for (int i = 0; i < 4; ++i) later.push_back(link.send());
    for (const auto number : {later[0], later[1]}) link.kept.on_acknowledged(number, link.now);
    CHECK(link.repeat().empty());
    link.kept.on_acknowledged(later[2], link.now);
    link.now += kRoundTrip;
    const auto again = link.repeat();
    REQUIRE(again.size() == 1);
    CHECK(again[0] > later.back());
    CHECK(link.kept.size() == 2);
    link.kept.on_acknowledged(again[0], link.now);
    link.kept.on_acknowledged(later[3], link.now);
    CHECK(link.kept.size() == 0);
    CHECK(link.kept.next_deadline() == kNever);
    CHECK(first == 1);
}

TEST_CASE("a packet that is never acknowledged is given up after four repetitions") {
    Sender link;
    link.send();
    int repetitions = 0;
    for (int timeouts = 0; timeouts < 10 && link.kept.size() > 0; ++timeouts) {
        link.now = link.kept.next_deadline();
        repetitions += static_cast<int>(link.repeat().size());
    }
    CHECK(repetitions == 4);
    CHECK(link.losses.given_up == 1);
    CHECK(link.kept.next_deadline() == kNever);
}

TEST_CASE("a dead link gets a few repetitions for each timeout") {
    Sender link;
    for (int i = 0; i < 500; ++i) link.send();
    std::size_t repeated = 0;
    for (const TimePoint end = link.now + 1s; link.now < end;) {
        link.now = std::max(link.now, link.kept.next_deadline());
        repeated += link.repeat().size();
    }
    CHECK(repeated <= 8 * 12);
    // The packets that no timeout has repeated are given up after a second.
    for (const TimePoint end = link.now + 3s; link.now < end && link.kept.size() > 0;) {
        link.now = link.kept.next_deadline();
        link.repeat();
    }
    CHECK(link.kept.size() == 0);
    CHECK(link.pool.bytes_in_use() == 0);
}

TEST_CASE("a link keeps a bounded number of packets and of bytes") {
    Sender many;
    for (int i = 0; i < 10'000; ++i) {
        many.send();
        CHECK(many.fits == (i < 4096));
    }
    CHECK(many.kept.size() == 4096);
    Sender large;
    for (int i = 0; i < 200; ++i) large.send(64 * 1024);
    CHECK(large.kept.size() == 63);
    CHECK(large.pool.bytes_in_use() < 6 << 20);
    Sender mixed;  // each large packet takes the place of many small ones
    for (int i = 0; i < 4000; ++i) mixed.send();
    for (int i = 0; i < 200; ++i) mixed.send(64 * 1024);
    CHECK(mixed.kept.size() == 63);
    CHECK(mixed.pool.bytes_in_use() < 6 << 20);
}

TEST_CASE("acknowledgements of packets that were never sent change nothing") {
    Sender link;
    const auto number = link.send();
    for (const std::uint64_t lie :
         {std::uint64_t{0}, number + 1, number + 4096, ~std::uint64_t{0}}) {
        link.kept.on_acknowledged(lie, link.now);
    }
    CHECK(link.kept.size() == 1);
    link.kept.on_acknowledged(number, link.now);
    link.kept.on_acknowledged(number, link.now);
    CHECK(link.kept.size() == 0);
}

TEST_CASE("an acknowledgement states each number twice, in two packets") {
    PacketPool pool;
    Acknowledgements arrived;
    TimePoint now{1h};
    std::multiset<std::uint64_t> stated;
    std::size_t packets = 0;
    const auto take = [&] {
        const PacketRef packet = arrived.take(pool);
        const auto link = wire::LpView::parse(packet.bytes());
        REQUIRE(link);
        CHECK(link->payload().empty());
        link->for_each_ack([&](std::uint64_t number) { stated.insert(number); });
        ++packets;
    };
    for (std::uint64_t number = 1; number <= 40; ++number) {
        arrived.add(number << 40, now);
        CHECK(arrived.deadline() <= now + 1ms);
        if (arrived.deadline() <= now) take();
    }
    now += 1ms;
    CHECK(arrived.deadline() <= now);
    take();
    CHECK(arrived.deadline() == kNever);
    CHECK(packets == 3);
    for (std::uint64_t number = 1; number <= 40; ++number) {
        CHECK(stated.count(number << 40) == (number <= 32 ? 2 : 1));
    }
}
