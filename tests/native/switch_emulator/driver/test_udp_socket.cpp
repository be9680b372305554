#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "switch_emulator/driver/udp_socket.hpp"
#include "transport/wire/lp.hpp"

using namespace innet;
using namespace innet::driver;

namespace {

constexpr const char* kLoopback = "127.0.0.1";

/// A socket bound to a free port of the loopback.
struct Bound {
    Bound() : fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        auto* generic = reinterpret_cast<sockaddr*>(&address);
        REQUIRE(::bind(fd, generic, size) == 0);
        REQUIRE(::getsockname(fd, generic, &size) == 0);
        port = ntohs(address.sin_port);
    }
    int fd;
    std::uint16_t port = 0;
};

UdpEndpoints endpoints(const Bound& local, const Bound& peer) {
    UdpEndpoints result;
    result.local_address = result.peer_address = kLoopback;
    result.local_port = local.port;
    result.peer_port = peer.port;
    return result;
}

UdpSocket open(const UdpEndpoints& endpoints) {
    std::string error;
    auto socket = UdpSocket::open(endpoints, 1 << 20, 1 << 20, error);
    REQUIRE_MESSAGE(socket, error);
    return std::move(*socket);
}

UdpSocket open(const Bound& local, const Bound& peer, std::size_t datagram_bytes = 0) {
    UdpEndpoints result = endpoints(local, peer);
    result.bound_fd = local.fd;
    result.datagram_bytes = datagram_bytes;
    return open(result);
}

UdpSocket open(int connected_fd) {
    UdpEndpoints result;
    result.connected_fd = connected_fd;
    return open(result);
}

/// Whether a socket that wants to share its address by `option` is refused this one.
bool refused(const char* address, std::uint16_t port, int option) {
    const driver::FileDescriptor fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    REQUIRE(::setsockopt(fd.get(), SOL_SOCKET, option, &on, sizeof on) == 0);
    const SocketAddress wanted = SocketAddress::from_numbers(address, port).value();
    return ::bind(fd.get(), wanted.data(), wanted.size()) != 0 && errno == EADDRINUSE;
}

/// The sockets at the two ends of a link.
struct Ends {
    UdpSocket left, right;
};

Ends udp_ends(std::size_t datagram_bytes = 0) {
    Bound left, right;
    return {open(left, right, datagram_bytes), open(right, left, datagram_bytes)};
}

/// Sockets that another process has bound and connected, as the agent of a machine does.
Ends connected_ends(const char* address, std::size_t datagram_bytes) {
    std::array<int, 2> fds{};
    std::array<SocketAddress, 2> names;
    for (std::size_t i = 0; i < 2; ++i) {
        const SocketAddress local = SocketAddress::from_numbers(address, 0).value();
        fds[i] = ::socket(local.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
        REQUIRE(::bind(fds[i], local.data(), local.size()) == 0);
        names[i] = SocketAddress::of_socket(fds[i]).value();
    }
    std::array<UdpEndpoints, 2> ends;
    for (std::size_t i = 0; i < 2; ++i) {
        REQUIRE(::connect(fds[i], names[1 - i].data(), names[1 - i].size()) == 0);
        ends[i].connected_fd = fds[i];
        ends[i].datagram_bytes = datagram_bytes;
    }
    return {open(ends[0]), open(ends[1])};
}

Ends unix_ends() {
    std::array<int, 2> fds{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fds.data()) == 0);
    return {open(fds[0]), open(fds[1])};
}

/// Two sockets of one link.
struct Wire {
    explicit Wire(Ends ends = udp_ends())
        : left(std::move(ends.left)), right(std::move(ends.right)) {}
    PacketPool pool;
    UdpSocket left;
    UdpSocket right;

    /// A packet of `size` bytes, of which the header takes up to four, that tells its number.
    OutgoingPacket packet(std::size_t number, std::size_t size) {
        OutgoingPacket result;
        result.header_size = static_cast<std::uint8_t>(size > 8 ? 4 : 0);
        result.header.fill(0xaa);
        result.payload = pool.allocate(size - result.header_size);
        for (std::uint8_t& byte : result.payload.writable()) {
            byte = static_cast<std::uint8_t>(number);
        }
        return result;
    }

    /// Sends packets of these sizes from left to right; what arrives, until it is all there or
    /// nothing more comes.
    std::vector<PacketRef> carry(const std::vector<std::size_t>& sizes) {
        std::vector<OutgoingPacket> packets;
        for (const std::size_t size : sizes) packets.push_back(packet(packets.size(), size));
        CHECK(left.send(packets) == packets.size());
        std::vector<PacketRef> arrived;
        while (arrived.size() < sizes.size()) {
            pollfd polled{right.fd(), POLLIN, 0};
            if (::poll(&polled, 1, 1000) != 1) break;
            while (right.receive(pool, arrived)) {
            }
        }
        return arrived;
    }

    void check_carries(const std::vector<std::size_t>& sizes) {
        const std::vector<PacketRef> arrived = carry(sizes);
        REQUIRE(arrived.size() == sizes.size());
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            REQUIRE(arrived[i].size() == sizes[i]);
            const std::size_t header = sizes[i] > 8 ? 4 : 0;
            CHECK(arrived[i].bytes().front() == (header > 0 ? 0xaa : i));
            CHECK(arrived[i].bytes()[header] == i);
            CHECK(arrived[i].bytes().back() == i);
        }
    }
};

}  // namespace

TEST_CASE("packets of one size are sent in few messages and arrive in order") {
    Wire wire;
    wire.check_carries(std::vector<std::size_t>(100, 900));
    CHECK(wire.left.counters().messages_sent < 100);
    wire.check_carries(std::vector<std::size_t>(100, 40));
    wire.check_carries(std::vector<std::size_t>(12, 9000));
}

TEST_CASE("packets of any sizes arrive complete and in order") {
    bool over_unix = false;
    SUBCASE("over UDP") {}
    SUBCASE("over Unix sockets") { over_unix = true; }
    Wire wire(over_unix ? unix_ends() : udp_ends());
    wire.check_carries({1});
    wire.check_carries({65507, 1, 65507});
    wire.check_carries({40, 40, 900, 900, 900, 40, 9000, 8999, 9000, 9000, 2048, 2049, 1, 2, 1});
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i < 120; ++i) sizes.push_back(1 + (i * 577) % 1500);
    wire.check_carries(sizes);
}

TEST_CASE("an empty datagram from another address is not a packet") {
    Wire wire;
    CHECK(::send(wire.left.fd(), nullptr, 0, 0) == 0);
    wire.check_carries({100, 100});
}

TEST_CASE("a path without segmentation offload gets its packets one by one") {
    Wire wire;
    const int on = 1;  // the kernel does not segment where it computes no checksums
    REQUIRE(::setsockopt(wire.left.fd(), SOL_SOCKET, SO_NO_CHECK, &on, sizeof on) == 0);
    wire.check_carries(std::vector<std::size_t>(50, 900));
    CHECK(wire.left.counters().messages_sent == 50);
    CHECK(wire.left.counters().segmentation_refused == 1);
    CHECK(wire.left.counters().send_errors == 0);
}

TEST_CASE("segmentation offload is used again when the path supports it again") {
    Wire wire;
    const auto set_no_check = [&](int on) {
        REQUIRE(::setsockopt(wire.left.fd(), SOL_SOCKET, SO_NO_CHECK, &on, sizeof on) == 0);
    };
    set_no_check(1);
    wire.check_carries(std::vector<std::size_t>(50, 900));
    set_no_check(0);
    for (int i = 0; i < 100; ++i) wire.check_carries(std::vector<std::size_t>(50, 900));
    const std::uint64_t before = wire.left.counters().messages_sent;
    wire.check_carries(std::vector<std::size_t>(50, 900));
    CHECK(wire.left.counters().messages_sent - before < 50);
    CHECK(wire.left.counters().segmentation_refused == 1);
}

TEST_CASE("packets larger than a datagram arrive complete, in one message each") {
    constexpr std::size_t kDatagram = 1452;
    Ends ends = udp_ends(kDatagram);
    SUBCASE("over sockets of its own") {}
    SUBCASE("over sockets that were connected before") {
        ends = connected_ends("127.0.0.1", kDatagram);
    }
    SUBCASE("over sockets of IPv6 that were connected before") {
        ends = connected_ends("::1", kDatagram);
    }
    Wire wire(std::move(ends));
    std::vector<OutgoingPacket> packets;
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i < 40; ++i) {
        sizes.push_back(i % 3 == 0 ? 100 + i : 1450 + 777 * i);
        OutgoingPacket& packet = packets.emplace_back();
        packet.payload = wire.pool.allocate(sizes.back());
        const auto bytes = packet.payload.writable();
        std::ranges::fill(bytes, static_cast<std::uint8_t>(i));
        wire::Writer writer(bytes);
        writer.header(wire::kData, bytes.size() - (bytes.size() < 255 ? 2 : 4));
    }
    const int on = 1;
    bool joins = true;
    SUBCASE("with segmentation offload") {}
    SUBCASE("where the kernel does not segment, each fragment alone") {
        REQUIRE(::setsockopt(wire.left.fd(), SOL_SOCKET, SO_NO_CHECK, &on, sizeof on) == 0);
        joins = false;
    }
    // Of every second packet the bytes in the middle are elsewhere.
    std::vector<std::vector<std::uint8_t>> lenders;
    for (std::size_t i = 1; i < packets.size(); i += 2) {
        lenders.emplace_back(packets[i].payload.size() - 99, std::uint8_t{0xee});
    }
    for (std::size_t i = 1; i < packets.size(); i += 2) {
        packets[i].payload.lend(7, lenders[i / 2], nullptr);
    }
    CHECK(wire.left.send(packets) == packets.size());
    for (std::size_t i = 1; i < packets.size(); i += 2) {
        CHECK(packets[i].payload.parts()[1].data() == lenders[i / 2].data());
    }
    std::vector<PacketRef> arrived;
    for (pollfd polled{wire.right.fd(), POLLIN, 0}; ::poll(&polled, 1, 200) == 1;) {
        while (wire.right.receive(wire.pool, arrived)) {
        }
    }
    CHECK(wire.left.counters().send_errors == 0);
    if (joins) {
        REQUIRE(arrived.size() == packets.size());
        for (std::size_t i = 0; i < packets.size(); ++i) {
            CHECK(std::ranges::equal(arrived[i].bytes(), packets[i].payload.bytes()));
        }
        return;
    }
    std::vector<std::uint8_t> pieces, all;
    for (const PacketRef& one : arrived) {
        const auto payload = wire::LpView::parse(one.bytes()).value().payload();
        CHECK(one.size() <= kDatagram);
        pieces.insert(pieces.end(), payload.begin(), payload.end());
    }
    for (const OutgoingPacket& one : packets) {
        const auto bytes = one.payload.bytes();
        all.insert(all.end(), bytes.begin(), bytes.end());
    }
    CHECK(pieces == all);
}

TEST_CASE("only a packet that no datagram can hold is lost") {
    Wire wire;
    const std::vector<PacketRef> arrived = wire.carry({100, 66000, 200});
    REQUIRE(arrived.size() == 2);
    CHECK(arrived[0].size() == 100);
    CHECK(arrived[1].size() == 200);
    CHECK(wire.left.counters().send_errors == 1);
}

TEST_CASE("a send to a closed peer succeeds and reports that it is closed") {
    Wire wire;
    {
        const UdpSocket closed = std::move(wire.right);
    }
    std::vector<OutgoingPacket> packets;
    for (std::size_t i = 0; i < 40; ++i) packets.push_back(wire.packet(i, 100 + i));
    CHECK(wire.left.send(packets) == packets.size());
    std::vector<PacketRef> arrived;
    CHECK(wire.left.receive(wire.pool, arrived));
    CHECK(wire.left.counters().refused == 1);
    CHECK(!wire.left.receive(wire.pool, arrived));
    CHECK(arrived.empty());
}

TEST_CASE("a link's address is shared only where the link allows it") {
    std::uint16_t port = 0;
    const Bound peer;
    UdpEndpoints ends;
    {
        const Bound free;
        ends = endpoints(free, peer);
        port = free.port;
        ::close(free.fd);
    }
    const UdpSocket link = open(ends);
    for (const char* address : {kLoopback, "0.0.0.0"}) {
        CHECK(refused(address, port, SO_REUSEADDR));
        CHECK(refused(address, port, SO_REUSEPORT));
    }
    std::string error;
    const auto listens =
        UdpSocket::listen(SocketAddress::from_numbers("0.0.0.0", port).value(), true, error);
    CHECK_FALSE(listens);
}

TEST_CASE("one listener of the same user can share the port of a link that allows it") {
    const Bound free, peer;
    UdpEndpoints ends = endpoints(free, peer);
    ::close(free.fd);
    ends.beside_listener = true;
    const UdpSocket link = open(ends);
    CHECK(refused(kLoopback, free.port, SO_REUSEADDR));
    const SocketAddress all = SocketAddress::from_numbers("0.0.0.0", free.port).value();
    std::string error;
    const auto listener = UdpSocket::listen(all, true, error);
    REQUIRE_MESSAGE(listener, error);
    CHECK(refused("0.0.0.0", free.port, SO_REUSEADDR));
    CHECK_FALSE(UdpSocket::listen(all, true, error));
}

TEST_CASE("a Unix socket whose peer does not read accepts what fits and reports that it is full") {
    Wire wire(unix_ends());
    CHECK(wire.left.room_needs_reader());
    std::vector<OutgoingPacket> packets;
    for (std::size_t i = 0; i < 1000; ++i) packets.push_back(wire.packet(i, 9000));
    const std::size_t taken = wire.left.send(packets);
    CHECK(taken > 10);
    CHECK(taken < packets.size());
    CHECK(wire.left.send(packets) == 0);
    std::vector<PacketRef> arrived;
    while (wire.right.receive(wire.pool, arrived)) {
    }
    CHECK(arrived.size() == taken);
    CHECK(wire.left.send(packets) > 0);
}

TEST_CASE("descriptors that a peer sends are not received") {
    std::array<int, 2> fds{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fds.data()) == 0);
    PacketPool pool;
    UdpSocket socket = open(fds[0]);
    std::uint8_t byte = 1;
    iovec bytes{&byte, 1};
    alignas(cmsghdr) std::array<std::uint8_t, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fds[1], sizeof(int));
    REQUIRE(::sendmsg(fds[1], &message, 0) == 1);
    const int free_before = ::dup(fds[1]);
    ::close(free_before);
    std::vector<PacketRef> arrived;
    socket.receive(pool, arrived);
    CHECK(arrived.size() == 1);
    const driver::FileDescriptor free_after(::dup(fds[1]));
    CHECK(free_after.get() == free_before);
    ::close(fds[1]);
}
