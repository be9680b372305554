#include "switch_emulator/simulation/stream/stream_packet.hpp"

#include <algorithm>
#include <span>

namespace innet::simulation::stream {
namespace {

// Byte 0: kFirstByte. 1..4: stream, the highest bit set in acknowledgements. 5..8: offset. 9..11:
// check sum over everything else. Then, with a SACK block, its two ends and a word of padding.
constexpr std::size_t kStreamAt = 1;
constexpr std::size_t kNumberAt = 5;
constexpr std::size_t kCheckAt = 9;
constexpr std::uint32_t kAcknowledges = 1U << 31U;

using Bytes = std::span<std::uint8_t>;
using ConstBytes = std::span<const std::uint8_t>;

void put_word(Bytes at, std::uint32_t word) {
    for (std::size_t byte = 0; byte < 4; ++byte) {
        at[byte] = static_cast<std::uint8_t>(word >> (24U - 8U * byte));
    }
}

std::uint32_t word_at(ConstBytes at) {
    std::uint32_t word = 0;
    for (std::size_t byte = 0; byte < 4; ++byte) {
        word = word << 8U | at[byte];
    }
    return word;
}

/// FNV-1a (Fowler, Noll and Vo), without the check sum's own bytes.
std::uint32_t check_sum(ConstBytes bytes) {
    std::uint32_t sum = 0x811c9dc5U;
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        if (at < kCheckAt || at >= kStandInBytes) {
            sum = (sum ^ bytes[at]) * 0x01000193U;
        }
    }
    return sum >> 8U;
}

void seal(Bytes bytes) {
    const std::uint32_t sum = check_sum(bytes);
    for (std::size_t byte = 0; byte < 3; ++byte) {
        bytes[kCheckAt + byte] = static_cast<std::uint8_t>(sum >> (16U - 8U * byte));
    }
}

bool is_sealed(ConstBytes bytes) {
    const std::uint32_t sum = word_at(bytes.subspan(kCheckAt - 1)) & 0xffffffU;
    return sum == check_sum(bytes);
}

PacketRef header(std::size_t size, std::uint32_t stream_word, std::uint32_t number,
                 PacketPool& pool) {
    PacketRef packet = pool.allocate(size);
    const Bytes bytes = packet.writable();
    std::ranges::fill(bytes, std::uint8_t{0});
    bytes[0] = kFirstByte;
    put_word(bytes.subspan(kStreamAt), stream_word);
    put_word(bytes.subspan(kNumberAt), number);
    return packet;
}

}  // namespace

PacketRef encode(const DataSegment& segment, PacketPool& pool) {
    PacketRef packet = header(kStandInBytes, segment.stream, segment.sequence, pool);
    packet.set_virtual_bytes(segment.size);
    seal(packet.writable());
    return packet;
}

PacketRef encode(const Acknowledgement& acknowledgement, PacketPool& pool) {
    const bool selective = acknowledgement.sack_begin != acknowledgement.sack_end;
    PacketRef packet = header(selective ? kStandInBytes + kSackBytes : kStandInBytes,
                              acknowledgement.stream | kAcknowledges, acknowledgement.next, pool);
    const Bytes bytes = packet.writable();
    if (selective) {
        put_word(bytes.subspan(kStandInBytes), acknowledgement.sack_begin);
        put_word(bytes.subspan(kStandInBytes + 4), acknowledgement.sack_end);
    }
    seal(bytes);
    return packet;
}

bool is_stream_packet(const PacketRef& packet) {
    const std::size_t size = packet.size();
    return (size == kStandInBytes || size == kStandInBytes + kSackBytes) &&
           packet.bytes()[0] == kFirstByte;
}

std::optional<DataSegment> parse_data(const PacketRef& packet) {
    const ConstBytes bytes = packet.bytes();
    const std::uint32_t stream = word_at(bytes.subspan(kStreamAt));
    if ((stream & kAcknowledges) != 0 || packet.virtual_bytes() == 0 || !is_sealed(bytes)) {
        return std::nullopt;
    }
    return DataSegment{stream, word_at(bytes.subspan(kNumberAt)),
                       static_cast<std::uint32_t>(packet.virtual_bytes())};
}

std::optional<Acknowledgement> parse_acknowledgement(const PacketRef& packet) {
    const ConstBytes bytes = packet.bytes();
    const std::uint32_t stream = word_at(bytes.subspan(kStreamAt));
    if ((stream & kAcknowledges) == 0 || !is_sealed(bytes)) {
        return std::nullopt;
    }
    Acknowledgement result{stream & ~kAcknowledges, word_at(bytes.subspan(kNumberAt)), 0, 0};
    if (bytes.size() > kStandInBytes) {
        result.sack_begin = word_at(bytes.subspan(kStandInBytes));
        result.sack_end = word_at(bytes.subspan(kStandInBytes + 4));
    }
    return result;
}

std::uint64_t unwrap(std::uint32_t low, std::uint64_t near) {
    const auto ahead = static_cast<std::int32_t>(low - static_cast<std::uint32_t>(near));
    return near + static_cast<std::uint64_t>(static_cast<std::int64_t>(ahead));
}

}  // namespace innet::simulation::stream
