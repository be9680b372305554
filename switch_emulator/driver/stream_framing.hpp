#pragma once
// A stream of bytes, cut into packets: NDN elements follow each other without anything between.

#include <cstddef>
#include <cstdint>

#include "transport/wire/tlv.hpp"

namespace innet::driver {

enum class FrameState : std::uint8_t {
    kComplete,    ///< `size` bytes from the front are a packet
    kIncomplete,  ///< more must come
    kBad,         ///< what follows cannot be cut any more
};

struct Frame {
    FrameState state = FrameState::kIncomplete;
    std::size_t size = 0;
};

/// The element in front of `bytes`, which may end anywhere; one of more than `max_bytes` is bad.
Frame front_frame(wire::ByteView bytes, std::size_t max_bytes);

}  // namespace innet::driver
