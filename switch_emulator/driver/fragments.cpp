#include "switch_emulator/driver/fragments.hpp"

#include <algorithm>
#include <cstring>

#include "transport/wire/lp.hpp"

namespace innet::driver {

namespace {

constexpr std::size_t kBufferBytes = 65536;
/// The link header of a fragment that has no other fields and at least 253 bytes in all.
constexpr std::size_t kHeaderBytes = 24;

std::span<const std::uint8_t> encode(const wire::LpFields& fields, std::size_t piece_bytes,
                                     std::span<std::uint8_t> into) {
    return into.first(wire::encode_lp_header(fields, piece_bytes, into));
}

std::span<const std::uint8_t> encode(std::uint64_t sequence, std::size_t index,
                                     std::size_t fragments, std::size_t piece_bytes,
                                     std::span<std::uint8_t> into) {
    wire::LpFields fields;
    fields.fragment = {sequence + index, index, fragments};
    return encode(fields, piece_bytes, into);
}

/// Appends where `size` bytes of the packet from `offset` on lie.
void append_bytes(const PacketRef& packet, std::size_t offset, std::size_t size,
                  std::vector<iovec>& vectors) {
    for (const std::span<const std::uint8_t> part : packet.parts()) {
        if (offset >= part.size()) {
            offset -= part.size();
            continue;
        }
        const std::size_t taken = std::min(size, part.size() - offset);
        if (taken == 0) return;
        vectors.push_back({const_cast<std::uint8_t*>(part.data()) + offset, taken});
        size -= taken;
        offset = 0;
    }
}

wire::LpFields fields_of(const OutgoingPacket& packet) {
    const auto view = wire::LpView::parse_header(packet.header_bytes());
    return view ? view->fields() : wire::LpFields{};
}

}  // namespace

FragmentCut cut_into_fragments(const OutgoingPacket& packet, std::size_t datagram_bytes,
                               std::uint64_t sequence) {
    wire::LpFields fields = fields_of(packet);
    fields.fragment = {sequence, 0, kMaxDatagramsOfMessage};
    FragmentHeader header;
    const std::size_t first_header = encode(fields, datagram_bytes, header).size();
    if (first_header == 0 || datagram_bytes < first_header + kHeaderBytes) return {};
    const std::size_t first_piece = datagram_bytes - first_header;
    if (packet.payload.size() <= first_piece) return {};
    const std::size_t piece = datagram_bytes - kHeaderBytes;
    const std::size_t fragments = 1 + (packet.payload.size() - first_piece + piece - 1) / piece;
    const std::size_t total = packet.payload.size() + first_header + (fragments - 1) * kHeaderBytes;
    if (fragments > kMaxDatagramsOfMessage || total > kMaxDatagramBytes) return {};
    return {datagram_bytes, fragments, sequence, first_piece};
}

void append_fragment(const OutgoingPacket& packet, const FragmentCut& cut, std::size_t index,
                     FragmentHeader& header, std::vector<iovec>& vectors) {
    const std::size_t payload_bytes = packet.payload.size();
    const std::size_t piece = cut.datagram_bytes - kHeaderBytes;
    const std::size_t offset = index == 0 ? 0 : cut.first_piece_bytes + (index - 1) * piece;
    const std::size_t size =
        std::min(index == 0 ? cut.first_piece_bytes : piece, payload_bytes - offset);
    wire::LpFields fields = index == 0 ? fields_of(packet) : wire::LpFields{};
    fields.fragment = {cut.sequence + index, index, cut.fragments};
    const std::size_t header_bytes = encode(fields, size, header).size();
    vectors.push_back({header.data(), header_bytes});
    append_bytes(packet.payload, offset, size, vectors);
}

FragmentLanding::FragmentLanding(std::size_t datagram_bytes, PacketPool& pool)
    : pool_(&pool),
      datagram_bytes_(datagram_bytes > 2 * kHeaderBytes ? datagram_bytes : kBufferBytes) {
    const std::size_t datagrams = std::min(
        (kMaxDatagramBytes + datagram_bytes_ - 1) / datagram_bytes_, kMaxDatagramsOfMessage);
    headers_.resize((datagrams - 1) * kHeaderBytes);
}

std::span<iovec> FragmentLanding::vectors() {
    if (!buffer_ || is_shared_) renew();
    return vectors_;
}

void FragmentLanding::renew() {
    buffer_ = pool_->allocate(kBufferBytes);
    is_shared_ = false;
    std::uint8_t* bytes = buffer_.writable().data();
    vectors_.clear();
    vectors_.push_back({bytes, datagram_bytes_});
    for (std::size_t i = 0; i * kHeaderBytes < headers_.size(); ++i) {
        const std::size_t offset = piece_offset(i + 1);
        vectors_.push_back({headers_.data() + i * kHeaderBytes, kHeaderBytes});
        vectors_.push_back(
            {bytes + offset, std::min(datagram_bytes_ - kHeaderBytes, kBufferBytes - offset)});
    }
}

std::size_t FragmentLanding::piece_offset(std::size_t index) const {
    return datagram_bytes_ + (index - 1) * (datagram_bytes_ - kHeaderBytes);
}

// Compares the header with the only one that a neighbour's node writes there; other programs'
// fragments take the way of those that arrive apart.
std::size_t FragmentLanding::piece_bytes(std::size_t index, std::size_t fragments,
                                         std::uint64_t sequence, std::size_t size) {
    std::array<std::uint8_t, kHeaderBytes> expected;
    const std::span landed = std::span(headers_).subspan((index - 1) * kHeaderBytes, kHeaderBytes);
    // Of a short last fragment the lengths take less, and a part landed among the headers.
    for (const std::size_t header : {kHeaderBytes, kHeaderBytes - 2, kHeaderBytes - 4}) {
        if (size <= header) continue;
        const auto own = encode(sequence, index, fragments, size - header, expected);
        if (own.size() != header || !std::ranges::equal(own, landed.first(header))) continue;
        const std::size_t early = std::min(size, kHeaderBytes) - header;
        if (early > 0) {
            std::uint8_t* piece = buffer_.writable().data() + piece_offset(index);
            if (size > kHeaderBytes) std::memmove(piece + early, piece, size - kHeaderBytes);
            std::memcpy(piece, landed.data() + header, early);
        }
        return size - header;
    }
    return 0;
}

PacketRef FragmentLanding::join(std::size_t total, std::size_t step) {
    if (step != datagram_bytes_ || total <= step) return {};
    const std::span<std::uint8_t> bytes = buffer_.writable();
    const auto first = wire::LpView::parse(bytes.first(step));
    const std::size_t fragments = (total + step - 1) / step;
    if (!first || !first->fragment() || first->fragment()->index != 0 ||
        first->fragment()->count != fragments) {
        return {};
    }
    std::size_t whole_bytes = first->payload().size();
    for (std::size_t i = 1; i < fragments; ++i) {
        const std::size_t size = std::min(step, total - i * step);
        const std::size_t piece = piece_bytes(i, fragments, first->fragment()->sequence, size);
        if (piece == 0) return {};
        whole_bytes += piece;
    }
    wire::LpFields fields = first->fields();
    fields.fragment.reset();
    FragmentHeader header;
    const auto own =
        fields.empty() ? std::span<const std::uint8_t>{} : encode(fields, whole_bytes, header);
    // Without the fields of a fragment, it fits in front of the first piece.
    const std::size_t start = step - first->payload().size() - own.size();
    std::ranges::copy(own, bytes.begin() + static_cast<std::ptrdiff_t>(start));
    is_shared_ = true;
    return buffer_.slice(start, own.size() + whole_bytes);
}

PacketRef FragmentLanding::take(std::size_t offset, std::size_t size, bool copies) {
    if (!copies && offset + size <= datagram_bytes_) {
        is_shared_ = true;
        return buffer_.slice(offset, size);
    }
    PacketRef packet = pool_->allocate(size);
    std::span<std::uint8_t> left = packet.writable();
    for (const iovec& part : vectors_) {
        if (offset >= part.iov_len) {
            offset -= part.iov_len;
            continue;
        }
        const std::size_t count = std::min(left.size(), part.iov_len - offset);
        std::memcpy(left.data(), static_cast<const std::uint8_t*>(part.iov_base) + offset, count);
        left = left.subspan(count);
        offset = 0;
        if (left.empty()) break;
    }
    return packet;
}

}  // namespace innet::driver
