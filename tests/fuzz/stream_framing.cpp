// A stream of bytes, which is cut into packets wherever its reads end.

#include "switch_emulator/driver/stream_framing.hpp"

#include <algorithm>

#include "tests/fuzz/require.hpp"

namespace {

using innet::driver::Frame;
using innet::driver::FrameState;
using innet::fuzz::require;
using innet::wire::ByteView;

constexpr std::size_t kMaxBytes = 8800;

/// Where the stream ends, in these reads, makes no difference for the packet in front.
void read_in_parts(ByteView stream, const Frame& whole) {
    const std::size_t most = std::min<std::size_t>(stream.size(), 12);
    for (std::size_t size = 0; size < most; ++size) {
        const Frame part = innet::driver::front_frame(stream.first(size), kMaxBytes);
        require(part.state == FrameState::kIncomplete ||
                    (part.state == whole.state && part.size == whole.size),
                "the beginning of a stream is cut as the whole of it");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    ByteView stream(bytes, size);
    while (!stream.empty()) {
        const Frame frame = innet::driver::front_frame(stream, kMaxBytes);
        read_in_parts(stream, frame);
        if (frame.state != FrameState::kComplete) break;
        require(frame.size >= 2 && frame.size <= std::min(stream.size(), kMaxBytes),
                "a packet has a type and a length, and is within the stream and the limit");
        const auto packet = innet::wire::read_only_element(stream.first(frame.size));
        require(packet.has_value(), "a packet is one element");
        stream = stream.subspan(frame.size);
    }
    return 0;
}
