// The links of foreign programs, with channels that the test plays.

#include <doctest/doctest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "switch_emulator/driver/file_descriptor.hpp"
#include "switch_emulator/driver/link_table.hpp"
#include "switch_emulator/driver/stream_channel.hpp"
#include "tests/native/switch_emulator/forwarding/switch_under_test.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;
using driver::LinkKind;

namespace {

/// Whoever is at its other end never reads. Without a descriptor: a peer of a UDP port.
class DeafChannel final : public driver::Channel {
  public:
    int fd() const override { return -1; }
    bool receive(PacketPool&, std::vector<PacketRef>&) override { return false; }
    std::size_t send(std::span<const OutgoingPacket>) override { return 0; }
    const driver::SocketCounters& counters() const override { return counters_; }

  private:
    driver::SocketCounters counters_;
};

/// A link's end whose peer has stopped reading.
class UnreadChannel final : public driver::Channel {
  public:
    int fd() const override { return -1; }
    bool room_needs_reader() const override { return true; }
    bool receive(PacketPool&, std::vector<PacketRef>&) override { return false; }
    std::size_t send(std::span<const OutgoingPacket>) override { return 0; }
    const driver::SocketCounters& counters() const override { return counters_; }

  private:
    driver::SocketCounters counters_;
};

/// Has a copy of a descriptor that others hold, too.
class SharedDescriptorChannel final : public driver::Channel {
  public:
    explicit SharedDescriptorChannel(int shared) : fd_(::dup(shared)) {}
    int fd() const override { return fd_.get(); }
    bool receive(PacketPool&, std::vector<PacketRef>&) override { return false; }
    std::size_t send(std::span<const OutgoingPacket>) override { return 0; }
    driver::ChannelEnd end() const override { return driver::ChannelEnd::kHungUp; }
    const driver::SocketCounters& counters() const override { return counters_; }

  private:
    driver::FileDescriptor fd_;
    driver::SocketCounters counters_;
};

/// Takes so many packets as the test says, in parts.
class PartsChannel final : public driver::Channel {
  public:
    explicit PartsChannel(std::size_t& room) : room_(room) {}
    int fd() const override { return -1; }
    bool takes_parts() const override { return true; }
    bool receive(PacketPool&, std::vector<PacketRef>&) override { return false; }
    std::size_t send(std::span<const OutgoingPacket> packets) override {
        const std::size_t taken = std::min(packets.size(), room_);
        room_ -= taken;
        return taken;
    }
    const driver::SocketCounters& counters() const override { return counters_; }

  private:
    std::size_t& room_;
    driver::SocketCounters counters_;
};

struct TableUnderTest : SwitchUnderTest {
    TableUnderTest() : SwitchUnderTest(0) {}

    std::optional<FaceId> add_peer(FaceScope scope) {
        management::FaceDescription description;
        description.persistency = management::FacePersistency::kOnDemand;
        return links.add_foreign(std::make_unique<DeafChannel>(), {.scope = scope},
                                 std::move(description), now);
    }
    /// So many peers as there is room for, each heard a second after the one before.
    std::vector<FaceId> fill(FaceScope scope) {
        std::vector<FaceId> faces;
        while (links.has_room(driver::foreign_kind(false, {.scope = scope}))) {
            faces.push_back(add_peer(scope).value());
            now += 1s;
        }
        return faces;
    }
    void send(FaceId face, const PacketRef& packet, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) node.outbox().send(face, packet);
        links.flush(now);
    }

    driver::FileDescriptor epoll{::epoll_create1(EPOLL_CLOEXEC)};
    security::SerialHasher hasher;
    driver::LinkTable links{node, hasher, pool, epoll.get()};
};

}  // namespace

TEST_CASE("only trusted links omit MACs, whatever their shape becomes") {
    TableUnderTest table;
    std::string error;
    const auto added = [&](bool trusted) {
        return table.links.add(std::make_unique<DeafChannel>(), {}, error, trusted).value();
    };
    const FaceId trusted = added(true);
    const FaceId other = added(false);
    for (int i = 0; i < 2; ++i) {
        CHECK(table.node.face_options(trusted).trusted);
        CHECK_FALSE(table.node.face_options(other).trusted);
        REQUIRE(table.links.reshape(trusted, {}, true, table.now));
        REQUIRE(table.links.reshape(other, {}, true, table.now));
    }
}

TEST_CASE("remote UDP peers and local programs have separate limits") {
    TableUnderTest test;
    const auto local = test.fill(FaceScope::kLocal);
    const auto remote = test.fill(FaceScope::kNonLocal);
    CHECK(local.size() == driver::most_links(LinkKind::kLocalUdpPeer));
    CHECK(remote.size() == driver::most_links(LinkKind::kUdpPeer));
    CHECK(test.links.evict_udp_peer(LinkKind::kUdpPeer, test.now));
    CHECK(test.links.find(remote[0]) == nullptr);
    CHECK(test.links.find(local[0]) != nullptr);
    CHECK_FALSE(test.links.has_room(LinkKind::kLocalUdpPeer));
    CHECK(test.links.evict_udp_peer(LinkKind::kLocalUdpPeer, test.now));
    CHECK(test.links.find(local[0]) == nullptr);
}

TEST_CASE(
    "a UDP peer that has registered something gives its place up after those without routes") {
    TableUnderTest test;
    const FaceId producer = test.add_peer(FaceScope::kNonLocal).value();
    test.now += 1s;
    const FaceId consumer = test.add_peer(FaceScope::kNonLocal).value();
    test.node.add_route(name("/p"), producer, 0);
    CHECK(test.links.evict_udp_peer(LinkKind::kUdpPeer, test.now));
    CHECK(test.links.find(producer) != nullptr);
    CHECK(test.links.find(consumer) == nullptr);
    CHECK(test.links.evict_udp_peer(LinkKind::kUdpPeer, test.now));
    CHECK(test.links.find(producer) == nullptr);
    CHECK_FALSE(test.links.evict_udp_peer(LinkKind::kUdpPeer, test.now));
}

TEST_CASE("a face that sends forbidden commands is paused") {
    TableUnderTest test;
    const FaceId face = test.add_peer(FaceScope::kLocal).value();
    const auto is_paused_after = [&](int commands) {
        for (int i = 0; i < commands; ++i) test.node.count_forbidden_command(face);
        std::vector<PacketRef> packets{test.interest("/nowhere", 1)};
        test.links.deliver(face, packets, test.now);
        return test.links.find(face)->paused_until > test.now;
    };
    CHECK_FALSE(is_paused_after(3));  // a mistake and its repetitions
    CHECK(is_paused_after(10));
}

TEST_CASE("the backlog of peers that never read is bounded, and leaves room for the next") {
    TableUnderTest test;
    const auto deaf = test.fill(FaceScope::kLocal);
    const PacketRef packet = test.pool.allocate(kMaxPacketBytes);
    for (const FaceId face : deaf) test.send(face, packet, 200);
    const FaceId next = test.add_peer(FaceScope::kNonLocal).value();
    test.send(next, test.pool.allocate(8000), 7);
    std::size_t held = 0;
    for (const driver::LinkStatus& link : test.links.status()) {
        held += link.backlog_bytes;
        CHECK(link.backlog_bytes <= 8U << 20);
    }
    CHECK(held <= (128U << 20) + (deaf.size() + 1) * (kMaxPacketBytes + (64U << 10)));
    CHECK(test.links.find(next)->backlog() == 7);
}

TEST_CASE("a closed link receives no notification while others hold its descriptor open") {
    TableUnderTest test;
    const driver::FileDescriptor shared(::eventfd(1, EFD_NONBLOCK));
    std::string error;
    const auto face =
        test.links.add(std::make_unique<SharedDescriptorChannel>(shared.get()), {}, error);
    REQUIRE(face);
    epoll_event event{};
    REQUIRE(::epoll_wait(test.epoll.get(), &event, 1, 0) == 1);
    test.links.on_readable(*face, test.now);
    CHECK(test.links.find(*face) == nullptr);
    CHECK(::epoll_wait(test.epoll.get(), &event, 1, 0) == 0);
}

TEST_CASE("queued bytes do not change when their lender reuses the memory") {
    TableUnderTest test;
    std::size_t room = 1;
    std::string error;
    const auto face = test.links.add(std::make_unique<PartsChannel>(room), {}, error);
    REQUIRE(face);
    for (int round = 0; round < 2; ++round) {  // the second when the link waits already
        const auto lender = std::make_shared<std::vector<std::uint8_t>>(100, std::uint8_t{1});
        for (int i = 0; i < 2; ++i) {
            PacketRef packet = test.pool.allocate(100);
            packet.lend(0, *lender, lender);
            test.node.outbox().send(*face, std::move(packet));
        }
        test.links.flush(test.now);
        std::ranges::fill(*lender, std::uint8_t{2});
    }
    const driver::Link& link = *test.links.find(*face);
    REQUIRE(link.backlog() == 3);
    for (const OutgoingPacket& waiting : std::span(link.ready).subspan(link.sent)) {
        CHECK(waiting.payload.bytes()[50] == 1);
    }
}

TEST_CASE("a shaped link borrows no bytes, although its channel accepts parts") {
    TableUnderTest test;
    std::size_t room = 1;
    std::string error;
    simulation::LinkOptions slow;
    slow.port.delay = 1s;
    const auto face = test.links.add(std::make_unique<PartsChannel>(room), slow, error);
    REQUIRE(face);
    const auto content = std::make_shared<std::vector<std::uint8_t>>(5, std::uint8_t{'x'});
    PacketRef data = test.data("/a/seg=0", "value");
    const auto place = wire::DataView::parse(data.bytes())->content();
    data.lend(static_cast<std::size_t>(place.data() - data.bytes().data()), *content, content);
    test.application.productions["/a/seg=0"] = {Production::Kind::kData, std::move(data), {}};
    test.receive_interest(*face, "/a/seg=0", 1);
    test.application.productions.clear();
    test.links.flush(test.now);
    CHECK(room == 1);
    CHECK(content.use_count() == 1);
}

TEST_CASE("a link that is reshaped while it runs loses, delays and passes packets as it says") {
    TableUnderTest test;
    std::size_t room = 100;
    std::string error;
    const FaceId face = test.links.add(std::make_unique<PartsChannel>(room), {}, error).value();
    const auto sent = [&](std::size_t packets) {
        const std::size_t before = room;
        test.send(face, test.pool.copy_of(std::vector<std::uint8_t>(100)), packets);
        return before - room;
    };
    CHECK(sent(3) == 3);
    simulation::LinkOptions slow;
    slow.port.delay = 1s;
    REQUIRE(test.links.reshape(face, slow, true, test.now));
    CHECK(sent(2) == 0);
    CHECK(test.links.next_deadline() == test.now + 1s);
    REQUIRE(test.links.reshape(face, {}, false, test.now));  // what is on it is lost as well
    test.now += 2s;
    CHECK(sent(5) == 0);
    REQUIRE(test.links.reshape(face, {}, true, test.now));
    CHECK(sent(4) == 4);
    CHECK(test.links.status().at(face).link_counters.dropped_down == 7);
    CHECK_FALSE(test.links.reshape(face + 1, {}, true, test.now));
    CHECK_FALSE(test.links.reshape(test.add_peer(FaceScope::kLocal).value(), {}, true, test.now));
}

TEST_CASE("a link that gets a delay later borrows no bytes from then on") {
    TableUnderTest test;
    std::size_t room = 1;
    std::string error;
    const FaceId face = test.links.add(std::make_unique<PartsChannel>(room), {}, error).value();
    simulation::LinkOptions slow;
    slow.port.delay = 1s;
    REQUIRE(test.links.reshape(face, slow, true, test.now));
    const auto lender = std::make_shared<std::vector<std::uint8_t>>(100, std::uint8_t{1});
    PacketRef packet = test.pool.allocate(100);
    packet.lend(0, *lender, lender);
    test.node.outbox().send(face, std::move(packet));
    test.links.flush(test.now);
    CHECK(lender.use_count() == 1);
}

TEST_CASE("a shaped link whose peer stopped reading holds a bounded backlog") {
    TableUnderTest test;
    std::string error;
    simulation::LinkOptions shape;
    shape.port.delay = 1ms;
    const auto face = test.links.add(std::make_unique<UnreadChannel>(), shape, error);
    REQUIRE_MESSAGE(face, error);
    for (int i = 0; i < 4; ++i) {
        test.send(*face, test.pool.copy_of(std::vector<std::uint8_t>(100)), 1000);
        test.now += 2ms;
        test.links.flush(test.now);
    }
    const driver::LinkStatus status = test.links.status().at(*face);
    CHECK(status.backlog_packets == 1024);
    CHECK(status.backlog_dropped == 4000 - 1024);
}

TEST_CASE("Data for a program that reads too slowly is marked, counting the kernel's queue") {
    TableUnderTest test;
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    const driver::FileDescriptor program(ends[0]);
    const FaceId face =
        test.links
            .add_foreign(std::make_unique<driver::StreamChannel>(driver::FileDescriptor(ends[1]),
                                                                 kMaxForeignPacketBytes),
                         {.scope = FaceScope::kLocal}, {}, test.now)
            .value();
    const auto marked = [&] { return test.links.status()[0].congestion_marked; };
    const PacketRef data = test.data("/a", std::string(8000, 'x'));
    test.send(face, data, 10);  // more than the threshold, and all of it in the kernel
    REQUIRE(test.links.find(face)->backlog() == 0);
    test.send(face, data, 1);
    test.now += 100ms;
    test.send(face, data, 1);
    CHECK(marked() == 1);
    CHECK(test.links.status()[0].queued_max_bytes > 64U << 10);
    test.now += 1s;
    test.send(face, data, 40);  // beyond what the kernel takes
    CHECK(test.links.find(face)->backlog() > 0);
    const auto before = marked();
    CHECK(before > 1);

    std::vector<std::uint8_t> taken(1U << 20);
    for (int round = 0; test.links.find(face)->backlog() > 0; ++round) {
        REQUIRE(round < 100);
        while (::recv(program.get(), taken.data(), taken.size(), 0) > 0) {
        }
        test.links.on_writable(face, test.now);
    }
    while (::recv(program.get(), taken.data(), taken.size(), 0) > 0) {
    }
    CHECK(test.links.find(face)->backlog_wire_bytes == 0);
    test.now += 1s;
    test.send(face, data, 2);
    CHECK(marked() == before);
}

TEST_CASE(
    "a forwarder of another machine keeps its connection when others' packets are malformed") {
    TableUnderTest test;
    const auto connect = [&](FaceScope scope, driver::FileDescriptor& peer) {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
        peer = driver::FileDescriptor(ends[1]);
        management::FaceDescription description;
        description.persistency = management::FacePersistency::kOnDemand;
        return test.links
            .add_foreign(std::make_unique<driver::StreamChannel>(driver::FileDescriptor(ends[0]),
                                                                 kMaxForeignPacketBytes),
                         {.scope = scope}, std::move(description), test.now)
            .value();
    };
    const auto send = [&](FaceId face, const driver::FileDescriptor& peer, wire::ByteView bytes) {
        REQUIRE(::send(peer.get(), bytes.data(), bytes.size(), 0) ==
                static_cast<ssize_t>(bytes.size()));
        test.links.on_readable(face, test.now);
        return test.node.is_open(face);
    };
    const std::array<std::uint8_t, 4> malformed{wire::kInterest, 2, 9, 0};
    const PacketRef good = test.interest("/nowhere", 1);
    driver::FileDescriptor remote, silent, local;
    const FaceId forwarder = connect(FaceScope::kNonLocal, remote);
    const FaceId unknown = connect(FaceScope::kNonLocal, silent);
    const FaceId program = connect(FaceScope::kLocal, local);
    CHECK_FALSE(send(unknown, silent, malformed));
    CHECK(send(program, local, good.bytes()));
    CHECK_FALSE(send(program, local, malformed));
    CHECK(send(forwarder, remote, good.bytes()));
    CHECK(send(forwarder, remote, malformed));
    CHECK(send(forwarder, remote, malformed));
    CHECK(test.node.face_counters(forwarder).malformed_in == 2);
    CHECK(test.links.counters().sent_malformed == 2);
    const std::array<std::uint8_t, 3> no_packet{'G', 'E', 'T'};
    CHECK_FALSE(send(forwarder, remote, no_packet));
}
