#include "switch_emulator/driver/stream_channel.hpp"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "switch_emulator/driver/stream_framing.hpp"

namespace innet::driver {

namespace {

constexpr std::size_t kBufferBytes = kMaxPacketBytes;
/// Packets up to this size are copied out of the buffer, so that a small one that is kept for a
/// while does not keep a large buffer with it.
constexpr std::size_t kCopyBelowBytes = 2048;

}  // namespace

StreamChannel::StreamChannel(FileDescriptor fd, std::size_t max_packet_bytes)
    : fd_(std::move(fd)), max_packet_bytes_(std::min(max_packet_bytes, kBufferBytes)) {}

bool StreamChannel::receive(PacketPool& pool, std::vector<PacketRef>& into) {
    if (end_ != ChannelEnd::kOpen) return false;
    if (!buffer_) buffer_ = pool.allocate(kBufferBytes);
    const std::span<std::uint8_t> rest = buffer_.writable().subspan(filled_);
    const std::span<std::uint8_t> room = rest.first(std::min(rest.size(), kTurnBytes));
    const ssize_t count = ::recv(fd_.get(), room.data(), room.size(), MSG_DONTWAIT);
    ++counters_.receive_calls;
    if (count <= 0) {
        const bool nothing_yet =
            count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
        if (!nothing_yet) end_ = ChannelEnd::kHungUp;
        if (filled_ == 0) buffer_ = PacketRef();
        return false;
    }
    filled_ += static_cast<std::size_t>(count);
    cut(pool, into);
    return end_ == ChannelEnd::kOpen && static_cast<std::size_t>(count) == room.size();
}

void StreamChannel::cut(PacketPool& pool, std::vector<PacketRef>& into) {
    std::size_t begin = 0;
    while (begin < filled_) {
        const wire::ByteView waiting = buffer_.bytes().subspan(begin, filled_ - begin);
        const Frame frame = front_frame(waiting, max_packet_bytes_);
        if (frame.state == FrameState::kBad || frame.state == FrameState::kForeign) {
            end_ = frame.state == FrameState::kBad ? ChannelEnd::kBadFraming
                                                   : ChannelEnd::kForeignType;
            return;
        }
        if (frame.state == FrameState::kIncomplete) break;
        into.push_back(frame.size <= kCopyBelowBytes ? pool.copy_of(waiting.first(frame.size))
                                                     : buffer_.slice(begin, frame.size));
        begin += frame.size;
    }
    keep_rest(pool, begin);
}

// Where packets share the buffer, the rest moves to another; the channel holds none between
// packets.
void StreamChannel::keep_rest(PacketPool& pool, std::size_t from) {
    const std::size_t rest = filled_ - from;
    if (rest == 0) {
        buffer_ = PacketRef();
    } else if (from != 0 && buffer_.unique()) {
        const auto bytes = buffer_.writable();
        std::memmove(bytes.data(), bytes.data() + from, rest);
    } else if (from != 0) {
        PacketRef next = pool.allocate(kBufferBytes);
        std::memcpy(next.writable().data(), buffer_.bytes().data() + from, rest);
        buffer_ = std::move(next);
    }
    filled_ = rest;
}

std::size_t StreamChannel::send(std::span<const OutgoingPacket> packets) {
    std::size_t taken = 0;
    while (taken < packets.size() && end_ == ChannelEnd::kOpen) {
        std::array<iovec, kMaxVectors> vectors{};
        std::size_t used = 0;
        std::size_t planned = 0;
        std::size_t skip = sent_of_first_;
        for (const OutgoingPacket& packet : packets.subspan(taken)) {
            if (used + 2 > kMaxVectors) break;
            for (wire::ByteView part : {packet.header_bytes(), packet.payload.bytes()}) {
                const std::size_t skipped = std::min(skip, part.size());
                skip -= skipped;
                part = part.subspan(skipped);
                if (part.empty()) continue;
                vectors[used++] = {const_cast<std::uint8_t*>(part.data()), part.size()};
                planned += part.size();
            }
        }
        msghdr message{};
        message.msg_iov = vectors.data();
        message.msg_iovlen = used;
        const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        ++counters_.send_calls;
        if (sent < 0) {
            if (errno == EINTR) continue;
            if (errno != EAGAIN && errno != EWOULDBLOCK) {
                ++counters_.send_errors;
                end_ = ChannelEnd::kHungUp;
            }
            return taken;
        }
        ++counters_.messages_sent;
        queued_at_most_ += static_cast<std::size_t>(sent);
        taken += count_whole(packets.subspan(taken), static_cast<std::size_t>(sent));
        if (static_cast<std::size_t>(sent) < planned) return taken;
    }
    return taken;
}

std::size_t StreamChannel::queued_bytes(std::size_t enough) {
    int queued = 0;
    if (queued_at_most_ > enough && ::ioctl(fd_.get(), SIOCOUTQ, &queued) == 0) {
        queued_at_most_ = static_cast<std::size_t>(queued);
    }
    return queued_at_most_;
}

std::size_t StreamChannel::count_whole(std::span<const OutgoingPacket> packets, std::size_t bytes) {
    std::size_t whole = 0;
    bytes += sent_of_first_;
    for (const OutgoingPacket& packet : packets) {
        const std::size_t size = packet.header_size + packet.payload.size();
        if (bytes < size) break;
        bytes -= size;
        ++whole;
    }
    sent_of_first_ = bytes;
    return whole;
}

}  // namespace innet::driver
