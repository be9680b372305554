#pragma once
// A link to another process of this machine over shared memory. An eventfd at each end wakes up a
// sleeping consumer.

#include <memory>
#include <string>

#include "switch_emulator/driver/channel.hpp"
#include "switch_emulator/driver/link_memory.hpp"
#include "switch_emulator/driver/packet_ring.hpp"

namespace innet::driver {

/// Descriptors are owned by the channel from then on.
struct SharedMemoryEnd {
    unsigned end = 0;  ///< 0 or 1: which of the link's two this one is
    int memory_fd = -1;
    int own_event_fd = -1;   ///< eventfd that this end waits for
    int peer_event_fd = -1;  ///< eventfd that the other one waits for
};

class SharedMemoryChannel final : public Channel {
  public:
    /// On failure null, with `error` saying why.
    static std::unique_ptr<SharedMemoryChannel> open(const SharedMemoryEnd& end,
                                                     std::string& error);

    int fd() const override { return own_event_.get(); }
    bool writable_with_room() const override { return false; }
    bool room_needs_reader() const override { return true; }
    bool receive(PacketPool& pool, std::vector<PacketRef>& into) override;
    std::size_t send(std::span<const OutgoingPacket> packets) override;
    bool takes_parts() const override { return true; }
    bool awake() const override { return awake_; }
    bool rest() override;
    ChannelEnd end() const override { return end_; }
    const SocketCounters& counters() const override { return counters_; }

  private:
    static constexpr std::size_t kReceiveBatchPackets = 64;
    static constexpr std::size_t kReceiveBatchBytes = std::size_t{128} << 10;
    /// A sleeping consumer is woken up once so much is there, while the rest is copied. It handles
    /// these packets for longer than the producer copies the next, so it does not sleep between
    /// them; after the first small packet it would.
    static constexpr std::size_t kWakeUpBytes = std::size_t{64} << 10;

    SharedMemoryChannel(LinkMemory memory, FileDescriptor own_event, FileDescriptor peer_event);
    bool keeps_its_end();
    void take_wake_up();
    void wake_up_sleeping_peer();
    void wake_up_peer();

    LinkMemory memory_;
    FileDescriptor own_event_;
    FileDescriptor peer_event_;
    RingProducer to_peer_;
    RingConsumer from_peer_;
    bool awake_ = true;
    ChannelEnd end_ = ChannelEnd::kOpen;
    SocketCounters counters_;
};

}  // namespace innet::driver
