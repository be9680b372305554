#include "switch_emulator/driver/packet_tap.hpp"

#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace innet::driver {
namespace {

/// Room for a burst; the looker-on has as much again.
constexpr int kSendBufferBytes = 8 << 20;

std::uint64_t wall_clock_ns() {
    const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count());
}

iovec vector_of(const void* bytes, std::size_t size) { return {const_cast<void*>(bytes), size}; }

}  // namespace

std::optional<PacketTap> PacketTap::connect(const std::string& path, std::vector<FaceId> faces,
                                            std::string& error) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        error = "the path of the socket is too long: " + path;
        return std::nullopt;
    }
    path.copy(address.sun_path, path.size());
    FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket ||
        ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        error = path + ": " + std::strerror(errno);
        return std::nullopt;
    }
    if (::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kSendBufferBytes,
                     sizeof kSendBufferBytes) != 0) {
        ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes,
                     sizeof kSendBufferBytes);
    }
    return PacketTap(std::move(socket), std::move(faces));
}

bool PacketTap::wants(FaceId face) const {
    return !closed_ && std::find(faces_.begin(), faces_.end(), face) != faces_.end();
}

void PacketTap::on_received(FaceId face, std::span<const PacketRef> packets) {
    if (!wants(face)) return;
    for (const PacketRef& packet : packets) copy(face, false, {}, packet.bytes());
}

void PacketTap::on_sent(FaceId face, std::span<const OutgoingPacket> packets) {
    if (!wants(face)) return;
    for (const OutgoingPacket& packet : packets) {
        copy(face, true, packet.header_bytes(), packet.payload.bytes());
    }
}

void PacketTap::copy(FaceId face, bool sent, wire::ByteView header, wire::ByteView payload) {
    const TapRecord record{wall_clock_ns(), lost_, face, sent ? 1U : 0U};
    std::array<iovec, 3> parts = {vector_of(&record, sizeof record),
                                  vector_of(header.data(), header.size()),
                                  vector_of(payload.data(), payload.size())};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    if (::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return;
    ++lost_;
    closed_ = errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS && errno != EMSGSIZE;
}

}  // namespace innet::driver
