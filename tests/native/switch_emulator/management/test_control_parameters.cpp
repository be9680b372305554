#include <doctest/doctest.h>

#include "switch_emulator/management/control_response.hpp"
#include "tests/native/support/elements.hpp"

using namespace innet;
using namespace innet::management;
using innet::test::from_hex;
using innet::test::tlv;

namespace {

// What python-ndn 0.5.2 encodes with every field.
const Bytes kEveryField = from_hex(
    "688d07060801610801626902012c7215756470343a2f2f3132372e302e302e313a363336338115756470343a2f2f"
    "3132372e302e302e313a363336346f01ff6a0107830164840103870405f5e100880400010000890205786c010170"
    "01036b28072608096c6f63616c686f737408036e666408087374726174656779080a626573742d726f7574656d02"
    "ea60850102");

bool parses(const Bytes& element) { return ControlParameters::parse(element).has_value(); }

}  // namespace

TEST_CASE("every field of ControlParameters, as python-ndn encodes them") {
    const auto parameters = ControlParameters::parse(kEveryField);
    REQUIRE(parameters);
    CHECK(parameters->name->view().to_uri() == "/a/b");
    CHECK(parameters->face_id == 300);
    CHECK(parameters->uri == "udp4://127.0.0.1:6363");
    CHECK(parameters->local_uri == "udp4://127.0.0.1:6364");
    CHECK(parameters->origin == 255);
    CHECK(parameters->cost == 7);
    CHECK(parameters->capacity == 100);
    CHECK(parameters->count == 3);
    CHECK(parameters->base_congestion_marking_interval_ns == 100'000'000);
    CHECK(parameters->default_congestion_threshold_bytes == 65536);
    CHECK(parameters->mtu == 1400);
    CHECK(parameters->flags == 1);
    CHECK(parameters->mask == 3);
    CHECK(parameters->strategy->view().to_uri() == "/localhost/nfd/strategy/best-route");
    CHECK(parameters->expiration_period_ms == 60000);
    CHECK(parameters->persistency == 2);
    CHECK(parameters->present() == 0xffff);
    Message written;
    parameters->write_to(written);
    CHECK(written.bytes() == kEveryField);
}

TEST_CASE("a response equals python-ndn's encoding") {
    ControlResponse response{kOk, "Success", {}};
    response.body.name = wire::Name::from_uri("/a/b");
    response.body.face_id = 258;
    response.body.origin = 0;
    response.body.cost = 0;
    response.body.flags = 1;
    CHECK(response.encode() ==
          from_hex("65236601c867075375636365737368150706080161080162690201026f01006a01006c0101"));
}

TEST_CASE("a response always has a body") {
    CHECK(ControlResponse{kForbidden, "no", {}}.encode() == from_hex("650a6602019367026e6f6800"));
}

TEST_CASE("malformed parameters are refused, unknown ones skipped") {
    CHECK(parses(tlv(kControlParameters)));
    CHECK(parses(tlv(kControlParameters, {tlv(0xf1), tlv(0xf0)})));
    CHECK_FALSE(parses({}));
    CHECK_FALSE(parses(tlv(kControlResponse)));
    CHECK_FALSE(parses(test::join({tlv(kControlParameters), tlv(kControlParameters)})));
    CHECK_FALSE(parses(tlv(kControlParameters, {tlv(kFaceId)})));
    CHECK_FALSE(parses(tlv(kControlParameters, {tlv(kCost, {from_hex("000000")})})));
    CHECK_FALSE(parses(tlv(kControlParameters, {tlv(wire::kName, {from_hex("0805")})})));
    CHECK_FALSE(parses(tlv(kControlParameters, {tlv(kStrategy)})));
    CHECK_FALSE(parses(tlv(kControlParameters, {tlv(kStrategy, {from_hex("0805")})})));
    CHECK_FALSE(parses(tlv(kControlParameters, {from_hex("6908")})));
}
