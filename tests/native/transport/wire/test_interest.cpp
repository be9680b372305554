#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "tests/native/support/elements.hpp"
#include "transport/wire/interest.hpp"

using namespace innet::wire;
using namespace std::chrono_literals;
using innet::Duration;
using innet::test::Bytes;
using innet::test::from_hex;
using innet::test::join;
using innet::test::short_name;
using innet::test::text;
using innet::test::tlv;

namespace {

bool parses(const Bytes& packet) { return InterestView::parse(packet).has_value(); }

/// An Interest for /a with these elements after its name.
Bytes interest_with(std::initializer_list<Bytes> elements) {
    return tlv(kInterest, {short_name(), join(elements)});
}

ByteView wire_value(const Bytes& element) { return read_only_element(element)->value; }

const Bytes kParametersName =
    tlv(kName, {tlv(kGenericComponent, {text("a")}), tlv(kParametersSha256Digest, {Bytes(32, 1)})});

}  // namespace

TEST_CASE("a minimal Interest of python-ndn") {
    const Bytes packet = from_hex("051a071408056c6f63616c08036e646e08067072656669780c020fa0");
    const auto interest = InterestView::parse(packet);
    REQUIRE(interest);
    CHECK(interest->name().to_uri() == "/local/ndn/prefix");
    CHECK_FALSE(interest->can_be_prefix());
    CHECK_FALSE(interest->must_be_fresh());
    CHECK_FALSE(interest->nonce());
    CHECK_FALSE(interest->hop_limit());
    CHECK(interest->hop_limit_offset() == 0);
    CHECK(interest->forwarding_hint().empty());
    CHECK(interest->lifetime() == 4s);
    CHECK_FALSE(interest->has_parameters());
    CHECK(interest->whole().size() == packet.size());
}

TEST_CASE("an Interest of python-ndn with every element") {
    const Bytes packet = from_hex(
        "053a071408056c6f63616c08036e646e08067072656669782100"
        "12001e12070708016e08027330070708016e080273310a04010203040c010a220101");
    const auto interest = InterestView::parse(packet);
    REQUIRE(interest);
    CHECK(interest->can_be_prefix());
    CHECK(interest->must_be_fresh());
    CHECK(interest->nonce() == 0x01020304U);
    CHECK(interest->lifetime() == 10ms);
    CHECK(interest->forwarding_hint().to_uri() == "/n/s0");
    CHECK(interest->hop_limit() == 1);
    CHECK(interest->hop_limit_offset() == packet.size() - 1);
}

TEST_CASE("parameterized and signed Interests of python-ndn") {
    for (const char* hex :
         {"0540072e08056c6f63616c08036e646e022047756f21fe0ee265149aa2be3c63c538a72378e9b0a58b39c591"
          "636"
          "7d35bda100a046c2111660c020fa0240401020304",
          "057b072e08056c6f63616c08036e646e022087a59c694fc4561ae22a9d900509e700b9ff0f1ab5435a8fe6f8"
          "84b"
          "28aec2deb0a046c2111660c020fa02404010203042c171b01002608363a2d4231cefde62808000001a1fb245"
          "e47"
          "2e209772d58561269854c61a16082fb9d7f0dd9110ce77dc61771b220d1a1b05c278"}) {
        CAPTURE(hex);
        const Bytes packet = from_hex(hex);
        const auto interest = InterestView::parse(packet);
        REQUIRE(interest);
        CHECK(interest->has_parameters());
        CHECK(interest->name().size() == 3);
        CHECK(interest->nonce() == 0x6c211166U);
    }
}

TEST_CASE("the encoding equals python-ndn's") {
    const auto name = Name::from_uri("/local/ndn/prefix");
    InterestFields fields;
    fields.name = name->view();
    fields.can_be_prefix = true;
    fields.must_be_fresh = true;
    fields.nonce = 0x01020304;
    fields.lifetime = 10ms;
    Bytes buffer(200);
    buffer.resize(encode_interest(fields, buffer));
    CHECK(buffer ==
          from_hex("0523071408056c6f63616c08036e646e0806707265666978210012000a04010203040c010a"));
}

TEST_CASE("an encoded Interest is decoded to the same, in a buffer of its exact size") {
    const auto name = Name::from_uri("/train1/g0/0-7/sum.f32/seq=41/seg=9");
    const auto hint = Name::from_uri("/n/s0");
    for (const Duration lifetime : {Duration(0ms), Duration(1s), Duration(4s), Duration(60s)}) {
        CAPTURE(lifetime.count());
        InterestFields fields;
        fields.name = name->view();
        fields.forwarding_hint = hint->view();
        fields.nonce = 0xfffefdfc;
        fields.lifetime = lifetime;
        Bytes buffer(200);
        const std::size_t size = encode_interest(fields, buffer);
        const auto interest = InterestView::parse(ByteView(buffer).first(size));
        REQUIRE(interest);
        CHECK(interest->name() == name->view());
        CHECK(interest->forwarding_hint() == hint->view());
        CHECK(interest->nonce() == 0xfffefdfcU);
        CHECK(interest->lifetime() == lifetime);
        CHECK(encode_interest(fields, std::span(buffer).first(size)) == size);
        CHECK(encode_interest(fields, std::span(buffer).first(size - 1)) == 0);
    }
}

TEST_CASE("the view of an encoded Interest is that of its bytes") {
    const auto name = Name::from_uri("/job/g/0-7/sum.f32/seq=5/seg=3").value();
    const auto hint = Name::from_uri("/n/s0").value();
    Bytes buffer(200);
    const Bytes roots = from_hex("0102030405");
    for (int variant = 0; variant < 256; ++variant) {
        InterestFields fields;
        fields.name = name.view();
        fields.nonce = 0x01020304U;
        fields.can_be_prefix = (variant & 1) != 0;
        fields.must_be_fresh = (variant & 2) != 0;
        if ((variant & 4) != 0) fields.forwarding_hint = hint.view();
        if ((variant & 8) != 0) fields.lifetime = 1500us;  // whole milliseconds leave
        if ((variant & 16) != 0) fields.lifetime = 90s;
        if ((variant & 32) != 0) fields.hop_limit = 7;
        if ((variant & 64) != 0) fields.attached_roots = roots;
        fields.accepts_draft = (variant & 128) != 0;
        const auto encoded = InterestView::encode(fields, buffer);
        REQUIRE(encoded);
        const auto parsed = InterestView::parse(encoded->whole());
        REQUIRE(parsed);
        CHECK(encoded->name().value().data() == parsed->name().value().data());
        CHECK(encoded->name() == parsed->name());
        CHECK(encoded->forwarding_hint().value().data() ==
              parsed->forwarding_hint().value().data());
        CHECK(encoded->forwarding_hint() == parsed->forwarding_hint());
        CHECK(encoded->can_be_prefix() == parsed->can_be_prefix());
        CHECK(encoded->must_be_fresh() == parsed->must_be_fresh());
        CHECK(encoded->nonce() == parsed->nonce());
        CHECK(encoded->lifetime() == parsed->lifetime());
        CHECK(encoded->hop_limit() == parsed->hop_limit());
        CHECK(encoded->hop_limit_offset() == parsed->hop_limit_offset());
        CHECK(std::ranges::equal(encoded->attached_roots(), parsed->attached_roots()));
        CHECK(parsed->attached_roots().empty() == ((variant & 64) == 0));
        CHECK(encoded->accepts_draft() == fields.accepts_draft);
        CHECK(parsed->accepts_draft() == fields.accepts_draft);
        CHECK_FALSE(encoded->has_parameters());
    }
}

TEST_CASE("a name with a digest of parameters needs the parameters") {
    Bytes buffer(200);
    const auto name = NameView::parse(wire_value(kParametersName));
    const Bytes parameters = tlv(kApplicationParameters, {text("x")});
    REQUIRE(name);
    InterestFields fields;
    fields.name = *name;
    CHECK_FALSE(InterestView::encode(fields, buffer));
    fields.parameters_portion = parameters;
    const auto encoded = InterestView::encode(fields, buffer);
    REQUIRE(encoded);
    CHECK(InterestView::parse(encoded->whole())->parameters().data() ==
          encoded->parameters().data());
}

TEST_CASE("an Interest without a name is not encoded") {
    Bytes buffer(100);
    CHECK(encode_interest({}, buffer) == 0);
}

TEST_CASE("malformed Interests are refused") {
    const Bytes nonce = tlv(kNonce, {from_hex("01020304")});
    CHECK(parses(interest_with({nonce})));
    CHECK_FALSE(parses(join({interest_with({nonce}), from_hex("00")})));
    CHECK_FALSE(parses(tlv(kData, {short_name(), nonce})));
    CHECK_FALSE(parses(tlv(kInterest)));
    CHECK_FALSE(parses(tlv(kInterest, {nonce})));
    CHECK_FALSE(parses(tlv(kInterest, {tlv(kName), nonce})));
    CHECK_FALSE(parses(tlv(kInterest, {nonce, short_name()})));
    CHECK_FALSE(parses(tlv(kInterest, {tlv(kName, {tlv(65536)})})));
    CHECK_FALSE(parses(tlv(kInterest, {tlv(1000), short_name()})));  // nothing before the name
    CHECK_FALSE(parses(interest_with({tlv(kNonce, {from_hex("010203")})})));
    CHECK_FALSE(parses(interest_with({tlv(kNonce, {from_hex("0102030405")})})));
    CHECK_FALSE(parses(interest_with({tlv(kCanBePrefix, {from_hex("01")})})));
    CHECK_FALSE(parses(interest_with({tlv(kMustBeFresh, {from_hex("01")})})));
    CHECK_FALSE(parses(interest_with({tlv(kHopLimit)})));
    CHECK_FALSE(parses(interest_with({tlv(kHopLimit, {from_hex("0001")})})));
    CHECK_FALSE(parses(interest_with({tlv(kInterestLifetime)})));
    CHECK_FALSE(parses(interest_with({tlv(kInterestLifetime, {from_hex("000001")})})));
}

TEST_CASE("critical elements that are unknown, repeated or out of order are refused") {
    const Bytes nonce = tlv(kNonce, {from_hex("01020304")});
    const Bytes lifetime = tlv(kInterestLifetime, {from_hex("0a")});
    CHECK_FALSE(parses(interest_with({nonce, tlv(31)})));
    CHECK_FALSE(parses(interest_with({nonce, tlv(1001)})));
    CHECK_FALSE(parses(interest_with({nonce, nonce})));
    CHECK_FALSE(parses(interest_with({lifetime, nonce})));
    CHECK_FALSE(parses(interest_with({tlv(kMustBeFresh), tlv(kCanBePrefix)})));
    CHECK_FALSE(parses(interest_with({short_name()})));
}

TEST_CASE("elements that are not critical are skipped when unknown, repeated or out of order") {
    const Bytes nonce = tlv(kNonce, {from_hex("01020304")});
    const Bytes hop_limit = tlv(kHopLimit, {from_hex("09")});
    const Bytes packet = interest_with(
        {tlv(1000, {text("new")}), nonce, hop_limit, tlv(kHopLimit, {from_hex("05")}), tlv(32)});
    const auto interest = InterestView::parse(packet);
    REQUIRE(interest);
    CHECK(interest->nonce() == 0x01020304U);
    CHECK(interest->hop_limit() == 9);
    CHECK(packet[interest->hop_limit_offset()] == 9);
}

TEST_CASE("a ForwardingHint holds at least one name, and none that is empty") {
    const Bytes other = tlv(kName, {tlv(kGenericComponent, {text("b")})});
    const auto hinted = [](std::initializer_list<Bytes> names) {
        return interest_with({tlv(kForwardingHint, names)});
    };
    const Bytes two = hinted({short_name(), other});
    CHECK(InterestView::parse(two)->forwarding_hint().to_uri() == "/a");
    const Bytes with_unknown = hinted({tlv(1000), other});
    CHECK(InterestView::parse(with_unknown)->forwarding_hint().to_uri() == "/b");
    CHECK_FALSE(parses(hinted({})));
    CHECK_FALSE(parses(hinted({tlv(1000)})));
    CHECK_FALSE(parses(hinted({tlv(kName)})));
    CHECK_FALSE(parses(hinted({short_name(), tlv(kName)})));
    CHECK_FALSE(parses(hinted({short_name(), tlv(31)})));
    CHECK_FALSE(parses(hinted({from_hex("0709")})));
}

TEST_CASE("parameters and their digest in the name go together") {
    const Bytes parameters = tlv(kApplicationParameters, {text("p")});
    CHECK(parses(tlv(kInterest, {kParametersName, parameters})));
    CHECK_FALSE(parses(tlv(kInterest, {kParametersName})));
    CHECK_FALSE(parses(interest_with({parameters})));
}

TEST_CASE("a lifetime is capped at one minute and does not overflow") {
    const Bytes packet = interest_with({tlv(kInterestLifetime, {Bytes(8, 0xff)})});
    const auto interest = InterestView::parse(packet);
    CHECK(interest->lifetime() == 60s);
    CHECK(innet::TimePoint(100h) + interest->lifetime() > innet::TimePoint(100h));
}
