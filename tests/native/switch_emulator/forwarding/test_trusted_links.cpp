// Links within a machine carry segments without MACs; a node adds the MAC where one leaves.

#include <doctest/doctest.h>

#include "switch_under_test.hpp"
#include "transport/security/late_mac.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;

namespace {

constexpr FaceId kNetwork = 0;
constexpr FaceId kOtherNetwork = 1;
constexpr FaceId kMemory = 2;
constexpr FaceId kUpstreamMemory = 3;
constexpr FaceId kProgram = 4;
constexpr auto kGroup = "/train1/g0";
constexpr auto kSegment = "/train1/g0/0-7/sum.f32/seq=41/seg=9";
constexpr auto kKey = "/train1/KEY/g0/v=1";

struct Machine : SwitchUnderTest {
    Machine() : SwitchUnderTest(2) {
        node.add_face({.trusted = true});
        node.add_face({.trusted = true});
        node.add_face({.foreign = true, .scope = FaceScope::kLocal, .admitted_by_file = true});
        node.add_route(name(kGroup), kUpstreamMemory, 1);
        REQUIRE(keyring.add(wire::SignatureType::kGmac, name(kKey), secret, name(kGroup)));
    }

    void let_it_sign() { node.reducer().set_group_signer(name(kGroup), signer_with_salt(1)); }

    std::shared_ptr<security::Signer> signer_with_salt(std::uint8_t salt) const {
        return security::make_gmac_signer(name(kKey), secret, {salt});
    }

    PacketRef without_mac(std::string_view uri, std::string_view key = kKey) {
        const wire::Name data_name = name(uri);
        const wire::Name key_name = name(key);
        wire::DataFields fields;
        fields.name = data_name.view();
        fields.signature_type = wire::SignatureType::kGmac;
        fields.key_name = key_name.view();
        const auto maker = security::make_gmac_signer(key_name, secret, {2});
        PacketRef packet = pool.allocate(wire::encoded_data_size(fields, 5, 28));
        const auto layout = wire::encode_data(fields, 5, 28, packet.writable());
        std::ranges::copy(bytes("value"), &packet.writable()[layout.content_offset]);
        REQUIRE(security::sign_or_defer(packet, layout, *maker));
        return packet;
    }

    PacketRef arriving(const PacketRef& packet) { return pool.copy_of(packet.bytes()); }

    /// What the node sent to `face`, whole.
    PacketRef only_data(FaceId face) {
        auto& queue = node.outbox().queue(face);
        REQUIRE(queue.size() == 1);
        PacketRef packet = queue.front().payload;
        queue.clear();
        return packet;
    }

    bool is_verified(const PacketRef& packet) {
        return keyring.verify(*wire::DataView::parse(packet.bytes())) == security::Verdict::kValid;
    }

    static bool lacks_mac(const PacketRef& packet) {
        return security::lacks_mac(*wire::DataView::parse(packet.bytes()));
    }

    const std::vector<std::uint8_t> secret = std::vector<std::uint8_t>(16, 7);
};

}  // namespace

TEST_CASE("a segment passes from memory to memory without a MAC") {
    Machine it;
    it.receive_interest(kMemory, kSegment, 1);
    it.receive(kUpstreamMemory, it.arriving(it.without_mac(kSegment)));
    CHECK(Machine::lacks_mac(it.only_data(kMemory)));
    CHECK(it.node.counters().invalid_signature == 0);
}

TEST_CASE("a segment that leaves the machine has a MAC, at once and from the cache") {
    Machine it;
    it.let_it_sign();
    it.receive_interest(kNetwork, kSegment, 1);
    it.receive(kUpstreamMemory, it.arriving(it.without_mac(kSegment)));
    const PacketRef first = it.only_data(kNetwork);
    CHECK(it.is_verified(first));
    it.receive_interest(kOtherNetwork, kSegment, 2);
    CHECK(it.is_verified(it.only_data(kOtherNetwork)));

    constexpr auto kCached = "/train1/g0/0-7/sum.f32/seq=42/seg=0";
    it.receive_interest(kMemory, kCached, 3);
    it.receive(kUpstreamMemory, it.arriving(it.without_mac(kCached)));
    CHECK(Machine::lacks_mac(it.only_data(kMemory)));
    it.receive_interest(kNetwork, kCached, 4);
    const PacketRef later = it.only_data(kNetwork);
    CHECK(it.is_verified(later));
    const auto nonce = [](const PacketRef& packet) {
        return text(wire::DataView::parse(packet.bytes())->signature_value().first(12));
    };
    CHECK(nonce(first) != nonce(later));
}

TEST_CASE("the application's Data gets a MAC only where it leaves the machine") {
    Machine it;
    it.let_it_sign();
    it.application.productions[kSegment] = {Production::Kind::kData, it.without_mac(kSegment), {}};
    it.receive_interest(kMemory, kSegment, 1);
    CHECK(Machine::lacks_mac(it.only_data(kMemory)));
    it.receive_interest(kNetwork, kSegment, 2);
    CHECK(it.is_verified(it.only_data(kNetwork)));
    it.application.productions.clear();
}

TEST_CASE("a segment without a key for its MAC does not leave the machine") {
    Machine it;  // has no group's signer
    it.receive_interest(kNetwork, kSegment, 1);
    it.receive_interest(kMemory, kSegment, 2);
    it.receive(kUpstreamMemory, it.arriving(it.without_mac(kSegment)));
    CHECK(it.sent(kNetwork).empty());
    CHECK(it.sent(kMemory).size() == 1);
    CHECK(it.node.counters().mac_missing == 1);
}

TEST_CASE("a segment that the node cannot verify does not leave the machine without a MAC") {
    Machine it;
    it.let_it_sign();
    const PacketRef segment = it.without_mac(kSegment, "/train1/KEY/g0/v=2");
    SUBCASE("by name") {
        it.receive_interest(kNetwork, kSegment, 1);
        it.receive_interest(kMemory, kSegment, 2);
        it.receive(kUpstreamMemory, it.arriving(segment));
        CHECK(it.sent(kMemory).size() == 1);
        it.receive_interest(kOtherNetwork, kSegment, 3);  // is in the cache
        CHECK(it.node.counters().mac_missing == 2);
    }
    SUBCASE("by digest") {
        security::Sha256 sha256;
        wire::Name full = name(kSegment);
        full.append(wire::kImplicitSha256Digest, sha256.digest(segment.bytes()));
        it.receive_interest(kNetwork, full.view().to_uri(), 1);
        it.receive(kUpstreamMemory, it.arriving(segment));
        CHECK(it.node.counters().mac_missing == 1);
    }
    CHECK(it.sent(kNetwork).empty());
    CHECK(it.sent(kOtherNetwork).empty());
}

TEST_CASE("a segment without a MAC from the network or a local program is dropped and counted") {
    for (const FaceId hostile : {kOtherNetwork, kProgram}) {
        CAPTURE(hostile);
        Machine it;
        it.let_it_sign();
        constexpr auto kContribution = "/train1/g0/3/sum.f32/seq=1/seg=0";
        it.node.add_route(name("/train1/g0/3"), hostile, 1);
        it.receive_interest(kMemory, kContribution, 1);
        it.receive(hostile, it.arriving(it.without_mac(kContribution)));
        CHECK(it.sent(kMemory).empty());
        CHECK(it.node.counters().invalid_signature == 1);
        CHECK(it.node.face_counters(hostile).invalid_signature_in == 1);
        CHECK(it.node.counters().cache_entries == 0);
        const PacketRef good = it.without_mac(kContribution);
        REQUIRE(security::add_mac(good, *wire::DataFrame::parse(good.parts()),
                                  *it.signer_with_salt(9)));
        it.receive(hostile, it.arriving(good));
        CHECK(it.sent(kMemory).size() == 1);
    }
}

TEST_CASE("a trusted link vouches for names that the key may sign, and for no wrong MAC") {
    Machine it;
    it.node.install_job(name("/train1"), 1, nullptr);
    it.receive_interest(kMemory, kSegment, 1);
    PacketRef wrong = it.arriving(it.without_mac(kSegment));
    wrong.writable().back() ^= 1;
    it.receive(kUpstreamMemory, wrong);
    CHECK(it.node.counters().invalid_signature == 1);

    it.receive(kUpstreamMemory, it.arriving(it.without_mac(kSegment, "/train1/KEY/g0/v=2")));
    CHECK(it.node.counters().unknown_key == 1);

    constexpr auto kOtherGroup = "/train1/g1/0/sum.f32/seq=1/seg=0";
    it.node.add_route(name("/train1/g1"), kUpstreamMemory, 1);
    it.receive_interest(kMemory, kOtherGroup, 2);
    it.receive(kUpstreamMemory, it.arriving(it.without_mac(kOtherGroup)));
    CHECK(it.node.counters().key_out_of_scope == 1);

    constexpr auto kManifest = "/train1/g0/obj/3/weights/v=1/32=manifest/seg=0";
    it.receive_interest(kMemory, kManifest, 3);
    it.receive(kUpstreamMemory, it.arriving(it.without_mac(kManifest)));
    CHECK(it.node.counters().key_out_of_scope == 2);
    CHECK(it.sent(kMemory).empty());
}
