#include "switch_emulator/driver/udp_socket.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace innet::driver {
namespace {

constexpr std::size_t kControlBytes = CMSG_SPACE(sizeof(int));
constexpr std::size_t kReceiveBufferBytes = 65536;

bool fill_address(const std::string& address, std::uint16_t port, sockaddr_in& into) {
    into = {};
    into.sin_family = AF_INET;
    into.sin_port = htons(port);
    return inet_pton(AF_INET, address.c_str(), &into.sin_addr) == 1;
}

std::string failure(const char* call, const std::string& address, std::uint16_t port) {
    return std::string(call) + " " + address + ":" + std::to_string(port) + ": " +
           std::strerror(errno);
}

/// Sets a buffer's size beyond the system's limit where that is allowed, else up to it. The kernel
/// doubles the value for its own bookkeeping.
void set_buffer(int fd, int forced_option, int option, int bytes) {
    const int half = bytes / 2;
    if (::setsockopt(fd, SOL_SOCKET, forced_option, &half, sizeof half) != 0) {
        ::setsockopt(fd, SOL_SOCKET, option, &half, sizeof half);
    }
}

/// Size of each datagram inside a message that the kernel coalesced; the whole message otherwise.
std::size_t coalesced_size(const msghdr& header, std::size_t message_bytes) {
    for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr;
         control = CMSG_NXTHDR(const_cast<msghdr*>(&header), control)) {
        if (control->cmsg_level == SOL_UDP && control->cmsg_type == UDP_GRO) {
            int size = 0;
            std::memcpy(&size, CMSG_DATA(control), sizeof size);
            return size > 0 ? static_cast<std::size_t>(size) : message_bytes;
        }
    }
    return message_bytes;
}

void set_segment_size(msghdr& header, std::span<std::uint8_t> control, std::size_t segment_bytes) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(sizeof(std::uint16_t));
    cmsghdr* message = CMSG_FIRSTHDR(&header);
    message->cmsg_level = SOL_UDP;
    message->cmsg_type = UDP_SEGMENT;
    message->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
    const auto size = static_cast<std::uint16_t>(segment_bytes);
    std::memcpy(CMSG_DATA(message), &size, sizeof size);
}

/// The kernel refuses to cut a message into packets: the device computes no checksums, or the
/// path's MTU is smaller than the packets, which would have to be fragmented.
bool cannot_segment(int error) { return error == EINVAL || error == EIO || error == EMSGSIZE; }

}  // namespace

std::optional<UdpSocket> UdpSocket::open(const UdpEndpoints& endpoints, int receive_buffer_bytes,
                                         int send_buffer_bytes, std::string& error) {
    FileDescriptor fd(endpoints.bound_fd >= 0
                          ? endpoints.bound_fd
                          : ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) {
        error = failure("socket for", endpoints.local_address, endpoints.local_port);
        return std::nullopt;
    }
    sockaddr_in local{};
    sockaddr_in peer{};
    if (!fill_address(endpoints.local_address, endpoints.local_port, local) ||
        !fill_address(endpoints.peer_address, endpoints.peer_port, peer)) {
        error = "not an IPv4 address: " + endpoints.local_address + " or " + endpoints.peer_address;
        return std::nullopt;
    }
    if (endpoints.bound_fd < 0 &&
        ::bind(fd.get(), reinterpret_cast<sockaddr*>(&local), sizeof local) != 0) {
        error = failure("bind", endpoints.local_address, endpoints.local_port);
        return std::nullopt;
    }
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&peer), sizeof peer) != 0) {
        error = failure("connect", endpoints.peer_address, endpoints.peer_port);
        return std::nullopt;
    }
    const int on = 1;
    // Larger buffers and receive offload are improvements, not needs: a kernel that refuses them
    // still carries every packet, more slowly.
    set_buffer(fd.get(), SO_RCVBUFFORCE, SO_RCVBUF, receive_buffer_bytes);
    set_buffer(fd.get(), SO_SNDBUFFORCE, SO_SNDBUF, send_buffer_bytes);
    ::setsockopt(fd.get(), SOL_UDP, UDP_GRO, &on, sizeof on);
    return UdpSocket(std::move(fd));
}

bool UdpSocket::receive(PacketPool& pool, std::vector<PacketRef>& into) {
    std::array<mmsghdr, kReceiveBatch> messages{};
    std::array<iovec, kReceiveBatch> vectors{};
    alignas(cmsghdr) std::array<std::array<std::uint8_t, kControlBytes>, kReceiveBatch> controls{};
    for (std::size_t i = 0; i < kReceiveBatch; ++i) {
        if (!receive_buffers_[i]) {
            receive_buffers_[i] = pool.allocate(kReceiveBufferBytes);
        }
        const std::span<std::uint8_t> room = receive_buffers_[i].writable();
        vectors[i] = {room.data(), room.size()};
        messages[i].msg_hdr.msg_iov = &vectors[i];
        messages[i].msg_hdr.msg_iovlen = 1;
        messages[i].msg_hdr.msg_control = controls[i].data();
        messages[i].msg_hdr.msg_controllen = controls[i].size();
    }
    const int count = ::recvmmsg(fd_.get(), messages.data(), kReceiveBatch, MSG_DONTWAIT, nullptr);
    ++counters_.receive_calls;
    if (count < 0) {
        if (errno == ECONNREFUSED) {
            ++counters_.refused;
            return true;  // the pending error is taken; packets may be waiting behind it
        }
        return false;
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
        deliver(i, messages[i], pool, into);
    }
    return static_cast<std::size_t>(count) == kReceiveBatch;
}

void UdpSocket::deliver(std::size_t slot, const mmsghdr& message, PacketPool& pool,
                        std::vector<PacketRef>& into) {
    const std::size_t total = message.msg_len;
    if ((message.msg_hdr.msg_flags & MSG_TRUNC) != 0 || total == 0) {
        return;
    }
    const std::size_t step = coalesced_size(message.msg_hdr, total);
    const bool copy = total <= kCopyBelowBytes;
    for (std::size_t offset = 0; offset < total; offset += step) {
        const std::size_t size = std::min(step, total - offset);
        if (copy) {
            into.push_back(pool.copy_of(receive_buffers_[slot].bytes().subspan(offset, size)));
        } else {
            into.push_back(receive_buffers_[slot].slice(offset, size));
        }
    }
    if (!copy) {
        receive_buffers_[slot] = PacketRef();
    }
}

std::size_t UdpSocket::run_length(std::span<const OutgoingPacket> packets) const {
    if (!segmentation_offload_) {
        return 1;
    }
    const std::size_t size = packets.front().size();
    std::size_t total = size;
    std::size_t count = 1;
    while (count < packets.size() && count < kMaxSegments) {
        const std::size_t next = packets[count].size();
        if (next > size || total + next > kMaxDatagramBytes) {
            break;
        }
        total += next;
        ++count;
        if (next < size) {
            break;  // only the last segment may be shorter
        }
    }
    return count;
}

std::size_t UdpSocket::send(std::span<const OutgoingPacket> packets) {
    std::size_t taken = 0;
    while (taken < packets.size()) {
        std::array<mmsghdr, kSendBatch> messages{};
        std::array<std::size_t, kSendBatch> runs{};
        alignas(cmsghdr) std::array<std::array<std::uint8_t, kControlBytes>, kSendBatch> controls{};
        // Pointers into send_vectors_ are set once it no longer grows.
        send_vectors_.clear();
        std::array<std::size_t, kSendBatch> first_vector{};
        std::size_t batch = 0;
        std::size_t planned = taken;
        for (; batch < kSendBatch && planned < packets.size(); ++batch) {
            runs[batch] = run_length(packets.subspan(planned));
            first_vector[batch] = send_vectors_.size();
            for (const OutgoingPacket& packet : packets.subspan(planned, runs[batch])) {
                if (packet.header_size > 0) {
                    send_vectors_.push_back(
                        {const_cast<std::uint8_t*>(packet.header.data()), packet.header_size});
                }
                const auto bytes = packet.payload.bytes();
                send_vectors_.push_back({const_cast<std::uint8_t*>(bytes.data()), bytes.size()});
            }
            planned += runs[batch];
        }
        for (std::size_t i = 0; i < batch; ++i) {
            const std::size_t end = i + 1 < batch ? first_vector[i + 1] : send_vectors_.size();
            messages[i].msg_hdr.msg_iov = &send_vectors_[first_vector[i]];
            messages[i].msg_hdr.msg_iovlen = end - first_vector[i];
        }
        std::size_t start = taken;
        for (std::size_t i = 0; i < batch; ++i) {
            if (runs[i] > 1) {
                set_segment_size(messages[i].msg_hdr, controls[i], packets[start].size());
            }
            start += runs[i];
        }
        const int sent =
            ::sendmmsg(fd_.get(), messages.data(), static_cast<unsigned>(batch), MSG_DONTWAIT);
        ++counters_.send_calls;
        if (sent < 0) {
            if (errno == EAGAIN || errno == EWOULDBLOCK) {
                return taken;
            }
            if (runs[0] > 1 && cannot_segment(errno)) {
                segmentation_offload_ = false;
                continue;
            }
            // The first message met an error of its own (a closed port, a too large packet): it is
            // lost, like a packet on the wire; those behind it are not.
            ++(errno == ECONNREFUSED ? counters_.refused : counters_.send_errors);
            taken += errno == ECONNREFUSED ? 0 : runs[0];
            continue;
        }
        counters_.messages_sent += static_cast<std::uint64_t>(sent);
        for (std::size_t i = 0; i < static_cast<std::size_t>(sent); ++i) {
            taken += runs[i];
        }
        if (sent == 0) {
            return taken;
        }
    }
    return taken;
}

}  // namespace innet::driver
