#include "switch_emulator/driver/stream_framing.hpp"

namespace innet::driver {

namespace {

/// Bytes of a VAR-NUMBER that begins with `first`.
std::size_t encoded_size(std::uint8_t first) {
    return first < 253 ? 1 : first == 253 ? 3 : first == 254 ? 5 : 9;
}

/// The types have one byte each. Nothing else is skipped: a stream that carries another protocol,
/// such as HTTP, may carry packets of NDN somewhere inside.
bool begins_packet(std::uint8_t first) {
    return first == wire::kInterest || first == wire::kData || first == wire::kLpPacket;
}

}  // namespace

Frame front_frame(wire::ByteView bytes, std::size_t max_bytes) {
    if (bytes.empty()) return {FrameState::kIncomplete, 0};
    if (!begins_packet(bytes[0])) return {FrameState::kForeign, 0};
    wire::ByteView rest = bytes.subspan(1);
    if (rest.empty() || rest.size() < encoded_size(rest[0])) return {FrameState::kIncomplete, 0};
    const auto length = wire::read_var_number(rest);
    if (!length) return {FrameState::kBad, 0};
    const std::size_t header = bytes.size() - rest.size();
    if (*length > max_bytes || header + *length > max_bytes) return {FrameState::kBad, 0};
    if (*length > rest.size()) return {FrameState::kIncomplete, 0};
    return {FrameState::kComplete, header + static_cast<std::size_t>(*length)};
}

}  // namespace innet::driver
