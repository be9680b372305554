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
    /// Packets waiting for `face`; the driver moves them out and clears the vector (capacity is
    /// kept).
    std::vector<OutgoingPacket>& queue(FaceId face) { return queues_[face]; }
    std::size_t faces() const { return queues_.size(); }
    void resize(std::size_t faces) { queues_.resize(faces); }
    bool empty() const;

  private:
    std::vector<std::vector<OutgoingPacket>> queues_;
};

}  // namespace innet
