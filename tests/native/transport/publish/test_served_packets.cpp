#include <doctest/doctest.h>

#include <string>

#include "tests/native/support/elements.hpp"
#include "tests/native/support/signed_data.hpp"
#include "transport/publish/served_packets.hpp"
#include "transport/security/keyring.hpp"

using namespace innet;
using test::from_hex;
using test::text;
using test::tlv;

namespace {

wire::Name name(const std::string& uri) { return wire::Name::from_uri(uri).value(); }

test::Bytes interest(const std::string& uri, bool can_be_prefix) {
    const wire::Name asked = name(uri);
    const auto value = asked.view().value();
    return tlv(wire::kInterest, {tlv(wire::kName, {test::Bytes(value.begin(), value.end())}),
                                 can_be_prefix ? tlv(wire::kCanBePrefix) : test::Bytes(),
                                 tlv(wire::kNonce, {from_hex("00000001")})});
}

struct Fixture {
    Fixture() {
        REQUIRE(served.assign({packet("/n/h0/KEY/j/j/v=1"), packet("/j/KEY/1/self/v=1")}));
    }

    PacketRef packet(const std::string& uri) {
        const auto signer = security::make_digest_signer();
        return pool.copy_of(test::signed_data(*signer, name(uri), text("a key")));
    }
    std::string answer(const std::string& uri, bool can_be_prefix = false) {
        const test::Bytes packet = interest(uri, can_be_prefix);
        const PacketRef found = served.find(*wire::InterestView::parse(packet));
        if (!found) return "";
        return wire::DataView::parse(found.bytes())->name().to_uri();
    }

    PacketPool pool;
    ServedPackets served;
};

}  // namespace

TEST_CASE("a packet answers its name, and its prefixes with CanBePrefix") {
    Fixture fixture;
    CHECK(fixture.answer("/n/h0/KEY/j/j/v=1") == "/n/h0/KEY/j/j/v=1");
    CHECK(fixture.answer("/j/KEY", true) == "/j/KEY/1/self/v=1");
    CHECK(fixture.answer("/j/KEY").empty());
    CHECK(fixture.answer("/n/h1/KEY", true).empty());
    CHECK(fixture.answer("/n/h0/KEY/j/j/v=1/more", true).empty());
    CHECK(fixture.answer("/elsewhere", true).empty());
}

TEST_CASE("a malformed Data packet changes nothing") {
    Fixture fixture;
    CHECK_FALSE(fixture.served.assign({fixture.pool.copy_of(text("no packet"))}));
    CHECK(fixture.answer("/n/h0/KEY/j/j/v=1") == "/n/h0/KEY/j/j/v=1");
    CHECK(fixture.served.assign({}));
    CHECK(fixture.answer("/n/h0/KEY/j/j/v=1").empty());
}
