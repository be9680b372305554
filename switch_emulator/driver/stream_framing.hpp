#pragma once
// A stream of bytes, cut into packets: NDN elements follow each other without anything between.

#include <cstddef>
#include <cstdint>

#include "transport/wire/tlv.hpp"

namespace innet::driver {

enum class FrameState : std::uint8_t {
    kComplete,    ///< `size` bytes from the front are a packet
    kIncomplete,  ///< more bytes are needed
    kBad,         ///< malformed length: the end of the packet is unknown
    kForeign,     ///< no packet of NDN begins with this type: the peer speaks another protocol
};

struct Frame {
    FrameState state = FrameState::kIncomplete;
    std::size_t size = 0;
};

/// The packet in front of `bytes`, which may end anywhere: an Interest, a Data or an LpPacket. One
/// of more than `max_bytes` is bad.
Frame front_frame(wire::ByteView bytes, std::size_t max_bytes);

}  // namespace innet::driver
