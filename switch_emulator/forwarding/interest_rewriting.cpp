#include "switch_emulator/forwarding/interest_rewriting.hpp"

#include <array>

namespace innet::forwarding {

namespace {

constexpr std::size_t kNonceElementSize = 6;

std::array<std::uint8_t, 4> big_endian(std::uint32_t number) {
    return {static_cast<std::uint8_t>(number >> 24), static_cast<std::uint8_t>(number >> 16),
            static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number)};
}

bool precedes_nonce(std::uint32_t type) {
    return type == wire::kName || type == wire::kCanBePrefix || type == wire::kMustBeFresh ||
           type == wire::kForwardingHint;
}

/// Where the Nonce stands among an Interest's elements, or where it would.
struct NoncePlace {
    std::size_t offset = 0;
    std::size_t size = 0;  ///< 0: there is none
};

NoncePlace find_nonce(wire::ByteView elements) {
    wire::Reader reader(elements);
    NoncePlace place;
    while (const auto element = reader.next()) {
        if (element->type == wire::kNonce) {
            place.size = element->whole.size();
            break;
        }
        // Unknown elements that may be ignored can stand anywhere; a Nonce behind one is still
        // found.
        if (precedes_nonce(element->type)) place.offset = elements.size() - reader.rest().size();
        if (element->type == wire::kInterestLifetime) break;
    }
    if (place.size != 0) place.offset = elements.size() - reader.rest().size() - place.size;
    return place;
}

}  // namespace

PacketRef with_nonce(wire::ByteView interest, std::uint32_t nonce, PacketPool& pool) {
    const auto outer = wire::Reader(interest).next();
    if (!outer) return {};
    const wire::ByteView elements = outer->value;
    const NoncePlace place = find_nonce(elements);
    const std::size_t size = elements.size() - place.size + kNonceElementSize;
    PacketRef copy = pool.allocate(1 + wire::var_number_size(size) + size);
    if (!copy) return {};
    wire::Writer writer(copy.writable());
    writer.header(wire::kInterest, size);
    writer.bytes(elements.first(place.offset));
    writer.element(wire::kNonce, big_endian(nonce));
    writer.bytes(elements.subspan(place.offset + place.size));
    return copy;
}

PacketRef with_hop_limit(const wire::InterestView& interest, std::uint8_t hop_limit,
                         PacketPool& pool) {
    PacketRef copy = pool.copy_of(interest.whole());
    if (copy) copy.writable()[interest.hop_limit_offset()] = hop_limit;
    return copy;
}

}  // namespace innet::forwarding
