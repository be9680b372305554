#include <doctest/doctest.h>

#include "tests/native/support/elements.hpp"
#include "transport/wire/data_details.hpp"

using namespace innet::wire;
using innet::test::Bytes;
using innet::test::from_hex;
using innet::test::text;
using innet::test::tlv;

namespace {

Bytes bytes_of(ByteView view) { return {view.begin(), view.end()}; }

}  // namespace

TEST_CASE("a certificate's further fields are read from its packet") {
    const auto name = Name::from_uri("/a");
    REQUIRE(name);
    const auto key_name = Name::from_uri("/alice/KEY/1");
    REQUIRE(key_name);
    const Bytes period = tlv(kValidityPeriod, {text("from-to")});
    const Bytes final_component = tlv(kVersionComponent, {from_hex("07")});
    DataFields fields;
    fields.name = name->view();
    fields.content_type = ContentType::kKey;
    fields.final_component = final_component;
    fields.key_name = key_name->view();
    fields.signature_extension = period;
    Bytes packet(encoded_data_size(fields, 0, 1));
    REQUIRE(encode_data(fields, 0, 1, packet).size == packet.size());
    const auto data = DataView::parse(packet);
    REQUIRE(data);
    CHECK(data->key_name() == key_name->view());
    const DataDetails details = DataDetails::of(*data);
    CHECK(bytes_of(details.final_component) == final_component);
    CHECK(bytes_of(details.validity_period) == text("from-to"));
    CHECK(details.key_digest.empty());
}

TEST_CASE("a key may be located by its digest") {
    const Bytes locator = tlv(kKeyLocator, {tlv(kKeyDigest, {Bytes(32, 9)})});
    const Bytes info = tlv(kSignatureInfo, {tlv(kSignatureType, {from_hex("05")}), locator});
    const Bytes packet = tlv(kData, {innet::test::short_name(), info, tlv(kSignatureValue)});
    const auto data = DataView::parse(packet);
    REQUIRE(data);
    CHECK(bytes_of(DataDetails::of(*data).key_digest) == Bytes(32, 9));
    CHECK(DataDetails::of(*data).final_component.empty());
}
