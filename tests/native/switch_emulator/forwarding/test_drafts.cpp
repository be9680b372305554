// Root manifests without their signature: they stay between a holder of their key and its
// neighbour.

#include <doctest/doctest.h>

#include "switch_under_test.hpp"
#include "transport/object/object_segments.hpp"
#include "transport/security/manifest.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;

namespace {

constexpr FaceId kUpstream = 8;
constexpr auto kObject = "/kv/ab/block";
constexpr auto kRoot = "/kv/ab/block/32=manifest/seg=0";
constexpr auto kSegment = "/kv/ab/block/seg=0";
const std::vector<std::uint8_t> kSeed(32, 9);
const std::vector<std::uint8_t> kPublicKey{
    0xfd, 0x17, 0x24, 0x38, 0x5a, 0xa0, 0xc7, 0x5b, 0x64, 0xfb, 0x78, 0xcd, 0x60, 0x2f, 0xa1, 0xd9,
    0x91, 0xfd, 0xeb, 0xf7, 0x6b, 0x13, 0xc5, 0x8e, 0xd7, 0x02, 0xea, 0xc8, 0x35, 0xe9, 0xf6, 0x18};

/// A switch, or a member's node, with a neighbour that has a block.
struct Star : SwitchUnderTest {
    explicit Star(bool knows_key = true) {
        node.add_route(name("/kv/ab"), kUpstream, 1);
        if (knows_key) {
            REQUIRE(keyring.add(wire::SignatureType::kEd25519, name("/kv/ab/KEY"), kPublicKey,
                                name("/kv/ab")));
        }
    }

    PacketRef root(bool draft) {
        security::ManifestBuilder builder(name(kObject));
        builder.add({});
        builder.set_extent({1, 1});
        if (draft) builder.set_draft();
        return builder.build(pool, *key)->front();
    }

    /// Without a signature.
    PacketRef segment() {
        const std::vector<std::uint8_t> contents{1, 2, 3};
        return ObjectSegments(name(kObject).view(), contents, {1, 3, 3}, 1, pool).packet(0);
    }

    void request_segment_as_member() {
        node.express(RequesterId::kApplication, name(kSegment).view(), {}, 1s);
        node.run_pending(now);
    }

    void request_as_member() {
        node.express_to_neighbour(RequesterId::kApplication, name(kRoot).view(), {}, 1s, {});
        node.run_pending(now);
    }

    /// Answers with a draft where that is accepted.
    void have_block() {
        application.productions[kRoot] = {Production::Kind::kPending, {}, bytes("h0")};
    }

    std::unique_ptr<security::Signer> key =
        security::make_ed25519_signer(name("/kv/ab/KEY"), kSeed);
};

}  // namespace

TEST_CASE("a member's Interest for a draft goes no further than to its neighbour") {
    Star member;
    member.request_as_member();
    const auto sent = member.sent(kUpstream);
    REQUIRE(sent.size() == 1);
    CHECK(sent[0].accepts_draft);
    CHECK(sent[0].hop_limit == 1);
    Star on_the_way;
    on_the_way.receive_interest(0, kRoot, 1, {.accepts_draft = true, .hop_limit = 1});
    CHECK(on_the_way.sent(kUpstream).empty());
    CHECK(on_the_way.node.counters().hop_limit_exceeded == 1);
}

TEST_CASE("a draft for which the application vouches is delivered, and not cached") {
    Star member;
    member.application.vouches = true;
    member.request_as_member();
    member.receive(kUpstream, member.root(true));
    CHECK(member.application.received == std::vector<std::string>{kRoot});
    CHECK(member.node.counters().cache_entries == 0);
}

TEST_CASE("a draft for which nobody vouches is dropped, and the signed root is taken") {
    Star member;
    member.request_as_member();
    member.receive(kUpstream, member.root(true));
    CHECK(member.application.received.empty());
    CHECK(member.node.counters().invalid_signature == 1);
    member.receive(kUpstream, member.root(false));
    CHECK_FALSE(member.application.received.empty());
}

TEST_CASE("a node forwards and caches no draft, whether it knows the key or not") {
    for (const bool knows_key : {true, false}) {
        CAPTURE(knows_key);
        Star star(knows_key);
        star.application.vouches = true;
        star.receive_interest(0, kRoot, 1);
        star.receive_interest(1, kRoot, 2, {.accepts_draft = true, .hop_limit = 5});
        star.receive(kUpstream, star.root(true));
        CHECK(star.sent(0).empty());
        CHECK(star.sent(1).empty());
        CHECK(star.node.counters().invalid_signature == 1);
        CHECK(star.node.counters().cache_entries == 0);
        star.receive(kUpstream, star.root(false));
        CHECK(star.sent(0).size() == 1);
        CHECK(star.sent(1).size() == 1);
    }
}

TEST_CASE("a node forwards and caches no draft that is requested by its digest, either") {
    Star star;
    const PacketRef draft = star.root(true);
    wire::Name full = name(kRoot);
    full.append(wire::kImplicitSha256Digest, security::Sha256().digest(draft.bytes()));
    star.receive_interest(0, full.view().to_uri(), 1, {.accepts_draft = true});
    star.receive(kUpstream, draft);
    CHECK(star.sent(0).empty());
    CHECK(star.node.counters().invalid_signature == 1);
    CHECK(star.node.counters().cache_entries == 0);
}

TEST_CASE("while a neighbour fetches the block, too, a member takes the signed root alone") {
    Star member;
    member.application.vouches = true;
    member.request_as_member();
    REQUIRE(member.sent(kUpstream).size() == 1);
    member.receive_interest(0, kRoot, 1);
    const auto again = member.sent(kUpstream);  // at once: the first answer would not serve it
    REQUIRE(again.size() == 1);
    CHECK_FALSE(again[0].accepts_draft);
    member.receive(kUpstream, member.root(true));
    CHECK(member.application.received.empty());
    CHECK(member.sent(0).empty());
    member.receive(kUpstream, member.root(false));
    CHECK_FALSE(member.application.received.empty());
    CHECK(member.sent(0).size() == 1);
}

TEST_CASE("a draft that is published is sent only where all that wait accept it") {
    for (const bool all_accept : {true, false}) {
        CAPTURE(all_accept);
        Star home;
        home.have_block();
        home.receive_interest(0, kRoot, 1, {.accepts_draft = true, .hop_limit = 1});
        home.receive_interest(1, kRoot, 2, {.accepts_draft = all_accept, .hop_limit = 1});
        home.node.put_data(RequesterId::kApplication, home.root(true), false);
        home.node.run_pending(home.now);
        home.node.put_data(RequesterId::kApplication, home.root(false), false);
        home.node.run_pending(home.now);
        for (const FaceId face : {FaceId{0}, FaceId{1}}) {
            auto sent = home.sent(face);
            std::erase_if(sent, [](const Sent& one) { return one.kind != Sent::Kind::kData; });
            REQUIRE(sent.size() == 1);
            CHECK(sent[0].is_draft == all_accept);
        }
    }
}

TEST_CASE("a draft is not for an Interest that may have been forwarded") {
    Star home;
    home.have_block();
    home.receive_interest(0, kRoot, 1, {.accepts_draft = true, .hop_limit = 1});
    const std::size_t asked = home.application.asked_for_network.size();
    home.receive_interest(1, kRoot, 2, {.accepts_draft = true, .hop_limit = 5});
    CHECK(home.application.asked_for_network.size() == asked + 1);
    home.node.put_data(RequesterId::kApplication, home.root(true), false);
    home.node.run_pending(home.now);
    for (const FaceId face : {FaceId{0}, FaceId{1}}) {
        CHECK(std::ranges::none_of(home.sent(face), &Sent::is_draft));
    }
}

TEST_CASE("an application learns of the first Interest that accepts no draft") {
    Star home;
    home.have_block();
    home.receive_interest(0, kRoot, 1, {.accepts_draft = true, .hop_limit = 1});
    const std::size_t asked = home.application.asked_for_network.size();
    home.receive_interest(1, kRoot, 2, {.accepts_draft = true, .hop_limit = 1});
    CHECK(home.application.asked_for_network.size() == asked);
    home.receive_interest(2, kRoot, 3);
    CHECK(home.application.asked_for_network.size() == asked + 1);
    home.receive_interest(3, kRoot, 4);
    CHECK(home.application.asked_for_network.size() == asked + 1);
}

TEST_CASE("a segment that the application vouches for goes to it alone") {
    for (const bool knows_job : {false, true}) {
        for (const bool network_waits : {false, true}) {
            CAPTURE(knows_job);
            CAPTURE(network_waits);
            Star member;
            if (knows_job) member.node.install_job(name("/kv/ab"), 1, nullptr);
            member.application.vouches = true;
            member.request_segment_as_member();
            if (network_waits) member.receive_interest(0, kSegment, 1);
            member.receive(kUpstream, member.segment());
            CHECK(member.application.received == std::vector<std::string>{kSegment});
            CHECK(member.sent(0).empty());
            CHECK(member.node.counters().cache_entries == 0);
            CHECK(member.node.counters().pit_entries == (network_waits ? 1 : 0));
            member.receive(kUpstream, member.data(kSegment, "signed"));
            const auto sent = member.sent(0);
            REQUIRE(sent.size() == (network_waits ? 1 : 0));
            if (network_waits) CHECK(sent[0].content == "signed");
            CHECK(member.application.received.size() == 1);
        }
    }
}

TEST_CASE("a segment without a signature that nobody vouches for leaves the Interest pending") {
    Star member;
    member.node.install_job(name("/kv/ab"), 1, nullptr);
    member.request_segment_as_member();
    member.receive(kUpstream, member.segment());
    CHECK(member.application.received.empty());
    member.application.vouches = true;
    member.receive(kUpstream, member.segment());
    CHECK_FALSE(member.application.received.empty());
}

TEST_CASE("a segment without a signature is for those who named its digest, and no others") {
    Star member;
    member.application.vouches = true;
    const PacketRef segment = member.segment();
    wire::Name full = name(kSegment);
    full.append(wire::kImplicitSha256Digest, security::Sha256().digest(segment.bytes()));
    member.request_segment_as_member();
    member.receive_interest(0, full.view().to_uri(), 1);
    member.receive_interest(1, kSegment, 2);
    member.receive(kUpstream, segment);
    CHECK(member.application.received == std::vector<std::string>{kSegment});
    CHECK(member.sent(0).size() == 1);
    member.receive_interest(2, kSegment, 3);
    CHECK(member.sent(1).empty());
    CHECK(member.sent(2).empty());
}

TEST_CASE("a member whose Interest joins a stranger's that was answered in vain repeats it") {
    Star member;
    member.node.install_job(name("/kv/ab"), 1, nullptr);
    member.receive_interest(0, kSegment, 1, {.lifetime = 10s});
    member.receive(kUpstream, member.segment());
    CHECK(member.sent(0).empty());
    member.application.vouches = true;
    member.request_segment_as_member();
    member.sent(kUpstream);
    member.wait(500ms);
    member.request_segment_as_member();
    REQUIRE(member.sent(kUpstream).size() == 1);
    member.receive(kUpstream, member.segment());
    CHECK(member.application.received == std::vector<std::string>{kSegment});
    CHECK(member.sent(0).empty());
}
