#include "transport/security/segment_tagger.hpp"

#include <openssl/crypto.h>

#include <algorithm>

namespace innet::security {

namespace {

constexpr std::size_t kHalfKey = SegmentTagger::kKeySize / 2;

/// With one IV for all, GMAC is GHASH and a secret constant, which the function hides as well.
constexpr std::array<std::uint8_t, kGmacIvSize> kNoIv{};

constexpr std::array<std::uint8_t, 1> kNameType{wire::kName};

}  // namespace

PacketParts PacketParts::of(const wire::DataView& data) {
    const wire::ByteView whole = data.whole();
    if (data.content().empty()) return {whole, {}, {}};
    const auto head = static_cast<std::size_t>(data.content().data() - whole.data());
    return {whole.first(head), data.content(), whole.subspan(head + data.content().size())};
}

SegmentTagger::SegmentTagger(Key key)
    : hash_(key.first<kHalfKey>()), function_(key.last<kHalfKey>()) {}

SegmentTag SegmentTagger::tag(const PacketParts& packet) {
    const GmacTag hash = hash_.tag(kNoIv, packet.content);
    message_.assign(hash.begin(), hash.end());
    message_.insert(message_.end(), packet.head.begin(), packet.head.end());
    message_.insert(message_.end(), packet.tail.begin(), packet.tail.end());
    const Sha256Digest whole = function_.tag(message_);
    SegmentTag tag;
    std::ranges::copy_n(whole.begin(), tag.size(), tag.begin());
    return tag;
}

PacketParts SegmentTagger::of_root(wire::NameView name, wire::ByteView content) {
    return {kNameType, content, name.value()};
}

bool SegmentTagger::holds(const PacketParts& packet, const SegmentTag& tag) {
    const SegmentTag right = this->tag(packet);
    return CRYPTO_memcmp(right.data(), tag.data(), tag.size()) == 0;
}

}  // namespace innet::security
