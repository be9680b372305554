#pragma once
// Faces as the engine knows them: numbers. What is behind one is the driver's business.

#include <array>
#include <cstdint>
#include <vector>

#include "transport/buffer/packet_ref.hpp"
#include "transport/wire/lp.hpp"

namespace innet {

using FaceId = std::uint16_t;
inline constexpr FaceId kNoFace = 0xffff;
inline constexpr FaceId kApplicationFace = 0xfffe;
inline constexpr FaceId kReducerFace = 0xfffd;
inline constexpr FaceId kMaxNetworkFace = 0xff00;

/// Neither the application nor the reducer of this node.
inline constexpr bool is_network(FaceId face) { return face <= kMaxNetworkFace; }

/// Which face this is, of all that its node has ever had: never used again, other than a FaceId.
using FaceNumber = std::uint64_t;

/// NDN's word for where the other end is: `/localhost` names never leave the machine.
enum class FaceScope : std::uint8_t { kNonLocal, kLocal };

/// What the engine has to know of a face beside its number.
struct FaceOptions {
    /// Behind it is any NDN program, and not another node of innet, which knows its Holds, hellos
    /// and reasons of Nacks, and may request names of jobs.
    bool foreign = false;
    FaceScope scope = FaceScope::kNonLocal;
    /// The permissions of a Unix socket's file admitted the program behind it. Without a list of
    /// keys, management obeys such faces alone: any web page can reach the loopback addresses.
    bool admitted_by_file = false;
    /// Behind it is a process of the same run on the same machine, and nobody else can send there:
    /// the node sends and accepts segments without MACs.
    bool trusted = false;
    /// The link loses packets: the node repeats those that the neighbour does not acknowledge.
    bool lossy = false;
    /// Larger packets, link headers included, are not sent there.
    std::size_t max_packet_bytes = kMaxPacketBytes;
    /// What is sent there may be in parts, some of which are lent: the driver is done with it, or
    /// takes it in, before anything else happens at the node.
    bool takes_parts = false;
};

/// The largest packet that every NDN program takes (NDN Packet Format v0.3 leaves it open; ndn-cxx
/// and its kin have this in `MAX_NDN_PACKET_SIZE`).
inline constexpr std::size_t kMaxForeignPacketBytes = 8800;

/// A packet on its way out: link headers (copied, small) and a shared payload.
struct OutgoingPacket {
    PacketRef payload;
    std::array<std::uint8_t, 96> header{};
    std::uint8_t header_size = 0;

    /// On a link: with the bytes that the payload stands for.
    std::size_t size() const { return header_size + payload.size() + payload.virtual_bytes(); }
    std::span<const std::uint8_t> header_bytes() const { return {header.data(), header_size}; }
};

/// Where the engine puts what it wants to send. A driver drains it face by face, in order.
class Outbox {
  public:
    void send(FaceId face, PacketRef payload, const wire::LpFields& fields = {});
    /// Sends a packet that has its header.
    void send(FaceId face, OutgoingPacket packet);
    /// Packets waiting for `face`; the driver moves them out and clears the vector (capacity is
    /// kept).
    std::vector<OutgoingPacket>& queue(FaceId face) { return queues_[face].packets; }
    /// Appends the faces to which something was sent since the last call, each once.
    void take_busy(std::vector<FaceId>& into);
    std::size_t faces() const { return queues_.size(); }
    void resize(std::size_t faces);
    bool empty() const;

  private:
    std::vector<OutgoingPacket>& busy_queue(FaceId face);

    struct Queue {
        std::vector<OutgoingPacket> packets;
        bool is_busy = false;  ///< among `busy_`
    };

    std::vector<Queue> queues_;
    std::vector<FaceId> busy_;
};

}  // namespace innet
