#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "tests/native/support/elements.hpp"
#include "tests/native/support/signed_data.hpp"
#include "transport/security/manifest.hpp"

using namespace innet::security;
using innet::PacketPool;
using innet::PacketRef;
using innet::test::Bytes;
using innet::test::from_hex;
using innet::test::join;
using innet::test::signed_data;
using innet::test::text;
using innet::test::tlv;
namespace wire = innet::wire;

namespace {

constexpr std::uint64_t kFanOut = 4;

wire::Name object_name() { return *wire::Name::from_uri("/models/llama/v=3"); }

std::unique_ptr<Signer> producer() {
    return make_ed25519_signer(*wire::Name::from_uri("/models/KEY/1"), Bytes(32, 7));
}

/// An object of `segments` small segments, its packets and its manifests.
struct Published {
    explicit Published(std::size_t segment_count, std::uint64_t fan_out = kFanOut) {
        const auto signer = make_digest_signer();
        ManifestBuilder builder(object_name(), fan_out);
        Sha256 sha256;
        for (std::size_t k = 0; k < segment_count; ++k) {
            wire::Name name = object_name().append_number(wire::kSegmentComponent, k);
            segments.push_back(signed_data(*signer, name, text("weights")));
            builder.add(sha256.digest(segments.back()));
        }
        PacketPool pool;
        const auto built = builder.build(pool, *producer());
        REQUIRE(built);
        for (const PacketRef& packet : *built) {
            manifests.emplace_back(packet.bytes().begin(), packet.bytes().end());
        }
    }

    std::vector<Bytes> segments;
    std::vector<Bytes> manifests;
};

std::optional<ManifestVerifier> verifier_of(const Bytes& root) {
    const auto view = wire::DataView::parse(root);
    REQUIRE(view);
    return ManifestVerifier::from_verified_root(*view);
}

bool add(ManifestVerifier& verifier, const Bytes& manifest) {
    const auto view = wire::DataView::parse(manifest);
    return view && verifier.add_manifest(*view);
}

SegmentVerdict check(ManifestVerifier& verifier, const Bytes& packet) {
    const auto view = wire::DataView::parse(packet);
    REQUIRE(view);
    return verifier.check(*view);
}

/// A root manifest with this content.
Bytes root_with(const Bytes& content, wire::ContentType type = wire::ContentType::kManifest) {
    return signed_data(*producer(), manifest_name(object_name(), 0), content, type);
}

Bytes number(std::uint32_t type, std::uint8_t value) { return tlv(type, {Bytes{value}}); }

}  // namespace

TEST_CASE("the tree: every manifest but the root, and every segment, is listed once and in order") {
    for (const std::uint64_t fan_out : {2, 3, 4, 256}) {
        for (const std::uint64_t segments : {1, 2, 3, 4, 5, 15, 16, 17, 64, 65, 1000}) {
            CAPTURE(fan_out);
            CAPTURE(segments);
            const auto tree = ManifestTree::over(segments, fan_out);
            REQUIRE(tree);
            std::vector<std::uint64_t> listed(tree->manifests());
            for (std::uint64_t i = 1; i < tree->manifests(); ++i) {
                const ManifestSlot slot = tree->slot_of_manifest(i);
                REQUIRE(slot.manifest < i);
                CHECK(slot.position == listed[slot.manifest]++);
            }
            for (std::uint64_t k = 0; k < segments; ++k) {
                const ManifestSlot slot = tree->slot_of_segment(k);
                REQUIRE(slot.manifest < tree->manifests());
                CHECK(slot.manifest >= tree->first_leaf());
                CHECK(slot.position == listed[slot.manifest]++);
            }
            for (std::uint64_t i = 0; i < tree->manifests(); ++i) {
                CHECK(listed[i] == tree->children_of(i));
                CHECK(listed[i] <= fan_out);
                CHECK(listed[i] > 0);
            }
        }
    }
    CHECK(ManifestTree::over(256, 256)->manifests() == 1);
    CHECK(ManifestTree::over(257, 256)->manifests() == 3);
    CHECK(ManifestTree::over(~std::uint64_t{0}, 2)->children_of(0) == 2);
    CHECK_FALSE(ManifestTree::over(0, 4));
    CHECK_FALSE(ManifestTree::over(10, 1));
    CHECK_FALSE(ManifestTree::over(10, 2049));
}

TEST_CASE("an object of any size verifies segment by segment, with one signature") {
    for (const std::size_t count : {1, 4, 5, 16, 17, 70}) {
        CAPTURE(count);
        const Published object(count);
        auto verifier = verifier_of(object.manifests[0]);
        REQUIRE(verifier);
        CHECK(verifier->object() == object_name().view());
        CHECK(verifier->tree().segments() == count);
        CHECK(verifier->tree().manifests() == object.manifests.size());
        for (std::size_t i = 1; i < object.manifests.size(); ++i) {
            CHECK(add(*verifier, object.manifests[i]));
        }
        for (const Bytes& segment : object.segments) {
            CHECK(check(*verifier, segment) == SegmentVerdict::kValid);
        }
        for (std::size_t i = 0; i < object.manifests.size(); ++i) {
            const auto manifest = wire::DataView::parse(object.manifests[i]);
            CHECK(manifest->name() == manifest_name(object_name(), i).view());
            CHECK(manifest->content_type() == wire::ContentType::kManifest);
            CHECK(manifest->final_segment() == object.manifests.size() - 1);
            CHECK((manifest->signature_type() == wire::SignatureType::kEd25519) == (i == 0));
        }
    }
}

TEST_CASE("a full manifest of the default fan-out fits the packet limit of foreign clients") {
    const Published object(257, kDefaultManifestFanOut);
    REQUIRE(object.manifests.size() == 3);
    for (const Bytes& manifest : object.manifests) CHECK(manifest.size() <= 8800);
}

TEST_CASE("a verifier names the manifests it needs, from the root down") {
    const Published object(17);  // root, 2 below it, 5 leaves
    REQUIRE(object.manifests.size() == 8);
    auto verifier = verifier_of(object.manifests[0]);
    REQUIRE(verifier);
    CHECK(check(*verifier, object.segments[16]) == SegmentVerdict::kUnknown);
    CHECK_FALSE(add(*verifier, object.manifests[7]));  // before its parent
    CHECK(verifier->missing_manifest(16) == 2);
    CHECK(add(*verifier, object.manifests[2]));
    CHECK(verifier->missing_manifest(16) == 7);
    CHECK(add(*verifier, object.manifests[7]));
    CHECK_FALSE(verifier->missing_manifest(16));
    CHECK(check(*verifier, object.segments[16]) == SegmentVerdict::kValid);
    CHECK(verifier->missing_manifest(0) == 1);
    CHECK_FALSE(verifier->missing_manifest(17));
}

TEST_CASE("a flipped bit in a segment or in a manifest is found") {
    Published object(6);  // root and two leaves
    auto verifier = verifier_of(object.manifests[0]);
    REQUIRE(verifier);
    for (std::size_t bit = 0; bit < object.manifests[1].size() * 8; ++bit) {
        Bytes damaged = object.manifests[1];
        damaged[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
        CHECK_FALSE(add(*verifier, damaged));
    }
    REQUIRE(add(*verifier, object.manifests[1]));
    for (std::size_t bit = 0; bit < object.segments[0].size() * 8; ++bit) {
        Bytes damaged = object.segments[0];
        damaged[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
        const auto view = wire::DataView::parse(damaged);
        if (view) CHECK(verifier->check(*view) != SegmentVerdict::kValid);
    }
}

TEST_CASE("a flipped bit in the root fails its signature") {
    Bytes root = Published(3).manifests[0];
    Keyring keyring;
    REQUIRE(
        keyring.add(wire::SignatureType::kEd25519, *wire::Name::from_uri("/models/KEY/1"),
                    from_hex("ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c")));
    REQUIRE(keyring.verify(*wire::DataView::parse(root)) == Verdict::kValid);
    for (std::size_t bit = 0; bit < root.size() * 8; ++bit) {
        root[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
        const auto damaged = wire::DataView::parse(root);
        if (damaged) CHECK(keyring.verify(*damaged) != Verdict::kValid);
        root[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
    }
}

TEST_CASE("swapped segments and segments of another object are invalid") {
    const Published object(4);
    auto verifier = verifier_of(object.manifests[0]);
    REQUIRE(verifier);
    Sha256 sha256;
    CHECK(verifier->check(0, sha256.digest(object.segments[0])) == SegmentVerdict::kValid);
    CHECK(verifier->check(0, sha256.digest(object.segments[1])) == SegmentVerdict::kInvalid);
    CHECK(verifier->check(4, sha256.digest(object.segments[0])) == SegmentVerdict::kInvalid);
    const auto signer = make_digest_signer();
    for (const char* uri : {"/models/llama/v=4/seg=0", "/models/llama/v=3/seg=0/x",
                            "/models/llama/v=3/seq=0", "/models/llama/v=3", "/"}) {
        CAPTURE(uri);
        const Bytes other = signed_data(*signer, *wire::Name::from_uri(uri), text("weights"));
        CHECK(check(*verifier, other) == SegmentVerdict::kInvalid);
    }
}

TEST_CASE("a packet outside the object is invalid at once, not unknown") {
    const Published object(6);
    auto verifier = verifier_of(object.manifests[0]);
    REQUIRE(verifier);
    const Bytes other =
        signed_data(*make_digest_signer(), *wire::Name::from_uri("/other/seg=0"), text("weights"));
    CHECK(check(*verifier, object.segments[0]) == SegmentVerdict::kUnknown);
    CHECK(check(*verifier, other) == SegmentVerdict::kInvalid);
}

TEST_CASE("a manifest of another object, a sibling and a second root are refused") {
    const Published object(6);
    auto verifier = verifier_of(object.manifests[0]);
    REQUIRE(verifier);
    CHECK_FALSE(add(*verifier, object.manifests[0]));
    CHECK_FALSE(add(*verifier, object.segments[0]));
    const auto signer = make_digest_signer();
    const Bytes content = tlv(wire::kManifestDigests, {Bytes(4 * 32)});
    for (const std::uint64_t place : {1, 2, 3, 1000}) {
        CHECK_FALSE(add(*verifier, signed_data(*signer, manifest_name(object_name(), place),
                                               content, wire::ContentType::kManifest)));
    }
}

TEST_CASE("a root with malformed, truncated or mismatched content gives no verifier") {
    const Bytes segments = number(wire::kManifestSegments, 3);
    const Bytes fan_out = number(wire::kManifestFanOut, 4);
    const Bytes digests = tlv(wire::kManifestDigests, {Bytes(3 * 32)});
    CHECK(verifier_of(root_with(join({segments, fan_out, digests}))));
    CHECK(verifier_of(root_with(join({tlv(1000), segments, fan_out, digests}))));
    CHECK_FALSE(verifier_of(root_with({})));
    CHECK_FALSE(verifier_of(root_with(join({segments, digests}))));
    CHECK_FALSE(verifier_of(root_with(join({fan_out, digests}))));
    CHECK_FALSE(verifier_of(root_with(join({segments, fan_out}))));
    CHECK_FALSE(verifier_of(root_with(join({digests, segments, fan_out}))));
    CHECK_FALSE(verifier_of(root_with(join({tlv(1001), segments, fan_out, digests}))));
    CHECK_FALSE(verifier_of(root_with(join({tlv(wire::kManifestSegments), fan_out, digests}))));
    CHECK_FALSE(
        verifier_of(root_with(join({number(wire::kManifestSegments, 0), fan_out, digests}))));
    CHECK_FALSE(
        verifier_of(root_with(join({segments, number(wire::kManifestFanOut, 1), digests}))));
    CHECK_FALSE(
        verifier_of(root_with(join({segments, fan_out, digests}), wire::ContentType::kBlob)));
    for (const std::size_t size : {0, 31, 32, 64, 95, 97, 128}) {
        CAPTURE(size);
        const Bytes wrong = tlv(wire::kManifestDigests, {Bytes(size)});
        CHECK_FALSE(verifier_of(root_with(join({segments, fan_out, wrong}))));
    }
    const Bytes elsewhere =
        signed_data(*producer(), manifest_name(object_name(), 1),
                    join({segments, fan_out, digests}), wire::ContentType::kManifest);
    CHECK_FALSE(verifier_of(elsewhere));
}

TEST_CASE("a builder without segments, with a bad fan-out or with a spent signer builds nothing") {
    PacketPool pool;
    const auto signer = producer();
    CHECK_FALSE(ManifestBuilder(object_name()).build(pool, *signer));
    ManifestBuilder narrow(object_name(), 1);
    narrow.add(Sha256Digest{});
    CHECK_FALSE(narrow.build(pool, *signer));
    CHECK(pool.bytes_in_use() == 0);
}

TEST_CASE("a root that lists all segments may have their tags, and no other number of them") {
    const auto root_with_tags = [](std::uint8_t segments, std::uint8_t fan_out, std::size_t tags) {
        const std::size_t children = std::min(segments, fan_out);
        return root_with(
            join({number(wire::kManifestSegments, segments), number(wire::kManifestFanOut, fan_out),
                  tlv(wire::kManifestDigests, {Bytes(children * kSha256Size)}),
                  tlv(wire::kManifestTags, {Bytes(tags * kSegmentTagSize, 7)})}));
    };
    const auto tagged = verifier_of(root_with_tags(3, 4, 3));
    REQUIRE(tagged);
    REQUIRE(tagged->tags().size() == 3);
    CHECK(tagged->tags()[2] == SegmentTag{7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7});
    CHECK(verifier_of(root_with_tags(3, 4, 0))->tags().empty());
    CHECK_FALSE(verifier_of(root_with_tags(3, 4, 2)));
    CHECK_FALSE(verifier_of(root_with_tags(3, 4, 4)));
    // Two manifests list the segments, and the root those.
    CHECK_FALSE(verifier_of(root_with_tags(4, 2, 4)));
}

TEST_CASE("manifest names are distinguished from all other names") {
    const auto is = [](const std::string& uri) {
        return is_manifest(wire::Name::from_uri(uri)->view());
    };
    for (const std::uint64_t number : {0ULL, 255ULL, 256ULL, 70'000ULL, 5'000'000'000ULL}) {
        const wire::Name name = manifest_name(object_name(), number);
        CHECK(is_manifest(name.view()));
        CHECK(is_root_manifest(name.view()) == (number == 0));
    }
    CHECK(is("/32=manifest/seg=0"));
    CHECK_FALSE(is("/"));
    CHECK_FALSE(is("/seg=0"));
    CHECK_FALSE(is("/a/32=manifest"));
    CHECK_FALSE(is("/a/manifest/seg=0"));
    CHECK_FALSE(is("/a/32=manifest/v=0"));
    CHECK_FALSE(is("/a/32=manifest/seg=0/32=x"));
    // The end of one component that looks like both.
    CHECK_FALSE(is("/a/x%20%08manifest2%01%00"));
    CHECK_FALSE(is("/a/x%20%08manifest/seg=0"));
}
