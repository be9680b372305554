#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>

#include "foreign_client.hpp"
#include "switch_emulator/driver/tcp_options.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;

namespace {

constexpr const char* kTcp = "tcp4://127.0.0.1:0";
constexpr const char* kUdp = "udp4://127.0.0.1:0";

}  // namespace

TEST_CASE("programs on Unix, TCP and UDP sockets reach a producer, and each other's cache") {
    const SocketPath path;
    ListeningNode node({{.uri = path.uri()}, {.uri = kTcp}, {.uri = kUdp}});
    ForeignClient producer(node.uris[1]);
    node.await_faces(1);
    node.route_to_newest("/p");
    for (const std::string& uri : node.uris) {
        ForeignClient consumer(uri);
        const std::string full = "/p/" + uri.substr(0, 3);
        consumer.send(interest_packet(full, 1));
        CHECK(producer.receive_name(wire::kInterest) == full);
        producer.send(data_packet(full));
        CHECK(consumer.receive_name(wire::kData) == full);
    }
}

TEST_CASE("a packet may come byte by byte, and many at once") {
    const SocketPath path;
    ListeningNode node({{.uri = path.uri()}});
    ForeignClient client(path.uri());
    for (const std::uint8_t byte : interest_packet("/nowhere", 1)) client.send({byte});
    CHECK(client.receive_nack());
    Bytes many;
    constexpr std::uint32_t kMany = 3000;  // more than one buffer
    for (std::uint32_t i = 0; i < kMany; ++i) {
        const Bytes packet = interest_packet("/nowhere/" + std::to_string(i), i + 2);
        many.insert(many.end(), packet.begin(), packet.end());
    }
    client.send(many);
    for (std::uint32_t i = 0; i < kMany; ++i) CHECK(client.receive_nack());
}

TEST_CASE("large packets of a stream arrive whole however the stream is cut") {
    const SocketPath path;
    ListeningNode node({{.uri = path.uri()}});
    ForeignClient producer(path.uri());
    node.await_faces(1);
    node.route_to_newest("/p");
    ForeignClient consumer(path.uri());
    constexpr int kPackets = 40;
    Bytes interests;
    Bytes answers;
    for (int i = 0; i < kPackets; ++i) {
        const std::string uri = "/p/" + std::to_string(i);
        const Bytes interest = interest_packet(uri, static_cast<std::uint32_t>(i + 1));
        const Bytes answer = data_packet(uri, 8000);
        interests.insert(interests.end(), interest.begin(), interest.end());
        answers.insert(answers.end(), answer.begin(), answer.end());
    }
    consumer.send(interests);
    for (int i = 0; i < kPackets; ++i) producer.receive_name(wire::kInterest);
    producer.send(answers);
    for (int i = 0; i < kPackets; ++i) {
        CHECK(consumer.receive_name(wire::kData) == "/p/" + std::to_string(i));
    }
}

TEST_CASE("bad framing closes that face alone, and is counted") {
    const SocketPath path;
    ListeningNode node({{.uri = path.uri()}});
    ForeignClient good(path.uri());
    ForeignClient bad(path.uri());
    bad.send({6, 253, 0, 1});
    CHECK(bad.is_hung_up());
    ForeignClient stranger(path.uri());
    stranger.send({'G', 'E', 'T', ' ', '/'});
    CHECK(stranger.is_hung_up());
    good.send(interest_packet("/nowhere", 1));
    CHECK(good.receive_nack());
    CHECK(node.counters().bad_framing == 1);
    CHECK(node.counters().foreign_protocol == 1);
    node.await_faces(1);
}

TEST_CASE("a client's first malformed packet closes its connection") {
    const SocketPath path;
    ListeningNode node({{.uri = path.uri()}, {.uri = kTcp}});
    for (const std::string& uri : node.uris) {
        ForeignClient client(uri);
        client.send(interest_packet("/nowhere", 1));
        CHECK(client.receive_nack());
        Bytes packets{wire::kInterest, 2, 9, 0};  // an Interest without a name
        const Bytes next = interest_packet("/nowhere", 2);
        packets.insert(packets.end(), next.begin(), next.end());
        client.send(packets);
        CHECK(client.is_hung_up());
    }
    CHECK(node.counters().sent_malformed == 2);
    CHECK(node.counters().bad_framing == 0);
}

TEST_CASE("a configured connection survives a malformed packet") {
    ListeningNode node({{.uri = kTcp}});
    ForeignClient forwarder(node.uris[0]);
    node.await_faces(1);
    node.thread.call([&](driver::Engine&) {
        node.thread.face_factory().set_persistency(node.thread.link_status()[0].face,
                                                   management::FacePersistency::kPersistent);
    });
    forwarder.send({wire::kInterest, 2, 9, 0});
    forwarder.send(interest_packet("/nowhere", 1));
    CHECK(forwarder.receive_nack());
    CHECK(node.links()[0].face_counters.malformed_in == 1);
    CHECK(node.counters().sent_malformed == 0);
}

TEST_CASE("a disconnect removes the face's routes, and its number is reused") {
    const SocketPath path;
    ListeningNode node({{.uri = path.uri()}});
    ForeignClient consumer(path.uri());
    node.await_faces(1);
    for (std::uint32_t round = 1; round <= 3; ++round) {
        ForeignClient producer(path.uri());
        node.await_faces(2);
        CHECK(node.links().back().face == 1);
        node.route_to_newest("/p");
        consumer.send(interest_packet("/p/x", round));
        CHECK(producer.receive_name(wire::kInterest) == "/p/x");
        {
            const ForeignClient leaving = std::move(producer);
        }
        CHECK(consumer.receive_nack());  // what was asked of it is refused at once
        node.await_faces(1);
    }
    CHECK(node.counters().closed == 3);
}

TEST_CASE("an idle UDP peer is removed, an active one stays") {
    ListeningNode node({{.uri = kUdp, .udp_idle_timeout = 50ms}});
    ForeignClient client(node.uris[0]);
    client.send(interest_packet("/nowhere", 1));
    CHECK(client.receive_nack());
    node.await([&] { return node.counters().closed == 1; });
    client.send(interest_packet("/nowhere", 2));
    CHECK(client.receive_nack());
    CHECK(node.counters().opened == 2);
}

TEST_CASE(
    "UDP peers beyond their share displace the one silent for longest, and no local program") {
    const SocketPath path;
    ListeningNode node({{.uri = path.uri()}, {.uri = kUdp}});
    const std::size_t share = driver::most_links(driver::LinkKind::kUdpPeer);
    std::vector<ForeignClient> peers;
    const auto exchange = [](ForeignClient& client, std::uint32_t nonce) {
        client.send(interest_packet("/nowhere/" + std::to_string(nonce), nonce));
        CHECK(client.receive_nack());
    };
    for (std::uint32_t i = 1; i <= share; ++i) exchange(peers.emplace_back(node.uris[1]), i);
    exchange(peers[0], 1001);  // so that the second is the one silent for longest
    const std::string silent = node.links()[1].remote_uri;
    const auto is_open = [&](const std::string& uri) {
        return std::ranges::any_of(node.links(),
                                   [&](const auto& link) { return link.remote_uri == uri; });
    };
    CHECK(is_open(silent));
    ForeignClient newcomer(node.uris[1]);
    exchange(newcomer, 1002);
    CHECK_FALSE(is_open(silent));
    CHECK(node.links().size() == share);
    CHECK(node.counters().evicted == 1);

    ForeignClient program(path.uri());
    exchange(program, 1003);
    CHECK(node.counters().refused == 0);
    exchange(peers[1], 1004);  // who was displaced is welcome again
    CHECK(node.counters().evicted == 2);
}

TEST_CASE("of connections, each kind is refused beyond its own share") {
    const SocketPath path;
    ListeningNode node({{.uri = path.uri()}, {.uri = kUdp}});
    const std::size_t share = driver::most_links(driver::LinkKind::kLocal);
    std::vector<ForeignClient> programs;
    for (std::uint32_t i = 1; i <= share; ++i) {
        programs.emplace_back(path.uri()).send(interest_packet("/nowhere", i));
        CHECK(programs.back().receive_nack());
    }
    ForeignClient refused(path.uri());
    CHECK(refused.is_hung_up());
    CHECK(node.counters().refused == 1);
    ForeignClient peer(node.uris[1]);
    peer.send(interest_packet("/nowhere", 1));
    CHECK(peer.receive_nack());
}

TEST_CASE("silent TCP connections do not exhaust the places of other programs") {
    const SocketPath path;
    ListeningNode node({{.uri = path.uri()}, {.uri = kTcp}});
    ForeignClient early(node.uris[1]);
    early.send(interest_packet("/nowhere", 1));
    CHECK(early.receive_nack());
    const std::size_t share = driver::most_links(driver::LinkKind::kLocalTcp);
    std::vector<ForeignClient> silent;
    for (std::size_t i = 1; i < share; ++i) silent.emplace_back(node.uris[1]);
    node.await_faces(share);
    for (const std::string& uri : node.uris) {
        ForeignClient program(uri);
        program.send(interest_packet("/nowhere", 2));
        CHECK(program.receive_nack());
    }
    CHECK(silent[0].is_hung_up());
    CHECK(node.counters().evicted == 1);
    CHECK(node.counters().refused == 0);
    early.send(interest_packet("/nowhere", 3));
    CHECK(early.receive_nack());
}

TEST_CASE("a TCP connection whose peer vanishes times out") {
    const driver::FileDescriptor fd(::socket(AF_INET, SOCK_STREAM, 0));
    driver::set_tcp_options(fd.get());
    int value = 0;
    socklen_t size = sizeof value;
    REQUIRE(::getsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &value, &size) == 0);
    CHECK(value == 1);
    REQUIRE(::getsockopt(fd.get(), IPPROTO_TCP, TCP_KEEPIDLE, &value, &size) == 0);
    CHECK(value <= 60);
}

TEST_CASE("peers of one UDP port are distinguished by their addresses") {
    ListeningNode node({{.uri = kUdp}});
    ForeignClient producer(node.uris[0]);
    producer.send(interest_packet("/nowhere", 1));
    CHECK(producer.receive_nack());
    node.route_to_newest("/p");
    ForeignClient first(node.uris[0]);
    ForeignClient second(node.uris[0]);
    first.send(interest_packet("/p/a", 2));
    second.send(interest_packet("/p/b", 3));
    producer.receive_name(wire::kInterest);
    producer.receive_name(wire::kInterest);
    producer.send(data_packet("/p/b"));
    producer.send(data_packet("/p/a"));
    CHECK(first.receive_name(wire::kData) == "/p/a");
    CHECK(second.receive_name(wire::kData) == "/p/b");
}

TEST_CASE("a peer that does not read holds a bounded number of packets and delays no other") {
    const SocketPath path;
    ListeningNode node({{.uri = path.uri()}});
    ForeignClient producer(path.uri());
    node.await_faces(1);
    node.route_to_newest("/p");
    ForeignClient deaf(path.uri());
    constexpr std::uint32_t kPackets = 1500;  // of 8 KB
    for (std::uint32_t i = 0; i < kPackets; ++i) {
        const std::string uri = "/p/" + std::to_string(i);
        deaf.send(interest_packet(uri, i + 1));
        CHECK(producer.receive_name(wire::kInterest) == uri);
        producer.send(data_packet(uri, 8000));
    }
    ForeignClient other(path.uri());
    other.send(interest_packet("/p/other", kPackets + 1));
    CHECK(producer.receive_name(wire::kInterest) == "/p/other");
    producer.send(data_packet("/p/other"));
    CHECK(other.receive_name(wire::kData) == "/p/other");
    const driver::LinkStatus status = node.links()[1];
    CHECK(status.backlog_packets <= (8U << 20) / 8000);
    CHECK(status.backlog_dropped > 0);
    CHECK(status.backlog_bytes <= 8U << 20);
    // Not more than that, though each came in a receive buffer of 66 KiB.
    CHECK(node.packet_bytes_in_use() < 10U << 20);
    CHECK(deaf.receive_name(wire::kData) == "/p/0");  // whole packets, in their order
    CHECK(deaf.receive_name(wire::kData) == "/p/1");
}

TEST_CASE("a flood of useless Interests is throttled") {
    const SocketPath path;
    ListeningNode node({{.uri = path.uri()}});
    ForeignClient flooder(path.uri());
    constexpr std::uint32_t kFlood = 2000;
    Bytes flood;
    for (std::uint32_t i = 0; i < kFlood; ++i) {
        const Bytes packet = interest_packet("/nowhere/" + std::to_string(i), i + 1);
        flood.insert(flood.end(), packet.begin(), packet.end());
    }
    const auto start = std::chrono::steady_clock::now();
    flooder.send(flood);
    for (std::uint32_t i = 0; i < kFlood; ++i) CHECK(flooder.receive_nack());
    flooder.send(interest_packet("/nowhere/after", kFlood + 1));
    CHECK(flooder.receive_nack());
    // 20 us of pause for each that was rejected before the last were read.
    CHECK(std::chrono::steady_clock::now() - start >= 20ms);
}

TEST_CASE("a node removes its own Unix socket file at its end, and no other") {
    const SocketPath path;
    {
        ListeningNode node({{.uri = path.uri()}});
        CHECK(path.exists());
        driver::NodeThread second({}, {}, {}, security::make_digest_signer());
        std::string error;
        CHECK_FALSE(second.listen({.uri = path.uri()}, error));
        CHECK(error.find("another forwarder listens") != std::string::npos);
        CHECK(second.listen({.uri = path.uri(), .takes_over = true}, error));
        node.thread.stop("over");
        CHECK(path.exists());
    }
    CHECK_FALSE(path.exists());
}

TEST_CASE("a socket that a dead process has left is replaced, another file is not") {
    const SocketPath path;
    {
        const driver::FileDescriptor dead(::socket(AF_UNIX, SOCK_STREAM, 0));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.path.copy(address.sun_path, sizeof address.sun_path);
        REQUIRE(::bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    }
    CHECK(path.exists());
    const ListeningNode node({{.uri = path.uri()}});
    const driver::FileDescriptor client(::open(path.path.c_str(), O_RDONLY));
    driver::NodeThread other({}, {}, {}, security::make_digest_signer());
    std::string error;
    CHECK_FALSE(other.listen({.uri = "unix:///dev/null"}, error));
    CHECK_FALSE(other.listen({.uri = "unix:///tmp/" + std::string(120, 'x')}, error));
    CHECK(error.find("107 bytes") != std::string::npos);
    CHECK_FALSE(other.listen({.uri = "ws://example"}, error));
}

TEST_CASE("/localhost names are served to local clients over every kind of socket") {
    const SocketPath path;
    ListeningNode node({{.uri = path.uri()}, {.uri = kTcp}, {.uri = kUdp}});
    for (const std::string& uri : node.uris) {
        ForeignClient client(uri);
        client.send(interest_packet("/localhost/x", 1));
        CHECK(client.receive_nack());  // no route, rather than silence
    }
}
