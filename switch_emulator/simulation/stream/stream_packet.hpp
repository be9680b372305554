#pragma once
// Packets of simulated byte streams: short stand-ins for TCP segments.
//
// A link counts Ethernet, IPv4 and UDP headers for every packet (`port::kFramingBytes`); a stand-in
// has the size of what a TCP header is longer than UDP's, and its payload is virtual. So a segment
// costs on the link what TCP's would.

#include <array>
#include <cstdint>
#include <optional>

#include "transport/buffer/packet_ref.hpp"

namespace innet::simulation::stream {

using StreamId = std::uint32_t;

/// First byte of an IPv4 packet, and of no NDN packet.
inline constexpr std::uint8_t kFirstByte = 0x45;
/// IPv4 and TCP headers: what a segment has less room than the MTU.
inline constexpr std::size_t kHeaderBytes = 40;
/// A TCP header less a UDP header.
inline constexpr std::size_t kStandInBytes = 12;
/// One block of the SACK option, with its padding.
inline constexpr std::size_t kSackBytes = 12;

/// The range of stream offsets [begin, end).
struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool empty() const { return begin == end; }
};

struct DataSegment {
    StreamId stream = 0;
    std::uint32_t sequence = 0;  ///< low bits of the offset
    std::uint32_t size = 0;      ///< bytes; at least one
};

struct Acknowledgement {
    StreamId stream = 0;
    std::uint32_t next = 0;  ///< low bits of the first offset that is missing
    /// What the receiver has beyond it, around the segment that came last; both low bits, equal
    /// when there is nothing.
    std::uint32_t sack_begin = 0;
    std::uint32_t sack_end = 0;
};

PacketRef encode(const DataSegment& segment, PacketPool& pool);
PacketRef encode(const Acknowledgement& acknowledgement, PacketPool& pool);

/// Whether the packet may be a stand-in; if it was corrupted, the parsers say so.
bool is_stream_packet(const PacketRef& packet);
/// Nothing when it is no such packet, or was damaged on the way.
std::optional<DataSegment> parse_data(const PacketRef& packet);
std::optional<Acknowledgement> parse_acknowledgement(const PacketRef& packet);

/// The offset nearest to `near` whose low bits are `low`.
std::uint64_t unwrap(std::uint32_t low, std::uint64_t near);

}  // namespace innet::simulation::stream
