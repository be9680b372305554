#include <doctest/doctest.h>

#include "tests/native/support/elements.hpp"
#include "transport/wire/interest_parameters.hpp"

using namespace innet::wire;
using innet::test::Bytes;
using innet::test::from_hex;

TEST_CASE("parameters and a signature's description are the bytes that python-ndn writes") {
    const Bytes nonce = from_hex("363a2d4231cefde6");
    const InterestSignatureInfo info{.type = SignatureType::kDigestSha256,
                                     .key_name = {},
                                     .nonce = nonce,
                                     .time_ms = 0x1a1fb245e47,
                                     .sequence = std::nullopt};
    CHECK(encode_parameters(from_hex("01020304"), info) ==
          from_hex("2404010203042c171b01002608363a2d4231cefde62808000001a1fb245e47"));
    CHECK(encode_parameters(from_hex("01020304"), std::nullopt) == from_hex("240401020304"));
}

TEST_CASE("a description of a signature round-trips") {
    const auto key_name = Name::from_uri("/alice/KEY/1");
    REQUIRE(key_name);
    const Bytes nonce = from_hex("0102");
    const InterestSignatureInfo info{.type = SignatureType::kEd25519,
                                     .key_name = key_name->view(),
                                     .nonce = nonce,
                                     .time_ms = 7,
                                     .sequence = 70'000};
    const auto portion = encode_parameters({}, info);
    Reader reader(portion);
    REQUIRE(reader.next()->type == kApplicationParameters);
    const auto element = reader.next();
    REQUIRE(element);
    const auto read = InterestSignatureInfo::parse(element->value);
    REQUIRE(read);
    CHECK(read->type == info.type);
    CHECK(read->key_name == info.key_name);
    CHECK(Bytes(read->nonce.begin(), read->nonce.end()) == nonce);
    CHECK(read->time_ms == info.time_ms);
    CHECK(read->sequence == info.sequence);
}
