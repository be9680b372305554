#include <doctest/doctest.h>

#include <numeric>

#include "tests/native/support/elements.hpp"
#include "tests/native/support/signed_data.hpp"
#include "transport/security/segment_tagger.hpp"

using namespace innet::security;
using innet::test::Bytes;
using innet::test::from_hex;
using innet::test::signed_data;
using innet::test::text;
namespace wire = innet::wire;

namespace {

std::array<std::uint8_t, SegmentTagger::kKeySize> counting_key() {
    std::array<std::uint8_t, SegmentTagger::kKeySize> key{};
    std::iota(key.begin(), key.end(), std::uint8_t{0});
    return key;
}

Bytes some_content() {
    Bytes content(1000);
    for (std::size_t i = 0; i < content.size(); ++i) {
        content[i] = static_cast<std::uint8_t>(i * 7 + 1);
    }
    return content;
}

}  // namespace

TEST_CASE("a tag equals Python cryptography's AES-256-GCM or HMAC-SHA256") {
    SegmentTagger tagger(counting_key());
    const Bytes head = text("head of a packet");
    const Bytes content = some_content();
    const Bytes tail = text("its tail");
    const SegmentTag tag = tagger.tag({head, content, tail});
    CHECK(Bytes(tag.begin(), tag.end()) == from_hex("7d66da224cfa751bdfaea34600ed7e09"));
}

TEST_CASE("a tag verifies only its own packet under its own key") {
    const Bytes packet =
        signed_data(*make_null_signer(), *wire::Name::from_uri("/kv/a/seg"), some_content());
    const auto parts_of = [](const Bytes& of) {
        return PacketParts::of(*wire::DataView::parse(of));
    };
    SegmentTagger tagger(counting_key());
    const SegmentTag tag = tagger.tag(parts_of(packet));
    CHECK(tagger.holds(parts_of(packet), tag));
    int still_packets = 0;
    for (std::size_t i = 0; i < packet.size(); ++i) {
        Bytes other = packet;
        other[i] ^= 1;
        if (!wire::DataView::parse(other)) continue;
        ++still_packets;
        CAPTURE(i);
        CHECK_FALSE(tagger.holds(parts_of(other), tag));
    }
    CHECK(still_packets > 1000);
    for (std::size_t i = 0; i < SegmentTagger::kKeySize; ++i) {
        auto key = counting_key();
        key[i] ^= 1;
        CAPTURE(i);
        CHECK_FALSE(SegmentTagger(key).holds(parts_of(packet), tag));
    }
}

TEST_CASE("a packet without content has a tag, too") {
    SegmentTagger tagger(counting_key());
    const Bytes first = signed_data(*make_null_signer(), *wire::Name::from_uri("/a"), {});
    const Bytes second = signed_data(*make_null_signer(), *wire::Name::from_uri("/b"), {});
    const SegmentTag tag = tagger.tag(PacketParts::of(*wire::DataView::parse(first)));
    CHECK(tagger.holds(PacketParts::of(*wire::DataView::parse(first)), tag));
    CHECK_FALSE(tagger.holds(PacketParts::of(*wire::DataView::parse(second)), tag));
}
