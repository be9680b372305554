#include "switch_emulator/driver/stream_framing.hpp"

namespace innet::driver {

namespace {

/// Bytes of a VAR-NUMBER that begins with `first`.
std::size_t encoded_size(std::uint8_t first) {
    return first < 253 ? 1 : first == 253 ? 3 : first == 254 ? 5 : 9;
}

}  // namespace

Frame front_frame(wire::ByteView bytes, std::size_t max_bytes) {
    wire::ByteView rest = bytes;
    std::uint64_t length = 0;
    for (int number = 0; number < 2; ++number) {
        if (rest.empty() || rest.size() < encoded_size(rest[0]))
            return {FrameState::kIncomplete, 0};
        const auto read = wire::read_var_number(rest);
        if (!read || (number == 0 && (*read == 0 || *read > 0xffff'ffffU))) {
            return {FrameState::kBad, 0};
        }
        length = *read;
    }
    const std::size_t header = bytes.size() - rest.size();
    if (length > max_bytes || header + length > max_bytes) return {FrameState::kBad, 0};
    if (length > rest.size()) return {FrameState::kIncomplete, 0};
    return {FrameState::kComplete, header + static_cast<std::size_t>(length)};
}

}  // namespace innet::driver
