// Packets that foreign programs send in fragments.

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "switch_emulator/forwarding/reassembler.hpp"
#include "switch_under_test.hpp"
#include "tests/native/support/elements.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;
using forwarding::Reassembler;
using test::from_hex;

namespace {

constexpr FaceId kLink = 0;
constexpr FaceId kNear = 1;
constexpr FaceId kProducer = 2;
constexpr FaceOptions kForeign{
    .foreign = true, .scope = FaceScope::kLocal, .max_packet_bytes = kMaxForeignPacketBytes};

struct Fragmented : SwitchUnderTest {
    Fragmented() : SwitchUnderTest(1) {
        REQUIRE(node.add_face(kForeign) == kNear);
        REQUIRE(node.add_face(kForeign) == kProducer);
        node.add_route(name("/p"), kProducer, 0);
    }

    /// `packet` in pieces of `size` bytes, the other headers on the first.
    std::vector<PacketRef> pieces(const PacketRef& packet, std::size_t size, std::uint64_t sequence,
                                  std::string_view token = {}) {
        std::vector<PacketRef> all;
        const std::size_t count = (packet.size() + size - 1) / size;
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t offset = i * size;
            const std::size_t length = std::min(size, packet.size() - offset);
            all.push_back(piece(packet.slice(offset, length), {sequence + i, i, count},
                                i == 0 ? token : std::string_view()));
        }
        return all;
    }
    PacketRef piece(const PacketRef& payload, const wire::FragmentInfo& info,
                    std::string_view token = {}) {
        wire::LpFields fields;
        fields.pit_token = bytes(token);
        fields.fragment = info;
        return with_headers(payload, fields);
    }
    void receive_hex(FaceId face, std::string_view hex) {
        receive(face, pool.copy_of(from_hex(hex)));
    }
    std::uint64_t malformed(FaceId face) const { return node.face_counters(face).malformed_in; }
    std::uint64_t reassembled(FaceId face) const { return node.face_counters(face).reassembled_in; }
};

// The Interest /A with nonce 01020304, as of NDN Packet Format v0.3, cut by hand behind its 6th
// byte: sequence 1000 and 1001, FragIndex 0 and 1, FragCount 2, and a PIT token on the first.
constexpr std::string_view kFirstHalf =
    "641c 5108 00000000000003e8 520100 530102 6202beef 5006 050b07030801";
constexpr std::string_view kSecondHalf =
    "6419 5108 00000000000003e9 520101 530102 5007 410a0401020304";

}  // namespace

TEST_CASE("hand-written fragments reassemble into the Interest with its token") {
    for (const bool reversed : {false, true}) {
        Fragmented test;
        test.receive_hex(kNear, reversed ? kSecondHalf : kFirstHalf);
        CHECK(test.sent(kNear).empty());
        test.receive_hex(kNear, reversed ? kFirstHalf : kSecondHalf);
        const auto answers = test.sent(kNear);
        REQUIRE(answers.size() == 1);
        CHECK(answers[0].kind == Sent::Kind::kNack);
        CHECK(answers[0].name == "/A");
        CHECK(answers[0].nonce == 0x01020304);
        CHECK(answers[0].token == "\xbe\xef");
        CHECK(test.reassembled(kNear) == 1);
        CHECK(test.malformed(kNear) == 0);
    }
}

TEST_CASE("fragments in any order, each duplicated, reassemble into the Data") {
    Fragmented test;
    std::mt19937_64 random(7);
    for (std::uint32_t round = 0; round < 20; ++round) {
        const std::string uri = "/p/" + std::to_string(round);
        test.receive_interest(kNear, uri, round + 1);
        const std::string content(5000, static_cast<char>('a' + round));
        auto all = test.pieces(test.data(uri, content), 700, 1000 * round);
        std::ranges::shuffle(all, random);
        for (const PacketRef& one : all) {
            CHECK(test.sent(kNear).empty());
            test.receive(kProducer, one);
            if (&one != &all.back()) test.receive(kProducer, one);
        }
        const auto answers = test.sent(kNear);
        REQUIRE(answers.size() == 1);
        CHECK(answers[0].content == content);
    }
    CHECK(test.reassembled(kProducer) == 20);
    CHECK(test.malformed(kProducer) == 0);
}

TEST_CASE("fragments of several faces with equal numbers are separate; numbers may wrap") {
    Fragmented test;
    const std::uint64_t sequence = ~std::uint64_t{0};
    const auto near = test.pieces(test.interest("/nowhere/near/by", 1), 12, sequence);
    const auto far = test.pieces(test.interest("/nowhere/far/away", 2), 12, sequence);
    for (std::size_t i = 0; i < std::max(near.size(), far.size()); ++i) {
        if (i < near.size()) test.receive(kNear, near[i]);
        if (i < far.size()) test.receive(kProducer, far[i]);
    }
    const auto first = test.sent(kNear);
    const auto second = test.sent(kProducer);
    REQUIRE(first.size() == 1);
    REQUIRE(second.size() == 1);
    CHECK(first[0].name == "/nowhere/near/by");
    CHECK(second[0].name == "/nowhere/far/away");
}

TEST_CASE("a packet with missing fragments is dropped after its timeout") {
    Fragmented test;
    const auto all = test.pieces(test.interest("/nowhere/with/a/long/name", 5), 20, 1);
    REQUIRE(all.size() > 1);
    test.receive(kNear, all[0]);
    const std::size_t held = test.pool.bytes_in_use();
    CHECK(test.node.next_deadline() <= test.now + Reassembler::kTimeout);
    test.wait(Reassembler::kTimeout);
    CHECK(test.pool.bytes_in_use() < held);
    CHECK(test.node.counters().reassemblies_failed == 1);
    for (std::size_t i = 1; i < all.size(); ++i) test.receive(kNear, all[i]);
    CHECK(test.sent_everywhere() == 0);
    test.receive(kNear, all[0]);  // the others came again in time
    CHECK(test.sent(kNear).size() == 1);
}

TEST_CASE("fragments of a closed face are not those of the face that reuses its number") {
    Fragmented test;
    const auto all = test.pieces(test.interest("/nowhere/with/a/long/name", 5), 40, 1);
    REQUIRE(all.size() == 2);
    test.receive(kNear, all[0]);
    test.node.close_face(kNear, test.now);
    REQUIRE(test.node.add_face(kForeign) == kNear);
    test.receive(kNear, all[1]);
    CHECK(test.sent_everywhere() == 0);
}

TEST_CASE("between nodes, a fragmented packet can have any size that nodes accept") {
    Fragmented test;
    std::vector<std::uint8_t> large(60000);
    wire::Writer(large).header(wire::kData, large.size() - 4);
    const auto all = test.pieces(test.pool.copy_of(large), 1400, 7);
    for (std::size_t i = all.size(); i > 0; --i) test.receive(kLink, all[i - 1]);
    CHECK(test.reassembled(kLink) == 1);
    for (const PacketRef& one : all) test.receive(kNear, one);
    CHECK(test.reassembled(kNear) == 0);
    CHECK(test.malformed(kNear) > 0);
}

TEST_CASE("between nodes, fragments of a packet that is too large are dropped") {
    Fragmented test;
    const std::vector<std::uint8_t> zeros(kMaxPacketBytes + 1000);
    const auto half = zeros.size() / 2;
    std::vector<PacketRef> pieces;
    for (std::size_t i = 0; i < 40; ++i) {
        pieces.push_back(
            test.piece(test.pool.copy_of(std::span(zeros).first(half / 20)), {100 + i, i, 40}));
    }
    for (const PacketRef& one : pieces) test.receive(kLink, one);
    CHECK(test.reassembled(kLink) == 0);
    CHECK(test.malformed(kLink) == 1);
}

TEST_CASE("inconsistent fields are malformed") {
    Fragmented test;
    const PacketRef interest = test.interest("/nowhere/with/a/long/name", 5);
    const auto all = test.pieces(interest, 20, 1);
    std::uint64_t malformed = 0;
    const auto refused = [&](const PacketRef& one) {
        test.receive(kNear, one);
        CHECK(test.malformed(kNear) == ++malformed);
    };
    const PacketRef part = interest.slice(0, 20);
    refused(test.piece(part, {1, 0, Reassembler::kMaxFragments + 1}));
    refused(test.piece(part, {1, 0, ~std::uint64_t{0}}));
    refused(test.piece(part, {1, 2, 2}));
    refused(test.piece(part, {1, ~std::uint64_t{0}, 2}));
    test.receive(kNear, all[0]);
    refused(test.piece(part, {2, 1, all.size() + 1}));  // of the same packet, they disagree
    // Larger than a packet.
    const PacketRef large = test.pool.copy_of(test::Bytes(3000));
    for (std::uint64_t i = 0; i < 2; ++i) test.receive(kNear, test.piece(large, {100 + i, i, 3}));
    refused(test.piece(large, {102, 2, 3}));
    // All there, and no packet.
    test.receive(kNear, test.piece(part, {200, 0, 2}));
    refused(test.piece(part, {201, 1, 2}));
    CHECK(test.sent_everywhere() == 0);
}

TEST_CASE(
    "fragments that become no packets cost bounded memory, and other faces' packets nothing") {
    Fragmented test;
    const PacketRef interest = test.interest("/nowhere/with/a/long/name", 5);
    const auto own = test.pieces(interest, 40, 1);
    test.receive(kNear, own[0]);
    const PacketRef large = test.pool.copy_of(test::Bytes(8000));
    for (std::uint64_t i = 0; i < 10'000; ++i) {
        test.receive(kProducer, test.piece(large, {100 * i, 0, 3}));
    }
    CHECK(test.pool.bytes_in_use() <
          Reassembler::kMaxPacketsPerFace * std::size_t{16'384} + 16'384);
    test.receive(kNear, own[1]);
    CHECK(test.sent(kNear).size() == 1);
    CHECK(test.node.counters().reassemblies_failed == 10'000 - Reassembler::kMaxPacketsPerFace);
}

TEST_CASE("the limit of fragments includes their headers") {
    Fragmented test;
    // A header field that nobody has to know (NDNLPv2: 800 to 959, and no critical number).
    constexpr std::uint32_t kIgnorable = 956;
    const auto with_ballast = [&](std::uint64_t index, std::size_t ballast_bytes) {
        const auto number = [](std::uint32_t type, std::uint8_t value) {
            return test::tlv(type, {test::Bytes{value}});
        };
        const auto sequence = static_cast<std::uint8_t>(index);
        return test.pool.copy_of(test::tlv(
            100, {test::tlv(81, {test::Bytes{0, 0, 0, 0, 0, 0, 0, sequence}}), number(82, sequence),
                  number(83, 64), test::tlv(kIgnorable, {test::Bytes(ballast_bytes)}),
                  test::tlv(80, {test::Bytes{0}})}));
    };
    test.receive(kNear, with_ballast(0, 8000));
    test.receive(kNear, with_ballast(1, 8000));
    CHECK(test.malformed(kNear) == 0);
    test.receive(kNear, with_ballast(2, 8000));
    CHECK(test.malformed(kNear) == 1);
    test.receive(kNear, with_ballast(3, 60'000));
    CHECK(test.malformed(kNear) == 2);
    CHECK(test.pool.bytes_in_use() == 0);
}

TEST_CASE("first fragments of many faces use bounded memory") {
    Fragmented test;
    const PacketRef large = test.pool.copy_of(test::Bytes(8000));
    PacketPool& pool = test.pool;
    Reassembler reassembler(pool);
    for (std::uint64_t i = 0; i < 3; ++i) {
        for (FaceId face = 0; face < 600; ++face) {
            const PacketRef one = test.piece(large, {100 * i, 0, 3});
            PacketRef whole;
            CHECK(reassembler.add(face, one, *wire::LpView::parse(one.bytes()),
                                  kMaxForeignPacketBytes, test.now,
                                  whole) == Reassembler::Outcome::kWaiting);
        }
    }
    CHECK(reassembler.packets() == Reassembler::kMaxPackets);
    CHECK(pool.bytes_in_use() < (Reassembler::kMaxPackets + 2) * std::size_t{16'384});
    reassembler.on_timer(test.now + Reassembler::kTimeout);
    CHECK(reassembler.packets() == 0);
    CHECK(reassembler.next_deadline() == kNever);
}
