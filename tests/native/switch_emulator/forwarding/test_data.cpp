// What happens to Data: verification, multicast, cache, tokens, congestion marks.

#include <doctest/doctest.h>

#include "switch_under_test.hpp"
#include "transport/security/sha256.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;

namespace {

constexpr FaceId kUpstream = 8;
constexpr auto kSegment = "/train1/g0/0-7/sum.f32/seq=41/seg=9";

struct Star : SwitchUnderTest {
    explicit Star(forwarding::NodeOptions options = default_options())
        : SwitchUnderTest(9, std::move(options)) {
        node.add_route(name("/train1/g0"), kUpstream, 1);
    }
};

}  // namespace

TEST_CASE("unsolicited Data is dropped") {
    Star star;
    star.receive(kUpstream, star.data(kSegment));
    CHECK(star.node.counters().unsolicited_data == 1);
    CHECK(star.node.counters().cache_entries == 0);
}

TEST_CASE("tampered Data is dropped, and the valid one after it is accepted") {
    Star star;
    star.receive_interest(0, kSegment, 1);
    const PacketRef good =
        star.data(kSegment, "a value long enough to be hit in its content, mostly");
    PacketRef bad = star.pool.copy_of(good.bytes());
    const auto content = wire::DataView::parse(good.bytes())->content();
    bad.writable()[static_cast<std::size_t>(content.data() - good.bytes().data())] ^= 0x40;
    star.receive(kUpstream, bad);
    CHECK(star.sent(0).empty());
    CHECK(star.node.counters().invalid_signature == 1);
    CHECK(star.node.face_counters(kUpstream).invalid_signature_in == 1);
    CHECK(star.node.counters().cache_entries == 0);
    star.receive(kUpstream, good);
    CHECK(star.sent(0).size() == 1);
}

TEST_CASE("Data of an unknown key is forwarded and cached, and not delivered locally") {
    Star star;
    star.receive_interest(0, kSegment, 1);
    star.node.express(RequesterId::kApplication, name(kSegment).view(), {}, 1s);
    star.node.run_pending(star.now);
    star.receive(kUpstream, star.foreign_data(kSegment));
    CHECK(star.sent(0).size() == 1);
    CHECK(star.application.received.empty());
    CHECK(star.node.counters().unknown_key == 1);
    CHECK(star.node.counters().cache_unverified_bytes > 0);
    star.receive(kUpstream, star.data(kSegment));
    CHECK(star.application.received.size() == 1);
    CHECK(star.sent(0).empty());
}

TEST_CASE("each requester's PIT token is returned unchanged") {
    Star star;
    star.receive_interest(0, kSegment, 1, {.token = "token-of-face-0"});
    star.receive_interest(1, kSegment, 2, {.token = std::string(32, 'x')});
    star.receive_interest(2, kSegment, 3);
    CHECK(star.sent(kUpstream)[0].token.empty());
    star.receive(kUpstream, star.data(kSegment));
    CHECK(star.sent(0)[0].token == "token-of-face-0");
    CHECK(star.sent(1)[0].token == std::string(32, 'x'));
    CHECK(star.sent(2)[0].token.empty());
}

TEST_CASE("a retransmission's token replaces the earlier one") {
    Star star;
    star.receive_interest(0, kSegment, 1, {.token = "a longer token"});
    star.receive_interest(0, kSegment, 2, {.token = "short"});
    star.receive(kUpstream, star.data(kSegment));
    CHECK(star.sent(0)[0].token == "short");
}

TEST_CASE("a Nack carries the requester's token and nonce") {
    Star star;
    star.receive_interest(0, "/elsewhere/x", 77, {.token = "t"});
    const auto answers = star.sent(0);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].token == "t");
    CHECK(answers[0].nonce == 77);
}

TEST_CASE("a congestion mark reaches faces and applications") {
    Star star;
    star.receive_interest(0, kSegment, 1);
    star.node.express(RequesterId::kApplication, name(kSegment).view(), {}, 1s);
    star.node.run_pending(star.now);
    wire::LpFields fields;
    fields.congestion_mark = 1;
    star.receive(kUpstream, star.with_headers(star.data(kSegment), fields));
    CHECK(star.sent(0)[0].mark == 1);
    CHECK(star.application.marks == std::vector<bool>{true});
}

TEST_CASE("a cached answer serves the next requester without the first one's congestion mark") {
    Star star;
    star.receive_interest(0, kSegment, 1);
    wire::LpFields fields;
    fields.congestion_mark = 1;
    star.receive(kUpstream, star.with_headers(star.data(kSegment), fields));
    star.sent_everywhere();
    star.receive_interest(5, kSegment, 2, {.token = "five"});
    const auto answers = star.sent(5);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].token == "five");
    CHECK(answers[0].mark == 0);
    CHECK(star.sent(kUpstream).empty());
    CHECK(star.node.counters().cache_hits == 1);
}

TEST_CASE("CanBePrefix is answered by any Data below, from upstream and from the cache") {
    Star star;
    star.receive_interest(0, "/train1/g0", 1, {.can_be_prefix = true});
    star.receive_interest(1, "/train1/g0", 2);
    star.sent(kUpstream);
    star.receive(kUpstream, star.data(kSegment));
    CHECK(star.sent(0).size() == 1);
    CHECK(star.sent(1).empty());
    star.receive_interest(2, "/train1/g0/0-7", 3, {.can_be_prefix = true});
    CHECK(star.sent(2).size() == 1);
}

TEST_CASE("MustBeFresh is answered from the cache only while the Data is fresh") {
    Star star;
    star.receive_interest(0, kSegment, 1);
    star.receive(kUpstream, star.data(kSegment, "value", 100ms));
    star.sent_everywhere();
    star.wait(50ms);
    star.receive_interest(1, kSegment, 2, {.must_be_fresh = true});
    CHECK(star.sent(1).size() == 1);
    star.wait(51ms);
    star.receive_interest(1, kSegment, 3, {.must_be_fresh = true});
    CHECK(star.sent(1).empty());
    CHECK(star.sent(kUpstream).size() == 1);
    star.receive_interest(2, kSegment, 4);
    CHECK(star.sent(2).size() == 1);
}

TEST_CASE("an error reaches its requesters and is never cached") {
    Star star;
    star.receive_interest(0, kSegment, 1);
    star.receive(kUpstream, star.data(kSegment, "rank 3 called something else", Duration(0),
                                      wire::TensorErrorCode::kMismatch));
    CHECK(star.sent(0).size() == 1);
    CHECK(star.node.counters().cache_entries == 0);
}

TEST_CASE("operands requested only by the node's own reducer are not cached") {
    Star star;
    constexpr auto kOperand = "/train1/g0/3/sum.f32/seq=41/seg=9";
    star.node.express(RequesterId::kReducer, name(kOperand).view(), {}, 1s);
    star.node.run_pending(star.now);
    star.receive(kUpstream, star.data(kOperand));
    CHECK(star.node.counters().pit_entries == 0);
    CHECK(star.node.counters().cache_entries == 0);
    star.node.express(RequesterId::kReducer, name(kOperand).view(), {}, 1s);
    star.node.run_pending(star.now);
    star.receive_interest(0, kOperand, 1);
    star.receive(kUpstream, star.data(kOperand));
    CHECK(star.node.counters().cache_entries == 1);
}

TEST_CASE("an Interest with an implicit digest accepts only that packet") {
    Star star;
    const PacketRef wanted = star.data(kSegment, "wanted");
    wire::Name exact = name(kSegment);
    security::Sha256 sha256;
    exact.append(wire::kImplicitSha256Digest, sha256.digest(wanted.bytes()));
    star.receive_interest(0, exact.view().to_uri(), 1);
    star.receive_interest(1, kSegment, 2);
    star.receive(kUpstream, star.data(kSegment, "another"));
    CHECK(star.sent(0).empty());
    CHECK(star.sent(1).size() == 1);
    star.receive(kUpstream, wanted);
    REQUIRE(star.sent(0).size() == 1);
    star.receive_interest(2, exact.view().to_uri(), 3);
    REQUIRE(star.sent(2).size() == 1);
    CHECK(star.node.counters().cache_hits == 1);
}

TEST_CASE("Data is hashed only if its name is requested by digest") {
    Star star;
    const PacketRef wanted = star.data(kSegment, "wanted");
    wire::Name exact = name(kSegment);
    security::Sha256 sha256;
    exact.append(wire::kImplicitSha256Digest, sha256.digest(wanted.bytes()));
    CHECK_FALSE(star.node.needs_digest_of(name(kSegment).view()));
    star.receive_interest(0, exact.view().to_uri(), 1);
    CHECK(star.node.needs_digest_of(name(kSegment).view()));
    std::size_t others = 0;
    for (int i = 0; i < 100; ++i) {
        const wire::Name other = name("/train1/g0/other/" + std::to_string(i));
        others += star.node.needs_digest_of(other.view()) ? 1 : 0;
    }
    CHECK(others <= 2);  // of 100 names, two share a counter with a probability of 0.0003
    star.receive(kUpstream, wanted);
    CHECK_FALSE(star.node.needs_digest_of(name(kSegment).view()));
}

TEST_CASE("Data of an unknown key is delivered and cached only for Interests with its digest") {
    Star star;
    const PacketRef packet = star.foreign_data(kSegment);
    wire::Name full = name(kSegment);
    security::Sha256 sha256;
    full.append(wire::kImplicitSha256Digest, sha256.digest(packet.bytes()));
    star.node.express(RequesterId::kApplication, full.view(), {}, 1s);
    star.node.run_pending(star.now);
    star.receive_interest(0, full.view().to_uri(), 1);
    star.receive(kUpstream, packet);
    CHECK(star.sent(0).size() == 1);
    CHECK(star.application.received.size() == 1);
    CHECK(star.node.counters().cache_entries == 1);
    star.sent(kUpstream);
    // By its full name it comes from the cache; by its name, or a prefix of it, it does not.
    star.receive_interest(1, full.view().to_uri(), 2);
    CHECK(star.sent(1).size() == 1);
    star.receive_interest(2, kSegment, 3);
    star.receive_interest(2, "/train1/g0", 4, {.can_be_prefix = true});
    CHECK(star.sent(2).empty());
    CHECK(star.sent(kUpstream).size() == 2);
}

TEST_CASE("an Interest with a digest delivers nothing to requesters without it") {
    Star star;
    const PacketRef forgery = star.foreign_data(kSegment);
    wire::Name full = name(kSegment);
    security::Sha256 sha256;
    full.append(wire::kImplicitSha256Digest, sha256.digest(forgery.bytes()));
    star.node.express(RequesterId::kApplication, name(kSegment).view(), {}, 1s);
    star.node.run_pending(star.now);
    star.receive_interest(0, full.view().to_uri(), 1);
    star.receive(kUpstream, forgery);
    CHECK(star.sent(0).size() == 1);
    CHECK(star.application.received.empty());
    star.receive_interest(3, kSegment, 9);
    star.receive(kUpstream, star.data(kSegment));
    CHECK(star.application.received.size() == 1);
    // The verified one takes the forgery's place in the cache, and keeps it.
    star.receive_interest(1, full.view().to_uri(), 2);
    star.receive(kUpstream, forgery);
    star.sent_everywhere();
    star.receive_interest(2, kSegment, 3);
    CHECK(star.sent(2).size() == 1);
}

TEST_CASE("a digest vouched for by an application is valid for local requesters only") {
    for (const bool network_wants : {false, true}) {
        CAPTURE(network_wants);
        Star star;
        const PacketRef other = star.foreign_data(kSegment);
        const security::Sha256Digest claimed{1, 2, 3};
        star.application.told = claimed;
        wire::Name full = name(kSegment);
        full.append(wire::kImplicitSha256Digest, claimed);
        star.node.express(RequesterId::kApplication, full.view(), {}, 1s);
        star.node.run_pending(star.now);
        if (network_wants) star.receive_interest(0, full.view().to_uri(), 1);
        star.receive(kUpstream, other);
        CHECK(star.application.received.size() == (network_wants ? 0 : 1));
        CHECK(star.sent(0).empty());
        CHECK(star.node.counters().cache_entries == 0);
    }
}

TEST_CASE(
    "the node caches results of its reducer, and not Data that only it requests or publishes") {
    Star star;
    star.node.express(RequesterId::kApplication, name(kSegment).view(), {}, 1s);
    star.node.run_pending(star.now);
    star.receive(kUpstream, star.data(kSegment));
    CHECK(star.application.received.size() == 1);
    CHECK(star.node.counters().cache_entries == 0);
    star.node.put_data(RequesterId::kApplication, star.data("/train1/g0/3/sum.f32/seq=41/seg=8"),
                       false);
    star.node.run_pending(star.now);
    CHECK(star.node.counters().cache_entries == 0);
    star.node.put_data(RequesterId::kReducer, star.data("/train1/g0/0-7/sum.f32/seq=41/seg=9"),
                       false);
    star.node.run_pending(star.now);
    CHECK(star.node.counters().cache_entries == 1);
}

TEST_CASE("Data is not sent back to the face it arrived on") {
    Star star;
    star.node.add_route(name("/train1/g0"), 7, 2);
    star.receive_interest(0, kSegment, 1);
    star.receive_interest(kUpstream, kSegment, 2);
    star.sent_everywhere();
    star.receive(kUpstream, star.data(kSegment));
    CHECK(star.sent(0).size() == 1);
    CHECK(star.sent(kUpstream).empty());
}

TEST_CASE("only a face with scatter-gather sends borrowed bytes") {
    for (const bool takes_parts : {false, true}) {
        CAPTURE(takes_parts);
        SwitchUnderTest node(1, SwitchUnderTest::default_options(), {.takes_parts = takes_parts});
        const auto content = std::make_shared<std::vector<std::uint8_t>>(5, std::uint8_t{'x'});
        PacketRef data = node.data(kSegment, "value");
        const auto place = wire::DataView::parse(data.bytes())->content();
        const auto offset = static_cast<std::size_t>(place.data() - data.bytes().data());
        data.lend(offset, *content, content);
        node.application.productions[kSegment] = {Production::Kind::kData, std::move(data), {}};
        node.receive_interest(0, kSegment, 1);
        node.application.productions.clear();
        CHECK(content.use_count() == (takes_parts ? 2 : 1));
        const auto answers = node.sent(0);
        REQUIRE(answers.size() == 1);
        CHECK(answers[0].content == "xxxxx");
    }
}

TEST_CASE("a manifest vouched for by an application is valid for local requesters only") {
    for (const bool vouches : {false, true}) {
        for (const bool network_wants : {false, true}) {
            CAPTURE(vouches);
            CAPTURE(network_wants);
            Star star;
            star.application.vouches = vouches;
            star.node.express(RequesterId::kApplication, name(kSegment).view(), {}, 1s);
            star.node.run_pending(star.now);
            if (network_wants) star.receive_interest(0, kSegment, 1);
            star.receive(kUpstream, star.foreign_data(kSegment, wire::ContentType::kManifest));
            CHECK(star.application.received.size() == (vouches && !network_wants ? 1 : 0));
            // Others are told of what they verify themselves, as ever.
            CHECK(star.sent(0).size() == (network_wants ? 1 : 0));
            CHECK(star.node.counters().unknown_key == (vouches && !network_wants ? 0 : 1));
        }
    }
}

TEST_CASE("an application can bypass caches, and undo that") {
    Star star;
    star.receive_interest(0, kSegment, 1);
    star.receive(kUpstream, star.data(kSegment));
    star.sent_everywhere();
    star.node.express_fresh(RequesterId::kApplication, name(kSegment).view(), {}, 1s);
    star.node.run_pending(star.now);
    CHECK(star.sent(kUpstream).size() == 1);
    CHECK(star.application.received.empty());
    CHECK(star.node.counters().pit_entries == 1);
    star.node.cancel(RequesterId::kApplication, name(kSegment).view());
    star.node.run_pending(star.now);
    CHECK(star.node.counters().pit_entries == 0);
}
