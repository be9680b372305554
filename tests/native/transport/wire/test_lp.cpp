#include <doctest/doctest.h>

#include <algorithm>

#include "tests/native/support/elements.hpp"
#include "transport/wire/lp.hpp"

using namespace innet::wire;
using innet::test::Bytes;
using innet::test::from_hex;
using innet::test::join;
using innet::test::short_name;
using innet::test::text;
using innet::test::tlv;

namespace {

const Bytes kInterestBytes = tlv(kInterest, {short_name()});
const Bytes kDataBytes = tlv(kData, {short_name()});

bool parses(const Bytes& packet) { return LpView::parse(packet).has_value(); }

bool same(ByteView a, ByteView b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

/// An LpPacket around an Interest, with this header field.
Bytes around_interest(const Bytes& field) {
    return tlv(kLpPacket, {field, tlv(kLpFragment, {kInterestBytes})});
}

Bytes encoded(const LpFields& fields, const Bytes& payload) {
    Bytes packet(200 + payload.size());
    const std::size_t size = encode_lp_header(fields, payload.size(), packet);
    REQUIRE(size > 0);
    packet.resize(size);
    return join({packet, payload});
}

}  // namespace

TEST_CASE("bare Interests and Data pass as they are") {
    for (const Bytes& packet : {kInterestBytes, kDataBytes}) {
        const auto link = LpView::parse(packet);
        REQUIRE(link);
        CHECK(same(link->payload(), packet));
        CHECK(link->pit_token().empty());
        CHECK_FALSE(link->nack());
    }
    CHECK_FALSE(parses(join({kInterestBytes, kInterestBytes})));
    CHECK_FALSE(parses(short_name()));
    CHECK_FALSE(parses({}));
}

TEST_CASE("a Nack of python-ndn") {
    const Bytes packet = from_hex(
        "642dfd032005fd0321019650220520071408056c6f63616c08036e646e0806707265666978"
        "0a04010203040c0203e8");
    const auto link = LpView::parse(packet);
    REQUIRE(link);
    CHECK(link->nack() == NackReason::kNoRoute);
    CHECK(same(link->payload(), ByteView(packet).last(34)));
    LpFields fields;
    fields.nack = NackReason::kNoRoute;
    CHECK(encoded(fields, {link->payload().begin(), link->payload().end()}) == packet);
}

TEST_CASE("all header fields survive a round trip") {
    const Bytes token = from_hex("0102030405060708");
    const Bytes missing = text("3");
    LpFields fields;
    fields.pit_token = token;
    fields.congestion_mark = 300;
    fields.nack = NackReason::kNoSlot;
    fields.hold_missing = missing;
    fields.tx_sequence = std::uint64_t{1} << 63U;
    const Bytes packet = encoded(fields, kInterestBytes);
    const auto link = LpView::parse(packet);
    REQUIRE(link);
    CHECK(link->tx_sequence() == fields.tx_sequence);
    CHECK(same(link->pit_token(), token));
    CHECK(link->congestion_mark() == 300);
    CHECK(link->nack() == NackReason::kNoSlot);
    CHECK(link->held());
    CHECK(same(link->hold_missing(), missing));
    CHECK_FALSE(link->fragment());
    CHECK(same(link->payload(), kInterestBytes));
}

TEST_CASE("header fields are written in the order of their types, the fragment last") {
    LpFields fields;
    const Bytes token(32, 7);
    fields.pit_token = token;
    fields.congestion_mark = 1;
    fields.nack = NackReason::kNone;
    fields.hold_missing = ByteView{};
    fields.tx_sequence = 1;
    fields.fragment = FragmentInfo{.sequence = 9, .index = 1, .count = 3};
    Bytes buffer(96);
    const std::size_t size = encode_lp_header(fields, 8000, buffer);
    REQUIRE(size > 0);  // the largest header fits where OutgoingPacket keeps it
    buffer.resize(size + 8000);
    Reader reader(read_only_element(buffer)->value);
    std::vector<std::uint32_t> types;
    while (const auto field = reader.next()) types.push_back(field->type);
    CHECK(types == std::vector<std::uint32_t>{kLpSequence, kLpFragIndex, kLpFragCount, kLpPitToken,
                                              kLpNack, kLpCongestionMark, kLpTxSequence, kLpHold,
                                              kLpFragment});
}

TEST_CASE("a header is decoded without its payload, and encoded again") {
    const Bytes token = from_hex("01020304");
    const Bytes missing = text("3");
    LpFields fields;
    fields.pit_token = token;
    fields.congestion_mark = 1;
    for (const bool held : {false, true}) {
        if (held) fields.hold_missing = missing;
        for (const std::size_t payload_size : {0, 1, 252, 253, 8192, 65536}) {
            CAPTURE(payload_size);
            Bytes header(96);
            header.resize(encode_lp_header(fields, payload_size, header));
            const auto view = LpView::parse_header(header);
            REQUIRE(view);
            CHECK(view->held() == held);
            Bytes again(96);
            again.resize(encode_lp_header(view->fields(), payload_size, again));
            CHECK(again == header);
        }
    }
    CHECK_FALSE(LpView::parse_header({}));
    CHECK_FALSE(LpView::parse_header(kInterestBytes));
}

TEST_CASE("a header that does not fit is not written") {
    const Bytes token = from_hex("01020304");
    LpFields fields;
    fields.pit_token = token;
    Bytes buffer(64);
    const std::size_t size = encode_lp_header(fields, 100, buffer);
    CHECK(encode_lp_header(fields, 100, std::span(buffer).first(size)) == size);
    CHECK(encode_lp_header(fields, 100, std::span(buffer).first(size - 1)) == 0);
    const Bytes too_long(33, 1);
    fields.pit_token = too_long;
    CHECK(encode_lp_header(fields, 100, buffer) == 0);
}

TEST_CASE("a PIT token has 1 to 32 bytes") {
    CHECK(parses(around_interest(tlv(kLpPitToken, {Bytes(1)}))));
    CHECK(parses(around_interest(tlv(kLpPitToken, {Bytes(32)}))));
    CHECK_FALSE(parses(around_interest(tlv(kLpPitToken))));
    CHECK_FALSE(parses(around_interest(tlv(kLpPitToken, {Bytes(33)}))));
}

TEST_CASE("a Nack and a Hold come with an Interest") {
    for (const Bytes& field : {tlv(kLpNack), tlv(kLpHold, {text("3")})}) {
        CHECK(parses(around_interest(field)));
        CHECK_FALSE(parses(tlv(kLpPacket, {field})));
        CHECK_FALSE(parses(tlv(kLpPacket, {field, tlv(kLpFragment, {kDataBytes})})));
    }
}

TEST_CASE("a Nack's reason") {
    const auto nack_with = [](const Bytes& value) {
        return around_interest(tlv(kLpNack, {value}));
    };
    const Bytes none = nack_with({});
    CHECK(LpView::parse(none)->nack() == NackReason::kNone);
    const Bytes beyond = nack_with(tlv(kLpNackReason, {from_hex("0100")}));
    CHECK(LpView::parse(beyond)->nack() == NackReason::kNone);
    CHECK(parses(nack_with(tlv(808))));
    CHECK_FALSE(parses(nack_with(tlv(807))));
    CHECK_FALSE(parses(nack_with(tlv(kLpNackReason))));
    const Bytes reason = tlv(kLpNackReason, {from_hex("32")});
    CHECK_FALSE(parses(nack_with(join({reason, reason}))));
}

TEST_CASE("an acknowledgement states numbers of 8 bytes, any number of them") {
    const std::array<std::uint64_t, 3> numbers{1, 0x0102030405060708, ~std::uint64_t{0}};
    for (const std::size_t count : {1, 2, 3}) {
        Bytes packet(acknowledgement_size(count));
        encode_acknowledgement(std::span(numbers).first(count), packet);
        const auto link = LpView::parse(packet);
        REQUIRE(link);
        CHECK(link->has_acks());
        CHECK(link->payload().empty());
        std::vector<std::uint64_t> stated;
        link->for_each_ack([&](std::uint64_t number) { stated.push_back(number); });
        CHECK(std::ranges::equal(stated, std::span(numbers).first(count)));
    }
    for (const std::uint32_t type : {kLpAck, kLpTxSequence}) {
        const Bytes whole = tlv(type, {from_hex("0000000000000001")});
        CHECK(parses(around_interest(whole)));
        CHECK(parses(around_interest(join({whole, whole}))) == (type == kLpAck));
        CHECK_FALSE(parses(around_interest(tlv(type, {from_hex("01")}))));
        CHECK_FALSE(parses(around_interest(tlv(type))));
    }
}

TEST_CASE("unknown fields are ignored only between 800 and 959 and divisible by four") {
    for (const std::uint32_t type : {804U, 0x330U, 0x34cU, 956U}) {
        CAPTURE(type);
        CHECK(parses(around_interest(tlv(type, {text("x")}))));
    }
    for (const std::uint32_t type : {1U, 0x54U, 796U, 801U, 802U, 0x331U, 959U, 960U, 70000U}) {
        CAPTURE(type);
        CHECK_FALSE(parses(around_interest(tlv(type, {text("x")}))));
    }
}

TEST_CASE("malformed link packets are refused") {
    const Bytes mark = tlv(kLpCongestionMark, {from_hex("01")});
    const Bytes fragment = tlv(kLpFragment, {kInterestBytes});
    CHECK(parses(tlv(kLpPacket, {mark, fragment})));
    CHECK(parses(tlv(kLpPacket)));  // an idle packet
    CHECK_FALSE(parses(tlv(kLpPacket, {mark, mark, fragment})));
    CHECK_FALSE(parses(tlv(kLpPacket, {fragment, mark})));
    CHECK_FALSE(parses(tlv(kLpPacket, {fragment, fragment})));
    CHECK_FALSE(parses(tlv(kLpPacket, {tlv(kLpFragment)})));
    CHECK_FALSE(parses(tlv(kLpPacket, {tlv(kLpFragment, {short_name()})})));
    CHECK_FALSE(parses(tlv(kLpPacket, {tlv(kLpFragment, {kInterestBytes, kInterestBytes})})));
    CHECK_FALSE(parses(around_interest(tlv(kLpCongestionMark, {from_hex("010203")}))));
    CHECK_FALSE(parses(join({around_interest(mark), from_hex("00")})));
}

TEST_CASE("fragments carry a sequence of eight bytes and an index below their count") {
    const Bytes sequence = tlv(kLpSequence, {Bytes(8, 1)});
    const Bytes index = tlv(kLpFragIndex, {from_hex("01")});
    const Bytes count = tlv(kLpFragCount, {from_hex("02")});
    const Bytes piece = tlv(kLpFragment, {text("a piece")});
    const Bytes packet = tlv(kLpPacket, {sequence, index, count, piece});
    const auto link = LpView::parse(packet);
    REQUIRE(link);
    REQUIRE(link->fragment());
    CHECK(link->fragment()->sequence == 0x0101010101010101ULL);
    CHECK(link->fragment()->index == 1);
    CHECK(link->fragment()->count == 2);
    CHECK(same(link->payload(), text("a piece")));

    CHECK_FALSE(parses(tlv(kLpPacket, {index, count, piece})));
    CHECK_FALSE(parses(tlv(kLpPacket, {sequence, count, index})));
    CHECK_FALSE(parses(tlv(kLpPacket, {sequence, index, piece})));
    CHECK_FALSE(parses(tlv(kLpPacket, {sequence, tlv(kLpFragCount, {from_hex("00")}), piece})));
    CHECK_FALSE(
        parses(tlv(kLpPacket, {sequence, index, tlv(kLpFragCount, {from_hex("01")}), piece})));
    CHECK_FALSE(
        parses(tlv(kLpPacket, {sequence, tlv(kLpFragIndex, {from_hex("02")}), count, piece})));
    CHECK_FALSE(parses(around_interest(index)));
    CHECK_FALSE(parses(around_interest(tlv(kLpSequence, {Bytes(4)}))));
    // Header fields about an Interest travel with its first piece.
    CHECK(parses(tlv(kLpPacket, {sequence, count, tlv(kLpNack), piece})));
    CHECK_FALSE(parses(tlv(kLpPacket, {sequence, index, count, tlv(kLpNack), piece})));
}

TEST_CASE("a packet in a single fragment is whole") {
    const Bytes packet = around_interest(tlv(kLpSequence, {Bytes(8, 1)}));
    const auto link = LpView::parse(packet);
    REQUIRE(link);
    CHECK_FALSE(link->fragment());
    CHECK(same(link->payload(), kInterestBytes));
}

TEST_CASE("a hello has no payload and says whether its sender receives from the receiver") {
    for (const bool hears : {false, true}) {
        LpFields fields;
        fields.hello = hears;
        const auto link = LpView::parse(encoded(fields, {}));
        REQUIRE(link);
        CHECK(link->payload().empty());
        CHECK(link->hello() == hears);
        CHECK(link->fields().hello == hears);
    }
}
