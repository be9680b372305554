#pragma once
// A connected stream, Unix or TCP: packets follow each other without anything between.

#include <sys/uio.h>

#include <array>

#include "switch_emulator/driver/channel.hpp"
#include "switch_emulator/driver/file_descriptor.hpp"

namespace innet::driver {

class StreamChannel final : public Channel {
  public:
    /// `fd` is connected and does not block. A packet of more than `max_packet_bytes` is bad
    /// framing.
    StreamChannel(FileDescriptor fd, std::size_t max_packet_bytes);

    /// Maximum bytes of one `receive`: the face's turn, as in deficit round robin (M. Shreedhar and
    /// G. Varghese, SIGCOMM 1995). Further bytes wait in the kernel's buffer, and then at the
    /// sender.
    static constexpr std::size_t kTurnBytes = 16 * 1024;

    int fd() const override { return fd_.get(); }
    bool receive(PacketPool& pool, std::vector<PacketRef>& into) override;
    std::size_t send(std::span<const OutgoingPacket> packets) override;
    std::size_t queued_bytes(std::size_t enough) override;
    bool is_stream() const override { return true; }
    ChannelEnd end() const override { return end_; }
    const SocketCounters& counters() const override { return counters_; }

  private:
    static constexpr std::size_t kMaxVectors = 64;

    /// Cuts what has been received into packets, and keeps the rest.
    void cut(PacketPool& pool, std::vector<PacketRef>& into);
    void keep_rest(PacketPool& pool, std::size_t from);
    /// Takes `bytes` that were sent off the front; the number of whole packets among them.
    std::size_t count_whole(std::span<const OutgoingPacket> packets, std::size_t bytes);

    FileDescriptor fd_;
    std::size_t max_packet_bytes_;
    PacketRef buffer_;        ///< empty while nothing of a packet is here
    std::size_t filled_ = 0;  ///< bytes of `buffer_`
    std::size_t sent_of_first_ = 0;
    std::size_t queued_at_most_ = 0;  ///< at the last query of the kernel, plus bytes sent since
    ChannelEnd end_ = ChannelEnd::kOpen;
    SocketCounters counters_;
};

}  // namespace innet::driver
