#include "transport/security/late_mac.hpp"

#include <algorithm>
#include <array>

#include "transport/security/gmac.hpp"

namespace innet::security {

namespace {

constexpr std::size_t kMacSize = kGmacIvSize + kGmacTagSize;

}  // namespace

bool signs_late(const Signer& signer) { return signer.type() == wire::SignatureType::kGmac; }

bool sign_or_defer(PacketRef& packet, const wire::DataLayout& layout, Signer& signer) {
    const std::span<std::uint8_t> bytes = packet.writable();
    const auto signature = bytes.subspan(layout.signature_offset, layout.signature_size);
    if (!signs_late(signer)) {
        return signer.sign(bytes.subspan(layout.signed_offset, layout.signed_size), signature);
    }
    std::ranges::fill(signature, std::uint8_t{0});
    packet.set_mac_due();
    return true;
}

bool lacks_mac(const wire::DataView& data) {
    const wire::ByteView value = data.signature_value();
    return data.signature_type() == wire::SignatureType::kGmac && value.size() == kMacSize &&
           std::ranges::all_of(value, [](std::uint8_t byte) { return byte == 0; });
}

bool add_mac(const PacketRef& packet, const wire::DataFrame& frame, Signer& signer) {
    std::array<std::uint8_t, kMacSize> mac{};
    if (!signs_late(signer) || signer.key_name() != frame.key_name ||
        frame.signature_value.size() != kMacSize || !signer.sign_parts(frame.signed_parts, mac)) {
        return false;
    }
    packet.put_mac(frame.signature_offset, mac);
    return true;
}

}  // namespace innet::security
