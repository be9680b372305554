#pragma once
// A UDP port that is open to all: source addresses identify its peers.

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "switch_emulator/driver/udp_socket.hpp"

namespace innet::driver {

/// One peer of a port, whose socket receives for it.
class UdpPeer final : public Channel {
  public:
    UdpPeer(std::shared_ptr<UdpSocket> socket, const SocketAddress& address)
        : socket_(std::move(socket)), address_(address) {}

    int fd() const override { return -1; }
    bool receive(PacketPool&, std::vector<PacketRef>&) override { return false; }
    std::size_t send(std::span<const OutgoingPacket> packets) override {
        return socket_->send_to(packets, address_);
    }
    /// The port's, in which all its peers are counted.
    const SocketCounters& counters() const override { return socket_->counters(); }

  private:
    std::shared_ptr<UdpSocket> socket_;
    SocketAddress address_;
};

class UdpPort {
  public:
    /// As `UdpSocket::listen`.
    static std::unique_ptr<UdpPort> open(const SocketAddress& local, bool beside_links,
                                         std::string& error);

    int fd() const { return socket_->fd(); }
    const SocketAddress& local() const { return local_; }
    std::unique_ptr<Channel> channel_to(const SocketAddress& peer) const {
        return std::make_unique<UdpPeer>(socket_, peer);
    }

    /// Calls `arrived(address, packets)` for each run of packets of one peer in one batch, and
    /// takes what it leaves of them. True when more may wait.
    template <typename Arrived>
    bool receive(PacketPool& pool, Arrived&& arrived) {
        const bool more = socket_->receive_from(pool, received_, senders_);
        for (std::size_t i = 0; i < received_.size();) {
            const SocketAddress from = senders_[i];
            for (; i < received_.size() && senders_[i] == from; ++i) {
                run_.push_back(std::move(received_[i]));
            }
            arrived(from, run_);
            run_.clear();
        }
        received_.clear();
        senders_.clear();
        return more;
    }

    /// The face of a peer's packets.
    std::optional<FaceId> face_of(const SocketAddress& peer) const;
    void set_face(const SocketAddress& peer, FaceId face);
    void forget_face(FaceId face);
    std::vector<FaceId> faces() const;

  private:
    UdpPort(UdpSocket socket, const SocketAddress& local)
        : socket_(std::make_shared<UdpSocket>(std::move(socket))), local_(local) {}

    std::shared_ptr<UdpSocket> socket_;  ///< shared with the channels to its peers
    SocketAddress local_;
    std::unordered_map<SocketAddress, FaceId, SocketAddress::Hash> faces_;
    // Scratch, kept for its capacity.
    std::vector<PacketRef> received_;
    std::vector<SocketAddress> senders_;
    std::vector<PacketRef> run_;
};

}  // namespace innet::driver
