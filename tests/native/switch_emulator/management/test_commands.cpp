// Commands in every shape, and every kind of wrong one.

#include <doctest/doctest.h>

#include "command_vectors.hpp"
#include "managed_node.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;
using management::ControlParameters;
using test::Bytes;
using test::from_hex;
using test::tlv;

namespace {

using Routes = std::vector<std::string>;

ControlParameters on_face(std::string_view uri, std::uint64_t face_id) {
    ControlParameters parameters = named(uri);
    parameters.face_id = face_id;
    return parameters;
}

/// An Interest for /localhost/nfd/rib/register and these components.
Bytes register_with(std::initializer_list<Bytes> components) {
    const wire::Name prefix = name("/localhost/nfd/rib/register");
    const Bytes start(prefix.view().value().begin(), prefix.view().value().end());
    return tlv(wire::kInterest, {tlv(wire::kName, {start, test::join(components)})});
}

}  // namespace

TEST_CASE("a registration of python-ndn adds a route to its face, and the answer is exact") {
    for (const Bytes& packet : {kRegister, kOlderRegister}) {
        ManagedNode managed;
        managed.receive(2, packet);
        const auto sent = managed.node.sent(2);
        REQUIRE(sent.size() == 1);
        const Bytes expected =
            from_hex("65236601c867075375636365737368150706080161080162690201026f01006a01006c0101");
        CHECK(sent[0].content == text(expected));
        CHECK(managed.routes() == Routes{"/a/b>2/0"});
        CHECK(managed.management.counters().commands == 1);
    }
}

TEST_CASE("an unregistration removes the matching registration") {
    ManagedNode managed;
    CHECK(managed.command(2, kRegister).code == 200);
    CHECK(managed.command(3, kRegister).code == 200);
    // The same key, time and nonce are one command's only on the same face.
    Bytes again = kUnregister;
    CHECK(managed.command(4, again).code == 200);
    CHECK(managed.routes() == Routes{"/a/b>2/0", "/a/b>3/0"});
    const Response response = managed.command(2, "rib/unregister", named("/a/b"));
    CHECK(response.code == 200);
    CHECK(response.body.face_id == 258);
    CHECK(response.body.origin == 0);
    CHECK(managed.routes() == Routes{"/a/b>3/0"});
}

TEST_CASE("a prefix announcement registers its prefix for its validity period") {
    ManagedNode managed;
    const Response response = managed.command(2, kAnnounce);
    CHECK(response.code == 200);
    CHECK(response.body.name == name("/a/b"));
    CHECK(response.body.face_id == 258);
    CHECK(response.body.origin == 129);
    CHECK(response.body.cost == 2048);
    CHECK(response.body.flags == 1);
    CHECK(response.body.expiration_period_ms == 600'000);
    CHECK(managed.routes() == Routes{"/a/b>2/2048"});
    managed.node.wait(599s);
    CHECK(managed.routes().size() == 1);
    managed.node.wait(1s);
    CHECK(managed.routes().empty());
}

TEST_CASE("a registration echoes its fields and takes NFD's defaults for the others") {
    ManagedNode managed;
    ControlParameters parameters = on_face("/a", 259);
    parameters.origin = 255;
    parameters.cost = 70000;
    parameters.flags = 2;
    parameters.expiration_period_ms = 5000;
    const Response response = managed.command(2, "rib/register", parameters);
    CHECK(response.code == 200);
    CHECK(response.body.face_id == 259);
    CHECK(response.body.origin == 255);
    CHECK(response.body.cost == 70000);
    CHECK(response.body.flags == 2);
    CHECK(response.body.expiration_period_ms == 5000);
    CHECK(managed.routes() == Routes{"/a>3/70000"});
    CHECK(managed.command(2, "rib/register", on_face("/b", 0)).body.face_id == 258);
    managed.node.wait(5s);
    CHECK(managed.routes() == Routes{"/b>2/0"});
}

TEST_CASE("Interests follow a registered route, and Data come back") {
    ManagedNode managed;
    CHECK(managed.command(2, "rib/register", named("/a")).code == 200);
    managed.node.receive_interest(3, "/a/x", 77);
    CHECK(managed.node.sent(2).at(0).name == "/a/x");
}

TEST_CASE("a closing face's routes are removed and never lead to the next face of its number") {
    ManagedNode managed;
    CHECK(managed.command(2, "rib/register", named("/a")).code == 200);
    CHECK(managed.command(3, "rib/register", named("/a")).code == 200);
    managed.node.node.close_face(2, managed.node.now);
    CHECK(managed.routes() == Routes{"/a>3/0"});
    CHECK(managed.management.counters().routes == 1);
    CHECK(managed.node.node.add_face({.foreign = true, .scope = FaceScope::kLocal}) == 2);
    CHECK(managed.routes() == Routes{"/a>3/0"});
}

TEST_CASE("next hops are added to and removed from the FIB") {
    ManagedNode managed;
    ControlParameters parameters = on_face("/f", 260);
    parameters.cost = 9;
    Response response = managed.command(2, "fib/add-nexthop", parameters);
    CHECK(response.code == 200);
    CHECK(response.body.cost == 9);
    CHECK(managed.routes() == Routes{"/f>4/9"});
    response = managed.command(2, "fib/add-nexthop", named("/f"));
    CHECK(response.body.face_id == 258);
    CHECK(response.body.cost == 0);
    CHECK(managed.command(2, "fib/remove-nexthop", on_face("/f", 260)).code == 200);
    CHECK(managed.routes() == Routes{"/f>2/0"});
    CHECK(managed.command(2, "fib/remove-nexthop", on_face("/f", 999)).code == 200);
    CHECK(managed.command(2, "fib/add-nexthop", on_face("/f", 999)).code == 410);
}

TEST_CASE("wrong parameters are answered with the error and echoed") {
    ManagedNode managed;
    for (const char* verb : {"rib/register", "rib/unregister", "fib/add-nexthop",
                             "fib/remove-nexthop", "cs/erase", "faces/create", "faces/destroy"}) {
        CAPTURE(verb);
        CHECK(managed.command(2, verb, {}).code == 400);
    }
    const Response gone = managed.command(2, "rib/register", on_face("/a", 300));
    CHECK(gone.code == 410);
    CHECK(gone.body.name == name("/a"));
    CHECK(gone.body.face_id == 300);
    CHECK(gone.body.origin == 0);
    CHECK(gone.body.cost == 0);
    CHECK(gone.body.flags == 1);
    CHECK(managed.command(2, "rib/register", on_face("/a", 255)).code == 410);
    ControlParameters parameters = named("/a");
    parameters.cost = std::uint64_t{1} << 32;
    CHECK(managed.command(2, "rib/register", parameters).code == 400);
    parameters = named("/a");
    parameters.uri = "udp4://127.0.0.1:6363";
    CHECK(managed.command(2, "rib/register", parameters).code == 400);
    std::string long_prefix;
    for (int i = 0; i < 33; ++i) long_prefix += "/x";
    CHECK(managed.command(2, "rib/register", named(long_prefix)).code == 414);
    CHECK(managed.routes().empty());
}

TEST_CASE("an unreadable command is answered with 400 or 501 and counted") {
    ManagedNode managed;
    const Bytes parameters = tlv(wire::kGenericComponent, {from_hex("6803070100")});
    Bytes bad_digest = kRegister;
    bad_digest.back() ^= 1;  // the name's digest is of other parameters now
    const std::vector<std::pair<std::uint64_t, Bytes>> wrong = {
        {400, register_with({})},
        {400, bad_digest},
        {400, register_with({tlv(wire::kGenericComponent, {test::text("x")}), parameters})},
        {400, register_with({parameters, parameters, parameters, parameters, parameters})},
        {400,
         register_with({parameters, parameters, parameters, parameters, parameters, parameters})},
        {400, register_with({tlv(wire::kGenericComponent, {test::text("no")})})},
        {501, managed.signed_command("rib/destroy", named("/a"))},
        {501, managed.signed_command("nothing/register", named("/a"))},
    };
    for (const auto& [code, packet] : wrong) {
        CHECK(managed.command(2, packet).code == code);
    }
    CHECK(managed.management.counters().malformed == wrong.size());
    CHECK(managed.management.counters().commands == 0);
    CHECK(managed.routes().empty());
    managed.node.receive_interest(2, "/localhost/nfd", 5);
    CHECK(managed.node.sent(2).at(0).kind == Sent::Kind::kNack);
}

TEST_CASE("an announcement without a currently valid prefix registers nothing") {
    const auto announce = [](std::string_view data_name, std::uint64_t content_type,
                             const Bytes& content) {
        ManagedNode managed;
        const wire::Name announced = name(data_name);
        const Bytes name_value(announced.view().value().begin(), announced.view().value().end());
        const Bytes type = {static_cast<std::uint8_t>(content_type)};
        const Bytes portion =
            test::join({tlv(wire::kName, {name_value}),
                        tlv(wire::kMetaInfo, {tlv(wire::kContentType, {type})}),
                        tlv(wire::kContent, {content}),
                        tlv(wire::kSignatureInfo, {tlv(wire::kSignatureType, {from_hex("00")})})});
        const auto digest = security::Sha256().digest(portion);
        const Bytes data =
            tlv(wire::kData,
                {portion, tlv(wire::kSignatureValue, {Bytes(digest.begin(), digest.end())})});
        const auto code =
            managed
                .command(2, digest_signed_interest(name("/localhost/nfd/rib/announce"), data,
                                                   kWallTimeMs, 1))
                .code;
        CHECK(managed.routes().size() == (code == 200 ? 1 : 0));
        return code;
    };
    const auto valid_from_to = [](std::string_view from, std::string_view to) {
        return test::join({from_hex("6d020400"),
                           tlv(wire::kValidityPeriod,
                               {tlv(0xfe, {test::text(from)}), tlv(0xff, {test::text(to)})})});
    };
    const char* good_name = "/a/32=PA/v=1/seg=0";
    // The node's wall clock says 2023-11-14 22:13:20.
    CHECK(announce(good_name, 5, valid_from_to("20231114T221320", "20231114T221321")) == 200);
    CHECK(announce(good_name, 5, valid_from_to("20231114T221321", "20231231T000000")) == 416);
    CHECK(announce(good_name, 5, valid_from_to("20231101T000000", "20231114T221319")) == 416);
    CHECK(announce(good_name, 5, from_hex("6d0100")) == 416);
    CHECK(announce(good_name, 5, valid_from_to("2023", "20231231T000000")) == 400);
    CHECK(announce(good_name, 5, from_hex("6d0304")) == 400);
    CHECK(announce(good_name, 5, {}) == 400);
    CHECK(announce(good_name, 0, from_hex("6d020400")) == 400);
    CHECK(announce("/a/32=PB/v=1/seg=0", 5, from_hex("6d020400")) == 400);
    CHECK(announce("/v=1/seg=0", 5, from_hex("6d020400")) == 400);
}

TEST_CASE("a name too long to be answered twice is not echoed") {
    ManagedNode managed;
    wire::Name prefix;
    prefix.append(Bytes(8000, 'x'));
    ControlParameters parameters;
    parameters.name = prefix;
    const Response response = managed.command(2, "rib/register", parameters);
    CHECK(response.code == 414);
    CHECK_FALSE(response.body.name);
    CHECK(response.body.face_id == 258);
}

TEST_CASE("ten thousand registrations are all answered and lead to their faces") {
    ManagedNode managed;
    constexpr int kRegistrations = 10'000;
    std::size_t answered = 0;
    for (int i = 0; i < kRegistrations; ++i) {
        const auto parameters = named("/app/" + std::to_string(i));
        managed.receive(static_cast<FaceId>(i % 8),
                        managed.signed_command("rib/register", parameters));
    }
    for (FaceId face = 0; face < 8; ++face) {
        for (const Sent& sent : managed.node.sent(face)) {
            answered += sent.kind == Sent::Kind::kData;
        }
    }
    CHECK(answered == kRegistrations);
    CHECK(managed.management.counters().routes == kRegistrations);
    managed.node.receive_interest(1, "/app/9998/x", 5);
    CHECK(managed.node.sent(6).at(0).name == "/app/9998/x");
}

TEST_CASE("routes are bounded; existing ones can be refreshed") {
    auto options = ManagedNode::default_options();
    options.max_routes = 2;
    ManagedNode managed(options);
    CHECK(managed.command(2, "rib/register", named("/a")).code == 200);
    CHECK(managed.command(2, "rib/register", named("/b")).code == 200);
    CHECK(managed.command(2, "rib/register", named("/c")).code == 503);
    CHECK(managed.command(2, "rib/register", named("/a")).code == 200);
    CHECK(managed.routes() == Routes{"/a>2/0", "/b>2/0"});
}
