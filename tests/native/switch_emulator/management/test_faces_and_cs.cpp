// Commands that make, change and take down faces, and those about the content store.

#include <doctest/doctest.h>

#include <algorithm>

#include "managed_node.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;
using management::ControlParameters;
using test::Bytes;

namespace {

ControlParameters to_uri(std::string_view uri) {
    ControlParameters parameters;
    parameters.uri = uri;
    return parameters;
}

ControlParameters face(std::uint64_t face_id) {
    ControlParameters parameters;
    parameters.face_id = face_id;
    return parameters;
}

/// Lets Data for /d/0 and so on pass through. `first_nonce` differs from call to call.
void let_data_pass(ManagedNode& managed, int count, std::uint32_t first_nonce) {
    managed.node.node.add_route(name("/d"), 1, 0);
    for (int i = 0; i < count; ++i) {
        const std::string uri = "/d/" + std::to_string(i);
        managed.node.receive_interest(2, uri, first_nonce + static_cast<std::uint32_t>(i));
        managed.node.receive(1, managed.node.data(uri));
    }
    managed.node.sent(1);
    for (const Sent& sent : managed.node.sent(2)) CHECK(sent.kind == Sent::Kind::kData);
}

}  // namespace

TEST_CASE("a face is made later, and its number, URIs and persistency are the answer") {
    ManagedNode managed;
    managed.receive(2, managed.signed_command("faces/create", to_uri("udp4://127.0.0.1:6363")));
    CHECK(managed.node.sent(2).empty());
    REQUIRE(managed.factory.waiting.size() == 1);
    CHECK(managed.factory.requested[0].remote_uri == "udp4://127.0.0.1:6363");
    managed.factory.waiting[0](FaceId{7});
    managed.node.node.run_pending(managed.node.now);
    const Response response = managed.response(2);
    CHECK(response.code == 200);
    CHECK(response.body.face_id == 263);
    CHECK(response.body.uri == "udp4://127.0.0.1:6363");
    CHECK(response.body.local_uri == "fd://7");
    CHECK(response.body.persistency == 0);
    CHECK(response.body.flags == 0);
}

TEST_CASE("creating an existing or impossible face is reported") {
    ManagedNode managed;
    managed.receive(2, managed.signed_command("faces/create", to_uri("udp4://127.0.0.1:6363")));
    managed.receive(3, managed.signed_command("faces/create", to_uri("smtp://127.0.0.1")));
    managed.factory.waiting.at(0)(management::FaceFailure{409, "there is such a face", 5});
    managed.factory.waiting.at(1)(management::FaceFailure{501, "unknown scheme", kNoFace});
    managed.node.node.run_pending(managed.node.now);
    const Response exists = managed.response(2);
    CHECK(exists.code == 409);
    CHECK(exists.body.face_id == 261);
    const Response unknown = managed.response(3);
    CHECK(unknown.code == 501);
    CHECK(unknown.text == "unknown scheme");
    CHECK(unknown.body.uri == "smtp://127.0.0.1");
}

TEST_CASE("faces of unsupported kinds are refused") {
    ManagedNode managed;
    ControlParameters on_demand = to_uri("udp4://127.0.0.1:6363");
    on_demand.persistency = 1;
    CHECK(managed.command(2, "faces/create", on_demand).code == 406);
    ControlParameters reliable = to_uri("udp4://127.0.0.1:6363");
    reliable.flags = 2;
    reliable.mask = 2;
    CHECK(managed.command(2, "faces/create", reliable).code == 406);
    reliable.mask.reset();
    CHECK(managed.command(2, "faces/create", reliable).code == 400);
    managed.management.set_face_factory(nullptr);
    CHECK(managed.command(2, "faces/create", to_uri("udp4://127.0.0.1:6363")).code == 501);
    CHECK(managed.factory.requested.empty());
}

TEST_CASE("a face is updated by its number or by a command through the face itself") {
    ManagedNode managed;
    Response response = managed.command(2, "faces/update", {});
    CHECK(response.code == 200);
    CHECK(response.body.face_id == 258);
    CHECK(response.body.flags == 0);
    CHECK(response.body.persistency == 0);
    ControlParameters parameters = face(259);
    parameters.persistency = 2;
    CHECK(managed.command(2, "faces/update", parameters).code == 200);
    parameters.persistency = 1;
    CHECK(managed.command(2, "faces/update", parameters).code == 409);
    parameters.persistency = 77;
    CHECK(managed.command(2, "faces/update", parameters).code == 409);
    ControlParameters local_fields = face(0);
    local_fields.flags = 1;
    local_fields.mask = 1;
    response = managed.command(2, "faces/update", local_fields);
    CHECK(response.code == 409);
    CHECK(response.body.face_id == 258);
    CHECK(managed.command(2, "faces/update", face(999)).code == 404);
}

TEST_CASE("a command sets a face's congestion marking; the answer and faces/list show it") {
    ManagedNode managed;
    ControlParameters parameters = face(259);
    parameters.base_congestion_marking_interval_ns = 5'000'000;
    CHECK(managed.command(2, "faces/update", parameters).code == 409);  // it marks nothing itself
    managed.factory.marking.emplace();
    Response response = managed.command(2, "faces/update", face(259));
    CHECK(response.body.flags == 4);
    CHECK(response.body.base_congestion_marking_interval_ns == 100'000'000);
    CHECK(response.body.default_congestion_threshold_bytes == 65536);
    parameters.default_congestion_threshold_bytes = 1000;
    response = managed.command(2, "faces/update", parameters);
    CHECK(response.code == 200);
    CHECK(response.body.base_congestion_marking_interval_ns == 5'000'000);
    CHECK(managed.factory.marking->base_interval == 5ms);
    CHECK(managed.factory.marking->threshold_bytes == 1000);
    const Bytes listed = managed.dataset(2, "/localhost/nfd/faces/list");
    const auto lists = [&](const Bytes& elements) {
        return !std::ranges::search(listed, elements).empty();
    };
    CHECK(lists(test::join({number(0x87, 5'000'000), number(0x88, 1000)})));
    CHECK(lists(number(0x6c, 4)));
    ControlParameters off = face(259);
    off.flags = 0;
    off.mask = 4;
    CHECK(managed.command(2, "faces/update", off).body.flags == 0);
    CHECK_FALSE(managed.factory.marking->enabled);
    CHECK(managed.factory.marking->threshold_bytes == 1000);
    parameters.base_congestion_marking_interval_ns = std::numeric_limits<std::uint64_t>::max();
    CHECK(managed.command(2, "faces/update", parameters).code == 200);
    CHECK(managed.factory.marking->base_interval > 24h);
}

TEST_CASE("an update that is refused changes nothing, and a flag counts only under its mask") {
    ManagedNode managed;
    ControlParameters parameters = face(259);
    parameters.persistency = 2;
    parameters.flags = 4;
    parameters.mask = 4;
    CHECK(managed.command(2, "faces/update", parameters).code == 409);  // it marks nothing itself
    CHECK(managed.factory.persistencies.empty());
    parameters.mask = 0;
    CHECK(managed.command(2, "faces/update", parameters).code == 200);
    CHECK(managed.factory.persistencies.size() == 1);
    managed.factory.marking.emplace();
    managed.factory.marking->enabled = false;
    CHECK(managed.command(2, "faces/update", parameters).body.flags == 0);
    parameters.mask = std::nullopt;
    CHECK(managed.command(2, "faces/update", parameters).code == 400);
}

TEST_CASE("a face is made with the marking that its command asks for") {
    ManagedNode managed;
    managed.factory.marking.emplace();
    ControlParameters parameters = to_uri("udp4://127.0.0.1:6363");
    parameters.flags = 0;
    parameters.mask = 4;
    parameters.default_congestion_threshold_bytes = 2000;
    managed.receive(2, managed.signed_command("faces/create", parameters));
    managed.factory.waiting.at(0)(FaceId{7});
    managed.node.node.run_pending(managed.node.now);
    const Response response = managed.response(2);
    CHECK(response.code == 200);
    CHECK(response.body.flags == 0);
    CHECK(response.body.default_congestion_threshold_bytes == 2000);
}

TEST_CASE("faces/destroy closes client faces only, and succeeds for a missing face") {
    ManagedNode managed;
    CHECK(managed.command(2, "faces/destroy", face(259)).code == 200);
    CHECK(managed.factory.destroyed == std::vector<FaceId>{3});
    CHECK(managed.command(2, "faces/destroy", face(999)).code == 200);
    CHECK(managed.command(2, "faces/destroy", face(0)).code == 400);
    managed.factory.may_destroy = false;
    CHECK(managed.command(2, "faces/destroy", face(260)).code == 409);
}

TEST_CASE("a late command does not apply to the face that reused the number") {
    ManagedNode managed;
    managed.node.node.close_face(3, managed.node.now);
    REQUIRE(managed.node.node.add_face(
                {.foreign = true, .scope = FaceScope::kLocal, .admitted_by_file = true}) == 3);
    ControlParameters next_hop = named("/late");
    next_hop.face_id = 259;
    CHECK(managed.command(2, "fib/add-nexthop", next_hop).code == 410);
    CHECK(managed.command(2, "rib/register", next_hop).code == 410);
    CHECK(managed.command(2, "faces/update", face(259)).code == 404);
    CHECK(managed.command(2, "faces/destroy", face(259)).code == 200);
    CHECK(managed.factory.destroyed.empty());
    CHECK(managed.routes().empty());
    CHECK(managed.command(3, "faces/update", {}).body.face_id == 265);  // the tenth of all
    next_hop.face_id = 265;
    CHECK(managed.command(2, "fib/add-nexthop", next_hop).code == 200);
    CHECK(managed.routes() == std::vector<std::string>{"/late>3/0"});
}

TEST_CASE("commands resize the content store and disable storing or serving") {
    ManagedNode managed;
    let_data_pass(managed, 40, 5100);
    CHECK(managed.node.node.counters().cache_entries == 40);
    ControlParameters parameters;
    parameters.capacity = 1;
    Response response = managed.command(2, "cs/config", parameters);
    CHECK(response.code == 200);
    CHECK(response.body.capacity == 1);
    CHECK(response.body.flags == 3);
    CHECK(managed.node.node.counters().cache_bytes <= 8800);
    const auto kept = managed.node.node.counters().cache_entries;
    CHECK(kept > 0);
    CHECK(kept < 40);
    parameters.capacity = 0;
    CHECK(managed.command(2, "cs/config", parameters).code == 200);
    CHECK(managed.node.node.counters().cache_entries == 0);

    parameters.capacity = 100;
    parameters.flags = 0;
    parameters.mask = 1;
    response = managed.command(2, "cs/config", parameters);
    CHECK(response.body.capacity == 100);
    CHECK(response.body.flags == 2);
    managed.node.wait(2s);
    let_data_pass(managed, 3, 5200);
    CHECK(managed.node.node.counters().cache_entries == 0);

    parameters.flags = 1;
    parameters.mask = 3;
    CHECK(managed.command(2, "cs/config", parameters).body.flags == 1);
    managed.node.wait(2s);
    let_data_pass(managed, 3, 5300);
    CHECK(managed.node.node.counters().cache_entries == 3);
    const auto hits = managed.node.node.counters().cache_hits;
    managed.node.receive_interest(3, "/d/1", 9);
    CHECK(managed.node.node.counters().cache_hits == hits);

    parameters.mask = 4;
    CHECK(managed.command(2, "cs/config", parameters).code == 400);
    ControlParameters endless;
    endless.capacity = std::numeric_limits<std::uint64_t>::max();
    CHECK(managed.command(2, "cs/config", endless).code == 400);
}

TEST_CASE("cs/erase removes up to the requested number of Data below a name") {
    ManagedNode managed;
    let_data_pass(managed, 20, 5400);
    ControlParameters parameters = named("/d");
    parameters.count = 5;
    Response response = managed.command(2, "cs/erase", parameters);
    CHECK(response.code == 200);
    CHECK(response.body.name == name("/d"));
    CHECK(response.body.count == 5);
    CHECK_FALSE(response.body.capacity);
    CHECK(managed.node.node.counters().cache_entries == 15);
    CHECK(managed.command(2, "cs/erase", named("/other")).body.count == 0);
    CHECK(managed.command(2, "cs/erase", named("/")).body.count == 15);
    CHECK(managed.node.node.counters().cache_entries == 0);
    parameters.count = 0;
    CHECK(managed.command(2, "cs/erase", parameters).code == 400);
}
