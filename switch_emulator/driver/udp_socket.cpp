#include "switch_emulator/driver/udp_socket.hpp"

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
/// Of sockets that belong to no link of a topology, whose settings say another size.
constexpr int kOwnBufferBytes = 4 << 20;

std::string failure(const char* call, const std::string& address) {
    return std::string(call) + " " + address + ": " + std::strerror(errno);
}

/// Sets a buffer's size beyond the system's limit where that is allowed, else up to it. The kernel
/// doubles the value for its own bookkeeping.
void set_buffer(int fd, int forced_option, int option, int bytes) {
    const int half = bytes / 2;
    if (::setsockopt(fd, SOL_SOCKET, forced_option, &half, sizeof half) != 0) {
        ::setsockopt(fd, SOL_SOCKET, option, &half, sizeof half);
    }
}

/// Whether other sockets of this user may bind to the same port. Not SO_REUSEADDR: with that, any
/// user's socket could take the address over, and receive its packets.
void let_share(int fd, bool shares) {
    const int on = shares ? 1 : 0;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
}

/// Drops packets that arrived between bind and connect, when any peer could send.
void discard_received(int fd) {
    while (::recv(fd, nullptr, 0, MSG_DONTWAIT | MSG_TRUNC) >= 0) {
    }
}

bool is_unix_socket(int fd) {
    int domain = 0;
    socklen_t size = sizeof domain;
    ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
    return domain == AF_UNIX;
}

/// Bound and not blocking; on failure empty, with `error` saying why.
FileDescriptor bound_socket(const SocketAddress& local, bool beside_links, std::string& error) {
    FileDescriptor fd(::socket(local.family(), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) {
        error = failure("socket for", local.to_string());
        return {};
    }
    const int on = 1;
    if (local.is_ipv6()) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    let_share(fd.get(), beside_links);
    if (::bind(fd.get(), local.data(), local.size()) != 0) {
        error = failure("bind", local.to_string());
        return {};
    }
    let_share(fd.get(), false);  // with no second listener
    return fd;
}

/// Larger buffers and receive offload are improvements, not needs: a kernel that refuses them still
/// carries every packet, more slowly.
void improve(int fd, int receive_buffer_bytes, int send_buffer_bytes) {
    const int on = 1;
    set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, receive_buffer_bytes);
    set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, send_buffer_bytes);
    ::setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof on);
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
    if (endpoints.connected_fd >= 0) {
        FileDescriptor connected(endpoints.connected_fd);
        improve(connected.get(), receive_buffer_bytes, send_buffer_bytes);
        const bool is_unix = is_unix_socket(connected.get());
        return UdpSocket(std::move(connected), is_unix, endpoints.datagram_bytes);
    }
    FileDescriptor given(endpoints.bound_fd);
    const bool binds = !given;
    const auto local = SocketAddress::from_numbers(endpoints.local_address, endpoints.local_port);
    const auto peer = SocketAddress::from_numbers(endpoints.peer_address, endpoints.peer_port);
    if (!local || !peer) {
        error = "not an IP address: " + endpoints.local_address + " or " + endpoints.peer_address;
        return std::nullopt;
    }
    FileDescriptor fd = binds ? bound_socket(*local, false, error) : std::move(given);
    if (!fd) return std::nullopt;
    if (::connect(fd.get(), peer->data(), peer->size()) != 0) {
        error = failure("connect", peer->to_string());
        return std::nullopt;
    }
    if (binds) discard_received(fd.get());
    improve(fd.get(), receive_buffer_bytes, send_buffer_bytes);
    if (endpoints.beside_listener) let_share(fd.get(), true);
    return UdpSocket(std::move(fd), false, endpoints.datagram_bytes);
}

std::optional<UdpSocket> UdpSocket::connect(const SocketAddress& peer, std::string& error) {
    FileDescriptor fd(::socket(peer.family(), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd || ::connect(fd.get(), peer.data(), peer.size()) != 0) {
        error = failure("connect", peer.to_string());
        return std::nullopt;
    }
    improve(fd.get(), kOwnBufferBytes, kOwnBufferBytes);
    return UdpSocket(std::move(fd));
}

std::optional<UdpSocket> UdpSocket::listen(const SocketAddress& local, bool beside_links,
                                           std::string& error) {
    FileDescriptor fd = bound_socket(local, beside_links, error);
    if (!fd) return std::nullopt;
    improve(fd.get(), kOwnBufferBytes, kOwnBufferBytes);
    return UdpSocket(std::move(fd));
}

bool UdpSocket::receive_batch(PacketPool& pool, std::vector<PacketRef>& into,
                              std::vector<SocketAddress>* from) {
    std::array<mmsghdr, kReceiveBatch> messages{};
    alignas(cmsghdr) std::array<std::array<std::uint8_t, kControlBytes>, kReceiveBatch> controls{};
    std::array<SocketAddress, kReceiveBatch> senders;
    while (landings_.size() < kReceiveBatch) landings_.emplace_back(datagram_bytes_, pool);
    for (std::size_t i = 0; i < kReceiveBatch; ++i) {
        const std::span<iovec> vectors = landings_[i].vectors();
        messages[i].msg_hdr.msg_iov = vectors.data();
        messages[i].msg_hdr.msg_iovlen = vectors.size();
        // Of a Unix socket's peer the kernel would put descriptors there, and open them here.
        if (!is_unix_) {
            messages[i].msg_hdr.msg_control = controls[i].data();
            messages[i].msg_hdr.msg_controllen = controls[i].size();
        }
        if (from != nullptr) {
            messages[i].msg_hdr.msg_name = senders[i].data();
            messages[i].msg_hdr.msg_namelen = SocketAddress::kMaxSize;
        }
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
        deliver(landings_[i], messages[i], into);
        if (from != nullptr) from->resize(into.size(), senders[i]);
    }
    return static_cast<std::size_t>(count) == kReceiveBatch;
}

void UdpSocket::deliver(FragmentLanding& landing, const mmsghdr& message,
                        std::vector<PacketRef>& into) {
    const std::size_t total = message.msg_len;
    if ((message.msg_hdr.msg_flags & MSG_TRUNC) != 0 || total == 0) {
        return;
    }
    const std::size_t step = coalesced_size(message.msg_hdr, total);
    if (PacketRef whole = landing.join(total, step)) {
        into.push_back(std::move(whole));
        return;
    }
    const bool copies = total <= kCopyBelowBytes;
    for (std::size_t offset = 0; offset < total; offset += step) {
        into.push_back(landing.take(offset, std::min(step, total - offset), copies));
    }
}

std::size_t UdpSocket::run_length(std::span<const OutgoingPacket> packets) const {
    if (!segments()) return 1;
    const std::size_t size = packets.front().size();
    std::size_t total = size;
    std::size_t count = 1;
    while (count < packets.size() && count < kMaxDatagramsOfMessage) {
        const std::size_t next = packets[count].size();
        if (next > size || total + next > kMaxDatagramBytes) {
            break;
        }
        total += next;
        ++count;
        if (next < size) {
            break;  // only the last datagram may be shorter
        }
    }
    return count;
}

UdpSocket::Message UdpSocket::plan_message(std::span<const OutgoingPacket> packets,
                                           const Position& position) {
    const auto rest = packets.subspan(position.packet);
    if (datagram_bytes_ > 0 && rest.front().size() > datagram_bytes_) {
        const FragmentCut cut =
            cut_into_fragments(rest.front(), datagram_bytes_, position.sequence);
        if (cut.fragments > 0) return plan_fragments(rest.front(), cut, position);
    }
    Message message;
    message.first_vector = send_vectors_.size();
    const std::size_t count = run_length(rest);
    if (count > 1) message.datagram_bytes = rest.front().size();
    for (const OutgoingPacket& packet : rest.first(count)) {
        if (packet.header_size > 0) {
            send_vectors_.push_back(
                {const_cast<std::uint8_t*>(packet.header.data()), packet.header_size});
        }
        for (const auto& part : packet.payload.parts()) {
            if (part.empty()) continue;
            send_vectors_.push_back({const_cast<std::uint8_t*>(part.data()), part.size()});
        }
    }
    message.end = {position.packet + count, 0, position.sequence};
    return message;
}

UdpSocket::Message UdpSocket::plan_fragments(const OutgoingPacket& packet, const FragmentCut& cut,
                                             const Position& position) {
    fragment_headers_.reserve(kSendBatch * (1 + kMaxDatagramBytes / datagram_bytes_));
    Message message;
    message.first_vector = send_vectors_.size();
    const std::size_t end = segments() ? cut.fragments : position.fragment + 1;
    for (std::size_t i = position.fragment; i < end; ++i) {
        append_fragment(packet, cut, i, fragment_headers_.emplace_back(), send_vectors_);
    }
    if (end - position.fragment > 1) message.datagram_bytes = cut.datagram_bytes;
    message.end = end < cut.fragments ? Position{position.packet, end, position.sequence}
                                      : Position{position.packet + 1, 0, cut.sequence + end};
    return message;
}

std::size_t UdpSocket::send_batches(std::span<const OutgoingPacket> packets,
                                    const SocketAddress* peer) {
    Position sent_to{0, begun_.fragment, begun_.sequence};
    while (sent_to.packet < packets.size()) {
        std::array<mmsghdr, kSendBatch> messages{};
        std::array<Message, kSendBatch> plans;
        alignas(cmsghdr) std::array<std::array<std::uint8_t, kControlBytes>, kSendBatch> controls{};
        // Pointers into send_vectors_ are set once it no longer grows.
        send_vectors_.clear();
        fragment_headers_.clear();
        std::size_t batch = 0;
        for (Position next = sent_to; batch < kSendBatch && next.packet < packets.size(); ++batch) {
            plans[batch] = plan_message(packets, next);
            next = plans[batch].end;
        }
        for (std::size_t i = 0; i < batch; ++i) {
            const std::size_t first = plans[i].first_vector;
            const std::size_t end =
                i + 1 < batch ? plans[i + 1].first_vector : send_vectors_.size();
            messages[i].msg_hdr.msg_iov = &send_vectors_[first];
            messages[i].msg_hdr.msg_iovlen = end - first;
            if (peer != nullptr) {
                messages[i].msg_hdr.msg_name = const_cast<sockaddr*>(peer->data());
                messages[i].msg_hdr.msg_namelen = peer->size();
            }
            if (plans[i].datagram_bytes > 0) {
                set_segment_size(messages[i].msg_hdr, controls[i], plans[i].datagram_bytes);
            }
        }
        const int sent =
            ::sendmmsg(fd_.get(), messages.data(), static_cast<unsigned>(batch), MSG_DONTWAIT);
        ++counters_.send_calls;
        if (sent < 0) {
            if (errno == EAGAIN || errno == EWOULDBLOCK) break;
            if (plans[0].datagram_bytes > 0 && cannot_segment(errno)) {
                ++counters_.segmentation_refused;
                unsegmented_messages_ = kUnsegmentedMessages;
                continue;
            }
            // The first message met an error of its own (a closed port, a too large packet): it is
            // lost, like a packet on the wire; those behind it are not.
            ++(errno == ECONNREFUSED ? counters_.refused : counters_.send_errors);
            if (errno != ECONNREFUSED) sent_to = plans[0].end;
            continue;
        }
        counters_.messages_sent += static_cast<std::uint64_t>(sent);
        unsegmented_messages_ -= std::min(unsegmented_messages_, static_cast<std::uint32_t>(sent));
        if (sent == 0) break;
        sent_to = plans[static_cast<std::size_t>(sent) - 1].end;
    }
    begun_ = {0, sent_to.fragment, sent_to.sequence};
    return sent_to.packet;
}

}  // namespace innet::driver
