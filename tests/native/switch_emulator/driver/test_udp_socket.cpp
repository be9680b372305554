#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>

#include <cstring>

#include "switch_emulator/driver/udp_socket.hpp"

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

UdpSocket open(const Bound& local, const Bound& peer) {
    std::string error;
    auto socket = UdpSocket::open({kLoopback, local.port, kLoopback, peer.port, local.fd}, 1 << 20,
                                  1 << 20, error);
    REQUIRE_MESSAGE(socket, error);
    return std::move(*socket);
}

/// Two sockets of one link.
struct Wire {
    Bound left_end, right_end;
    PacketPool pool;
    UdpSocket left = open(left_end, right_end);
    UdpSocket right = open(right_end, left_end);

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

TEST_CASE("packets of one size leave in few messages and arrive whole, in order") {
    Wire wire;
    wire.check_carries(std::vector<std::size_t>(100, 900));
    CHECK(wire.left.counters().messages_sent < 100);
    wire.check_carries(std::vector<std::size_t>(100, 40));
    wire.check_carries(std::vector<std::size_t>(12, 9000));
}

TEST_CASE("packets of any sizes arrive whole, in order") {
    Wire wire;
    wire.check_carries({1});
    wire.check_carries({65507, 1, 65507});
    wire.check_carries({40, 40, 900, 900, 900, 40, 9000, 8999, 9000, 9000, 2048, 2049, 1, 2, 1});
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i < 120; ++i) sizes.push_back(1 + (i * 577) % 1500);
    wire.check_carries(sizes);
}

TEST_CASE("an empty datagram from elsewhere is no packet") {
    Wire wire;
    CHECK(::send(wire.left.fd(), nullptr, 0, 0) == 0);
    wire.check_carries({100, 100});
}

TEST_CASE("a path that cannot segment gets its packets one by one") {
    Wire wire;
    const int on = 1;  // the kernel does not segment where it computes no checksums
    REQUIRE(::setsockopt(wire.left.fd(), SOL_SOCKET, SO_NO_CHECK, &on, sizeof on) == 0);
    wire.check_carries(std::vector<std::size_t>(50, 900));
    CHECK(wire.left.counters().messages_sent == 50);
    CHECK(wire.left.counters().send_errors == 0);
}

TEST_CASE("a packet that no datagram can hold is lost alone") {
    Wire wire;
    const std::vector<PacketRef> arrived = wire.carry({100, 66000, 200});
    REQUIRE(arrived.size() == 2);
    CHECK(arrived[0].size() == 100);
    CHECK(arrived[1].size() == 200);
    CHECK(wire.left.counters().send_errors == 1);
}

TEST_CASE("a closed peer takes everything, and says so") {
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
