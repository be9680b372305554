#include "switch_emulator/driver/shared_memory_channel.hpp"

#include <unistd.h>

namespace innet::driver {

std::unique_ptr<SharedMemoryChannel> SharedMemoryChannel::open(const SharedMemoryEnd& end,
                                                               std::string& error) {
    const FileDescriptor memory_fd(end.memory_fd);
    FileDescriptor own_event(end.own_event_fd);
    FileDescriptor peer_event(end.peer_event_fd);
    auto memory = LinkMemory::open(memory_fd, end.end, error);
    if (!memory) return nullptr;
    return std::unique_ptr<SharedMemoryChannel>(
        new SharedMemoryChannel(std::move(*memory), std::move(own_event), std::move(peer_event)));
}

SharedMemoryChannel::SharedMemoryChannel(LinkMemory memory, FileDescriptor own_event,
                                         FileDescriptor peer_event)
    : memory_(std::move(memory)),
      own_event_(std::move(own_event)),
      peer_event_(std::move(peer_event)),
      to_peer_(memory_.to_peer()),
      from_peer_(memory_.from_peer()) {
    // The process that was here before may have died while the peer waited for it.
    if (from_peer_.take_waiting_producer()) wake_up_peer();
}

bool SharedMemoryChannel::receive(PacketPool& pool, std::vector<PacketRef>& into) {
    if (!keeps_its_end()) return false;
    if (!awake_) {
        awake_ = true;
        from_peer_.wake();
        take_wake_up();
    }
    std::size_t bytes = 0;
    std::size_t packets = 0;
    for (; packets < kReceiveBatchPackets && bytes < kReceiveBatchBytes; ++packets) {
        const auto packet = from_peer_.front();
        if (packet.empty()) break;
        into.push_back(pool.copy_of(packet));
        bytes += packet.size();
        from_peer_.pop();
    }
    counters_.dropped_framing = from_peer_.bad_framing();
    // Also when nothing came: what could not be cut into packets has left room, too.
    if (from_peer_.take_waiting_producer()) wake_up_peer();
    return packets == kReceiveBatchPackets || bytes >= kReceiveBatchBytes;
}

std::size_t SharedMemoryChannel::send(std::span<const OutgoingPacket> packets) {
    std::size_t taken = 0;
    std::size_t bytes = 0;
    while (taken < packets.size() && keeps_its_end()) {
        const OutgoingPacket& packet = packets[taken];
        if (packet.size() > kMaxPacketBytes) {
            ++counters_.send_errors;  // lost, like a packet on the wire that is too large
            ++taken;
            continue;
        }
        const auto [head, lent, tail] = packet.payload.parts();
        if (!to_peer_.push({packet.header_bytes(), head, lent, tail})) {
            if (to_peer_.wait_for_room()) break;
            continue;
        }
        ++taken;
        ++counters_.messages_sent;
        bytes += packet.size();
        if (bytes >= kWakeUpBytes) {
            bytes = 0;
            wake_up_sleeping_peer();
        }
    }
    // Also when no packet was taken, so that a consumer of a full ring does not sleep.
    if (end_ == ChannelEnd::kOpen) wake_up_sleeping_peer();
    return taken;
}

bool SharedMemoryChannel::rest() {
    awake_ = end_ == ChannelEnd::kOpen && !from_peer_.sleep();
    return !awake_;
}

bool SharedMemoryChannel::keeps_its_end() {
    if (end_ == ChannelEnd::kOpen && !memory_.owned()) end_ = ChannelEnd::kHungUp;
    return end_ == ChannelEnd::kOpen;
}

void SharedMemoryChannel::take_wake_up() {
    std::uint64_t events = 0;
    [[maybe_unused]] const auto taken = ::read(own_event_.get(), &events, sizeof events);
    ++counters_.receive_calls;
}

void SharedMemoryChannel::wake_up_sleeping_peer() {
    if (to_peer_.take_sleeping_consumer()) wake_up_peer();
}

void SharedMemoryChannel::wake_up_peer() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(peer_event_.get(), &one, sizeof one);
    ++counters_.send_calls;
}

}  // namespace innet::driver
