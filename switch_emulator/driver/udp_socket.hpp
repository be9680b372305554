#pragma once
// A connected UDP socket that moves packets in batches: UDP_SEGMENT on the way out, UDP_GRO on the
// way in, recvmmsg and sendmmsg around both.

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "switch_emulator/driver/file_descriptor.hpp"
#include "switch_emulator/forwarding/face.hpp"
#include "transport/buffer/packet_ref.hpp"

namespace innet::driver {

struct UdpEndpoints {
    std::string local_address;  ///< IPv4, dotted
    std::uint16_t local_port = 0;
    std::string peer_address;
    std::uint16_t peer_port = 0;
    /// A socket bound already (inherited), or -1 to bind one here. Owned by the UdpSocket from then
    /// on.
    int bound_fd = -1;
};

struct SocketCounters {
    std::uint64_t receive_calls = 0;
    std::uint64_t send_calls = 0;
    std::uint64_t messages_sent = 0;  ///< after segmentation offload: what the kernel was handed
    std::uint64_t refused = 0;        ///< the peer's port was closed (ICMP)
    std::uint64_t send_errors = 0;
};

class UdpSocket {
  public:
    /// Binds and connects. On failure: nothing, with `error` saying which call failed and why.
    static std::optional<UdpSocket> open(const UdpEndpoints& endpoints, int receive_buffer_bytes,
                                         int send_buffer_bytes, std::string& error);

    int fd() const { return fd_.get(); }

    /// Appends what has arrived, one PacketRef per datagram, at most a batch. True when more may
    /// wait.
    bool receive(PacketPool& pool, std::vector<PacketRef>& into);

    /// Sends from the front of `packets`; the number taken. Fewer than all: the socket buffer is
    /// full.
    std::size_t send(std::span<const OutgoingPacket> packets);

    const SocketCounters& counters() const { return counters_; }

  private:
    static constexpr std::size_t kReceiveBatch = 8;
    static constexpr std::size_t kSendBatch = 16;
    static constexpr std::size_t kMaxSegments = 64;
    static constexpr std::size_t kMaxDatagramBytes = 65507;
    /// Datagrams up to this size are copied out of their 64 KiB receive buffer, so that a small
    /// packet that is kept for a while does not keep a large buffer with it.
    static constexpr std::size_t kCopyBelowBytes = 2048;

    explicit UdpSocket(FileDescriptor fd) : fd_(std::move(fd)) {}
    /// How many packets from the front can leave as one message.
    std::size_t run_length(std::span<const OutgoingPacket> packets) const;
    void deliver(std::size_t slot, const mmsghdr& message, PacketPool& pool,
                 std::vector<PacketRef>& into);

    FileDescriptor fd_;
    SocketCounters counters_;
    bool segmentation_offload_ = true;  ///< until the kernel refuses it on this path
    std::array<PacketRef, kReceiveBatch> receive_buffers_;
    std::vector<iovec> send_vectors_;
};

}  // namespace innet::driver
