// Who is obeyed.

#include <doctest/doctest.h>

#include "managed_node.hpp"
#include "transport/security/keyring.hpp"
#include "transport/security/sha256.hpp"

using namespace innet;
using namespace innet::testing;
using test::Bytes;
using test::from_hex;
using test::join;
using test::tlv;

namespace {

constexpr std::string_view kSecret = "a secret of thirty-two bytes ...";

Bytes bytes_of(wire::ByteView view) { return {view.begin(), view.end()}; }

/// A registration of /a, signed by HMAC with `secret`, whose key locator is `locator`, so much
/// after the node's wall time.
Bytes hmac_registration(std::string_view top, std::string_view locator, std::string_view secret,
                        std::int64_t offset_ms) {
    management::Message message;
    named("/a").write_to(message);
    wire::Name prefix = name(std::string(top) + "/nfd/rib/register");
    prefix.append(message.bytes());
    const wire::Name key = name(locator);
    const Bytes info =
        tlv(wire::kInterestSignatureInfo,
            {tlv(wire::kSignatureType, {from_hex("04")}),
             tlv(wire::kKeyLocator, {tlv(wire::kName, {bytes_of(key.view().value())})}),
             number(wire::kSignatureTime, kWallTimeMs + static_cast<std::uint64_t>(offset_ms))});
    const Bytes name_value = bytes_of(prefix.view().value());
    const Bytes signed_part = join({tlv(wire::kApplicationParameters), info});
    Bytes tag(32);
    REQUIRE(
        security::make_hmac_signer(key, bytes(secret))->sign(join({name_value, signed_part}), tag));
    const Bytes portion = join({signed_part, tlv(wire::kInterestSignatureValue, {tag})});
    const auto digest = security::Sha256().digest(portion);
    return tlv(wire::kInterest,
               {tlv(wire::kName, {name_value, tlv(wire::kParametersSha256Digest,
                                                  {Bytes(digest.begin(), digest.end())})}),
                portion});
}

management::ManagementOptions with_key() {
    auto options = ManagedNode::default_options();
    options.authorisation.keys.push_back({.type = wire::SignatureType::kHmacSha256,
                                          .name = name("/op/KEY/1"),
                                          .key = bytes_of(bytes(kSecret))});
    return options;
}

}  // namespace

TEST_CASE("signed commands of local faces are executed, unsigned ones refused") {
    ManagedNode managed;
    CHECK(managed.command(2, hmac_registration("/localhost", "/any", "whatever", 1)).code == 200);
    const Bytes parameters = tlv(wire::kGenericComponent, {from_hex("6805070308 0161")});
    const wire::Name prefix = name("/localhost/nfd/rib/register");
    const Response refused = managed.command(
        2, tlv(wire::kInterest, {tlv(wire::kName, {bytes_of(prefix.view().value()), parameters})}));
    CHECK(refused.code == 403);
    CHECK(refused.body.name == name("/a"));
    CHECK(managed.management.counters().forbidden == 1);
}

TEST_CASE("a digest that is not the command's is refused") {
    ManagedNode managed;
    Bytes packet = digest_signed_interest(name("/localhost/nfd/cs/config"), {}, 1, 1);
    // Another signature, and the parameters' digest set right: only the signature is wrong.
    const auto interest = wire::InterestView::parse(packet);
    REQUIRE(interest);
    const auto offset =
        static_cast<std::size_t>(interest->parameters_portion().data() - packet.data());
    packet.back() ^= 1;
    const auto digest = security::Sha256().digest(wire::ByteView(packet).subspan(offset));
    const auto place = interest->name().last_component().value;
    std::ranges::copy(digest, packet.begin() + (place.data() - packet.data()));
    CHECK(managed.command(2, packet).code == 400);  // no parameters at all
    Bytes whole = managed.signed_command("cs/config", {});
    const auto view = wire::InterestView::parse(whole);
    REQUIRE(view);
    const auto start = static_cast<std::size_t>(view->parameters_portion().data() - whole.data());
    const auto digest_place = view->name().last_component().value.data() - whole.data();
    whole.back() ^= 1;
    std::ranges::copy(security::Sha256().digest(wire::ByteView(whole).subspan(start)),
                      whole.begin() + digest_place);
    CHECK(managed.command(2, whole).code == 403);
}

TEST_CASE("a replayed command of a known key is refused on every face") {
    ManagedNode open;
    const Bytes command = open.signed_command("rib/register", named("/a"));
    CHECK(open.command(2, command).code == 200);
    CHECK(open.command(2, command).code == 403);
    CHECK(open.management.counters().replayed == 1);

    ManagedNode keyed(with_key());
    const Bytes registration = hmac_registration("/localhost", "/op/KEY/1", kSecret, 7);
    CHECK(keyed.command(2, registration).code == 200);
    CHECK(keyed.command(3, registration).code == 403);
    CHECK(keyed.management.counters().replayed == 1);
    CHECK(keyed.routes() == std::vector<std::string>{"/a>2/0"});
}

TEST_CASE(
    "with a list of keys, these keys alone are obeyed, by their names or their certificates'") {
    ManagedNode managed(with_key());
    const auto code = [&](std::string_view locator, std::string_view secret, std::int64_t time_ms) {
        return managed.command(2, hmac_registration("/localhost", locator, secret, time_ms)).code;
    };
    CHECK(code("/op/KEY/1", kSecret, 1) == 200);
    CHECK(code("/op/KEY/1/self/v=1", kSecret, 2) == 200);
    CHECK(code("/op/KEY/1", "wrong", 9) == 403);
    CHECK(code("/op/KEY/1", kSecret, 3) == 200);  // the forger has not used up any time
    CHECK(code("/op/KEY/2", kSecret, 4) == 403);
    CHECK(managed.command(2, "rib/register", named("/b")).code == 403);
    CHECK(managed.routes() == std::vector<std::string>{"/a>2/0"});
    CHECK(managed.management.counters().forbidden == 3);
}

TEST_CASE("a key is obeyed until the last of its certificates expires") {
    auto options = with_key();
    options.authorisation.keys[0].not_after_ms = kWallTimeMs - 1;
    ManagedNode expired(options);
    const Response refused =
        expired.command(2, hmac_registration("/localhost", "/op/KEY/1", kSecret, 1));
    CHECK(refused.code == 403);
    CHECK(refused.text.find("expired") != std::string::npos);
    CHECK(expired.routes().empty());

    options.authorisation.keys.push_back(options.authorisation.keys[0]);
    options.authorisation.keys[1].not_after_ms = kWallTimeMs + 60'000;
    ManagedNode renewed(options);
    CHECK(renewed.command(2, hmac_registration("/localhost", "/op/KEY/1", kSecret, 1)).code == 200);
}

TEST_CASE(
    "from one hop away nothing is commanded, unless this node allows it, and then routes alone") {
    const Bytes registration = hmac_registration("/localhop", "/op/KEY/1", kSecret, 1);
    ManagedNode closed;
    CHECK(closed.command(ManagedNode::kFarFace, registration).code == 403);
    CHECK(closed.routes().empty());

    auto options = with_key();
    options.authorisation.localhop_rib = true;
    ManagedNode open(options);
    CHECK(
        open.command(ManagedNode::kFarFace, hmac_registration("/localhop", "/op/KEY/1", "wrong", 1))
            .code == 403);
    CHECK(open.command(ManagedNode::kFarFace, registration).code == 200);
    CHECK(open.routes() == std::vector<std::string>{"/a>8/0"});
    CHECK(open.command(ManagedNode::kFarFace,
                       digest_signed_interest(name("/localhop/nfd/rib/list"), {}, 1, 1))
              .code == 403);
    wire::Name erase = name("/localhop/nfd/cs/erase");
    management::Message message;
    named("/").write_to(message);
    erase.append(message.bytes());
    CHECK(open.command(ManagedNode::kFarFace, digest_signed_interest(erase, {}, 9, 9)).code == 403);
}

TEST_CASE("remote commands without signature verification are refused") {
    auto options = ManagedNode::default_options();
    options.authorisation.localhop_rib = true;
    CHECK_THROWS_AS(ManagedNode{options}, std::invalid_argument);
}

TEST_CASE("commands signed long ago, in the future or before the node's start are refused") {
    ManagedNode managed(with_key());
    const auto code = [&](std::int64_t offset_ms) {
        return managed.command(2, hmac_registration("/localhost", "/op/KEY/1", kSecret, offset_ms))
            .code;
    };
    CHECK(code(-2000) == 403);  // a node that ran before may have obeyed it
    CHECK(code(120'001) == 403);
    CHECK(code(1) == 200);
    managed.node.wait(std::chrono::minutes(3));
    CHECK(code(30'000) == 403);
    CHECK(code(170'000) == 200);
    CHECK(managed.management.counters().stale == 3);
    CHECK(managed.management.counters().replayed == 0);
}

TEST_CASE("an accepted command stays in force when the list of keys changes") {
    ManagedNode managed(with_key());
    const Bytes registration = hmac_registration("/localhost", "/op/KEY/1", kSecret, 7);
    CHECK(managed.command(2, registration).code == 200);
    managed.management.authorise(with_key().authorisation);
    CHECK(managed.command(2, registration).code == 403);
    CHECK(managed.management.counters().replayed == 1);
}

TEST_CASE("the wall clock may be set while the node runs") {
    ManagedNode managed;
    const auto later_ms = static_cast<std::int64_t>(kWallTimeMs) + 86'400'000;
    managed.management.set_wall_time_at_zero(later_ms - 3'600'000, managed.node.now);
    CHECK(managed.command(2, "rib/register", named("/a")).code == 403);
    managed.management.set_wall_time_at_zero(static_cast<std::int64_t>(kWallTimeMs) - 3'600'000,
                                             managed.node.now);
    CHECK(managed.command(2, "rib/register", named("/a")).code == 200);
}

TEST_CASE("keys stay valid when the wall clock is set back to before the node's start") {
    ManagedNode managed(with_key());
    constexpr std::int64_t kHourMs = 3'600'000;
    const auto command = [&](std::int64_t offset_ms) {
        return managed
            .command(2, hmac_registration("/localhost", "/op/KEY/1", kSecret, offset_ms - kHourMs))
            .code;
    };
    CHECK(command(1) == 403);
    managed.management.set_wall_time_at_zero(static_cast<std::int64_t>(kWallTimeMs) - 2 * kHourMs,
                                             managed.node.now);
    CHECK(command(-1) == 403);  // what an earlier node may have obeyed
    CHECK(command(1) == 200);
}

TEST_CASE(
    "an outdated command is refused before its signature is verified, and counted for its face") {
    ManagedNode managed(with_key());
    CHECK(
        managed.command(2, hmac_registration("/localhost", "/op/KEY/1", "wrong", -600'000)).code ==
        403);
    CHECK(managed.management.counters().stale == 1);
    CHECK(managed.command(2, hmac_registration("/localhost", "/op/KEY/1", "wrong", 1)).code == 403);
    CHECK(managed.management.counters().stale == 1);
    CHECK(managed.node.node.face_counters(2).commands_forbidden_in == 2);
    CHECK(managed.node.node.face_counters(3).commands_forbidden_in == 0);
}

TEST_CASE("an Interest under /localhost from a non-local face is dropped") {
    ManagedNode managed;
    managed.receive(ManagedNode::kFarFace, managed.signed_command("rib/register", named("/a")));
    CHECK(managed.node.sent(ManagedNode::kFarFace).empty());
    CHECK(managed.routes().empty());
    CHECK(managed.node.node.counters().scope_violations == 1);
}

TEST_CASE("a malformed key is refused at once") {
    auto options = ManagedNode::default_options();
    options.authorisation.keys.push_back(
        {.type = wire::SignatureType::kEd25519, .name = name("/op"), .key = test::text("short")});
    CHECK_THROWS_AS(ManagedNode{options}, std::invalid_argument);
}
