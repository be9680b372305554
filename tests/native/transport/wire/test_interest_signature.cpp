#include <doctest/doctest.h>

#include <algorithm>

#include "tests/native/support/elements.hpp"
#include "transport/security/parameters_digest.hpp"
#include "transport/wire/interest_signature.hpp"

using namespace innet::wire;
using innet::security::parameters_digest_holds;
using innet::security::Sha256;
using innet::test::Bytes;
using innet::test::from_hex;
using innet::test::short_name;
using innet::test::text;
using innet::test::tlv;

namespace {

// What python-ndn 0.5.2 encodes for /local/ndn with the parameters 01020304.
const Bytes kWithParameters = from_hex(
    "0540072e08056c6f63616c08036e646e022047756f21fe0ee265149aa2be3c63c538a72378e9b0a58b39c5916367"
    "d35bda100a046c2111660c020fa0240401020304");
// The same, signed by DigestSha256.
const Bytes kSigned = from_hex(
    "057b072e08056c6f63616c08036e646e022087a59c694fc4561ae22a9d900509e700b9ff0f1ab5435a8fe6f884b2"
    "8aec2deb0a046c2111660c020fa02404010203042c171b01002608363a2d4231cefde62808000001a1fb245e472e"
    "209772d58561269854c61a16082fb9d7f0dd9110ce77dc61771b220d1a1b05c278");

Bytes bytes_of(ByteView view) { return {view.begin(), view.end()}; }

/// /a/params-sha256=00.. with these elements after its name.
Bytes with_elements(std::initializer_list<Bytes> elements) {
    const Bytes name = tlv(
        kName, {tlv(kGenericComponent, {text("a")}), tlv(kParametersSha256Digest, {Bytes(32, 0)})});
    return tlv(kInterest, {name, innet::test::join(elements)});
}

const Bytes kParameters = tlv(kApplicationParameters, {text("p")});
const Bytes kDigestType = tlv(kSignatureType, {from_hex("00")});

bool has_signature(const Bytes& packet) {
    const auto interest = InterestView::parse(packet);
    REQUIRE(interest);
    return InterestSignature::read(*interest).has_value();
}

bool info_parses(std::initializer_list<Bytes> elements) {
    return InterestSignatureInfo::parse(innet::test::join(elements)).has_value();
}

}  // namespace

TEST_CASE("the parameters of an Interest of python-ndn") {
    const auto interest = InterestView::parse(kWithParameters);
    REQUIRE(interest);
    CHECK(bytes_of(interest->parameters()) == from_hex("01020304"));
    CHECK(bytes_of(interest->parameters_portion()) == from_hex("240401020304"));
    CHECK_FALSE(InterestSignature::read(*interest));
    const Bytes bare = tlv(kInterest, {short_name()});
    CHECK(InterestView::parse(bare)->parameters().empty());
}

TEST_CASE("the signature of an Interest of python-ndn is that of its signed portion") {
    const auto interest = InterestView::parse(kSigned);
    REQUIRE(interest);
    const auto signature = InterestSignature::read(*interest);
    REQUIRE(signature);
    CHECK(signature->info.type == SignatureType::kDigestSha256);
    CHECK(signature->info.key_name.empty());
    CHECK(bytes_of(signature->info.nonce) == from_hex("363a2d4231cefde6"));
    CHECK(signature->info.time_ms == 0x1a1fb245e47U);
    CHECK_FALSE(signature->info.sequence);
    Bytes portion = bytes_of(signature->signed_parts[0]);
    portion.insert(portion.end(), signature->signed_parts[1].begin(),
                   signature->signed_parts[1].end());
    CHECK(std::ranges::equal(Sha256().digest(portion), signature->value));
}

TEST_CASE(
    "the digest of the parameters holds for the bytes that it was made of, and for no others") {
    Sha256 sha256;
    for (const Bytes& packet : {kWithParameters, kSigned}) {
        CHECK(parameters_digest_holds(*InterestView::parse(packet), sha256));
        Bytes other = packet;
        other.back() ^= 1;
        CHECK_FALSE(parameters_digest_holds(*InterestView::parse(other), sha256));
    }
    const Bytes bare = tlv(kInterest, {short_name()});
    CHECK(parameters_digest_holds(*InterestView::parse(bare), sha256));
}

TEST_CASE(
    "a signature has an info and a value, in this order, and a name that ends with the digest") {
    const Bytes info = tlv(kInterestSignatureInfo, {kDigestType});
    const Bytes value = tlv(kInterestSignatureValue, {text("v")});
    CHECK(has_signature(with_elements({kParameters, info, value})));
    CHECK_FALSE(has_signature(with_elements({kParameters})));
    CHECK_FALSE(has_signature(with_elements({kParameters, info})));
    CHECK_FALSE(has_signature(with_elements({kParameters, value})));
    const Bytes malformed = tlv(kInterestSignatureInfo, {tlv(kSignatureType)});
    CHECK_FALSE(has_signature(with_elements({kParameters, malformed, value})));
    const Bytes digest_first = tlv(
        kName, {tlv(kParametersSha256Digest, {Bytes(32, 0)}), tlv(kGenericComponent, {text("a")})});
    CHECK_FALSE(has_signature(tlv(kInterest, {digest_first, kParameters, info, value})));
}

TEST_CASE("every element of InterestSignatureInfo") {
    const Bytes locator = tlv(kKeyLocator, {short_name()});
    const Bytes all = innet::test::join(
        {tlv(kSignatureType, {from_hex("03")}), locator, tlv(kSignatureNonce, {text("n")}),
         tlv(kSignatureTime, {from_hex("0102")}), tlv(kSignatureSeqNum, {from_hex("07")})});
    const auto info = InterestSignatureInfo::parse(all);
    REQUIRE(info);
    CHECK(info->type == SignatureType::kEcdsaP256);
    CHECK(info->key_name.to_uri() == "/a");
    CHECK(info->time_ms == 0x0102);
    CHECK(info->sequence == 7);
}

TEST_CASE("malformed InterestSignatureInfo is refused") {
    const Bytes locator = tlv(kKeyLocator, {short_name()});
    CHECK(info_parses({kDigestType, tlv(1000)}));
    CHECK_FALSE(info_parses({}));
    CHECK_FALSE(info_parses({locator}));
    CHECK_FALSE(info_parses({tlv(kSignatureType, {from_hex("000000")})}));
    CHECK_FALSE(info_parses({kDigestType, tlv(kKeyLocator)}));
    CHECK_FALSE(info_parses({kDigestType, locator, locator}));
    CHECK_FALSE(info_parses({kDigestType, tlv(kSignatureNonce)}));
    CHECK_FALSE(info_parses({kDigestType, tlv(kSignatureTime)}));
    CHECK_FALSE(info_parses({kDigestType, tlv(kSignatureSeqNum, {from_hex("000001")})}));
    CHECK_FALSE(info_parses({kDigestType, tlv(1001)}));
    CHECK_FALSE(info_parses({kDigestType, from_hex("2608")}));
}
