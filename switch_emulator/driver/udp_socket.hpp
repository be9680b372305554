#pragma once
// A datagram socket that moves packets in batches with recvmmsg and sendmmsg. Over UDP: UDP_SEGMENT
// on the way out, UDP_GRO on the way in; connected to one peer, or open to all. A pair of connected
// Unix sockets works the same without these offloads.

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "switch_emulator/driver/channel.hpp"
#include "switch_emulator/driver/file_descriptor.hpp"
#include "switch_emulator/driver/fragments.hpp"
#include "switch_emulator/driver/socket_address.hpp"

namespace innet::driver {

struct UdpEndpoints {
    std::string local_address;  ///< numeric, of the same family as the peer's
    std::uint16_t local_port = 0;
    std::string peer_address;
    std::uint16_t peer_port = 0;
    /// A UDP socket that is bound already, or -1 to bind one here. Owned by the UdpSocket from then
    /// on.
    int bound_fd = -1;
    /// A datagram socket that is connected already, such as one end of a socketpair, or -1. The
    /// addresses above are not used then. Owned by the UdpSocket from then on.
    int connected_fd = -1;
    /// A listener of the same user will have this port at all addresses: see `listen`.
    bool beside_listener = false;
    /// Larger packets leave in fragments of this size; 0: whole. The peer's node has the same.
    std::size_t datagram_bytes = 0;
};

class UdpSocket final : public Channel {
  public:
    /// Binds and connects, to addresses that no other socket has or may take; with
    /// `beside_listener`, a listener of the same user may. On failure: nothing, with `error` saying
    /// which call failed and why.
    static std::optional<UdpSocket> open(const UdpEndpoints& endpoints, int receive_buffer_bytes,
                                         int send_buffer_bytes, std::string& error);
    /// Connects from whatever address and port the system chooses.
    static std::optional<UdpSocket> connect(const SocketAddress& peer, std::string& error);
    /// Binds, and stays open to all peers.
    /// `beside_links`: at all addresses, where sockets that `open` has made with `beside_listener`
    /// have the same port at one of them; those sockets still receive their peers' packets.
    static std::optional<UdpSocket> listen(const SocketAddress& local, bool beside_links,
                                           std::string& error);

    int fd() const override { return fd_.get(); }
    bool room_needs_reader() const override { return is_unix_; }
    bool takes_parts() const override { return true; }

    /// Appends what has arrived, one PacketRef per datagram, at most a batch. True when more may
    /// wait.
    bool receive(PacketPool& pool, std::vector<PacketRef>& into) override {
        return receive_batch(pool, into, nullptr);
    }
    /// Receives, and appends the source address of each packet to `from`.
    bool receive_from(PacketPool& pool, std::vector<PacketRef>& into,
                      std::vector<SocketAddress>& from) {
        return receive_batch(pool, into, &from);
    }

    /// Sends from the front of `packets`; the number taken. Fewer than all: the socket buffer is
    /// full.
    std::size_t send(std::span<const OutgoingPacket> packets) override {
        return send_batches(packets, nullptr);
    }
    /// The same, of a socket that is open to all.
    std::size_t send_to(std::span<const OutgoingPacket> packets, const SocketAddress& peer) {
        return send_batches(packets, &peer);
    }

    const SocketCounters& counters() const override { return counters_; }

  private:
    static constexpr std::size_t kReceiveBatch = 8;
    static constexpr std::size_t kSendBatch = 16;
    /// After a refusal, which may pass (a route or a device changed), so many messages leave
    /// unsegmented before the next attempt: where it lasts, the attempts cost one system call in
    /// thousands.
    static constexpr std::uint32_t kUnsegmentedMessages = 4096;
    /// Datagrams up to this size are copied out of their 64 KiB receive buffer, so that a small
    /// packet that is kept for a while does not keep a large buffer with it.
    static constexpr std::size_t kCopyBelowBytes = 2048;

    /// How far sending has come: whole packets, fragments of the next one, and the sequence number
    /// of its first.
    struct Position {
        std::size_t packet = 0;
        std::size_t fragment = 0;
        std::uint64_t sequence = 0;
    };
    /// One message to the kernel: its part of `send_vectors_`, the size of its datagrams where it
    /// has several, and where the next one begins.
    struct Message {
        std::size_t first_vector = 0;
        std::size_t datagram_bytes = 0;
        Position end;
    };

    explicit UdpSocket(FileDescriptor fd, bool is_unix = false, std::size_t datagram_bytes = 0)
        : fd_(std::move(fd)), is_unix_(is_unix), datagram_bytes_(is_unix ? 0 : datagram_bytes) {}
    bool segments() const { return !is_unix_ && unsegmented_messages_ == 0; }
    /// How many packets from the front can leave as one message.
    std::size_t run_length(std::span<const OutgoingPacket> packets) const;
    /// Plans the next message from `position` of `packets` on.
    Message plan_message(std::span<const OutgoingPacket> packets, const Position& position);
    Message plan_fragments(const OutgoingPacket& packet, const FragmentCut& cut,
                           const Position& position);
    bool receive_batch(PacketPool& pool, std::vector<PacketRef>& into,
                       std::vector<SocketAddress>* from);
    std::size_t send_batches(std::span<const OutgoingPacket> packets, const SocketAddress* peer);
    static void deliver(FragmentLanding& landing, const mmsghdr& message,
                        std::vector<PacketRef>& into);

    FileDescriptor fd_;
    SocketCounters counters_;
    bool is_unix_;
    /// Messages that still leave one packet each, since the kernel refused to segment one.
    std::uint32_t unsegmented_messages_ = 0;
    std::size_t datagram_bytes_;
    std::vector<FragmentLanding> landings_;  ///< of the messages of a batch; empty until the first
    std::vector<iovec> send_vectors_;
    std::vector<FragmentHeader> fragment_headers_;  ///< of a batch; never grows beyond its capacity
    /// What has left of the packet that the next call begins with.
    Position begun_;
};

}  // namespace innet::driver
