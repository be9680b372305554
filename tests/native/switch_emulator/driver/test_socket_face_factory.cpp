#include <doctest/doctest.h>

#include <mutex>

#include "foreign_client.hpp"

using namespace innet;
using namespace innet::testing;
using management::FaceCreation;
using management::FaceFailure;
using management::FacePersistency;

namespace {

/// What becomes of a request.
FaceCreation create(ListeningNode& node, const std::string& uri,
                    FacePersistency persistency = FacePersistency::kPersistent) {
    std::mutex mutex;
    std::optional<FaceCreation> result;
    node.thread.call([&](driver::Engine&) {
        node.thread.face_factory().create(
            {.remote_uri = uri, .local_uri = {}, .persistency = persistency, .mtu = std::nullopt},
            [&](FaceCreation created) {
                const std::lock_guard lock(mutex);
                result = std::move(created);
            });
    });
    node.await([&] {
        const std::lock_guard lock(mutex);
        return result.has_value();
    });
    return *result;
}

std::uint32_t failure_code(const FaceCreation& created) {
    const auto* failure = std::get_if<FaceFailure>(&created);
    return failure == nullptr ? 0 : failure->code;
}

std::optional<management::FaceDescription> describe(ListeningNode& node, FaceId face) {
    std::optional<management::FaceDescription> result;
    node.thread.call([&](driver::Engine&) { result = node.thread.face_factory().describe(face); });
    return result;
}

constexpr const char* kTcp = "tcp4://127.0.0.1:0";
constexpr const char* kUdp = "udp4://127.0.0.1:0";

}  // namespace

TEST_CASE("a face to another node is created by its URI, used and destroyed") {
    for (const char* scheme : {kTcp, kUdp}) {
        CAPTURE(scheme);
        const SocketPath path;
        ListeningNode here({{.uri = path.uri()}});
        ListeningNode there({{.uri = scheme}});
        const FaceCreation created = create(here, there.uris[0]);
        REQUIRE(std::holds_alternative<FaceId>(created));
        const FaceId face = std::get<FaceId>(created);
        const auto description = describe(here, face);
        REQUIRE(description);
        CHECK(description->remote_uri == there.uris[0]);
        CHECK(description->persistency == FacePersistency::kPersistent);
        CHECK_FALSE(description->local_uri.empty());

        here.route_to_newest("/far");
        ForeignClient client(path.uri());
        client.send(interest_packet("/far/x", 1));
        CHECK(client.receive_nack());  // the other node has no route, and says so

        const FaceCreation again = create(here, there.uris[0]);
        CHECK(failure_code(again) == 409);
        CHECK(std::get<FaceFailure>(again).existing == face);
        bool destroyed = false;
        here.thread.call(
            [&](driver::Engine&) { destroyed = here.thread.face_factory().destroy(face); });
        CHECK(destroyed);
        here.await([&] { return !describe(here, face); });
    }
}

TEST_CASE("an impossible face is refused with a specific status code") {
    const SocketPath path;
    ListeningNode node({{.uri = path.uri()}});
    CHECK(failure_code(create(node, "tcp4://127.0.0.1:9")) == 504);  // nobody listens
    CHECK(failure_code(create(node, "udp4://host.example:6363")) == 400);
    CHECK(failure_code(create(node, "ether://[00:00:00:00:00:01]")) == 501);
    CHECK(failure_code(create(node, "unix:///tmp/x")) == 406);
    CHECK(failure_code(create(node, "udp4://127.0.0.1:9", FacePersistency::kOnDemand)) == 406);
    CHECK(failure_code(create(node, "tcp4://127.0.0.1:9", FacePersistency::kPermanent)) == 406);
}

TEST_CASE("a UDP face created here sends from the node's port and receives the replies") {
    ListeningNode here({{.uri = kUdp}});
    ListeningNode there({{.uri = kUdp}});
    const FaceCreation created = create(here, there.uris[0]);
    REQUIRE(std::holds_alternative<FaceId>(created));
    here.route_to_newest("/far");
    ForeignClient client(here.uris[0]);
    client.send(interest_packet("/far/x", 1));
    CHECK(client.receive_nack());
    there.await_faces(1);
    CHECK(there.links()[0].remote_uri == here.uris[0]);
    CHECK(here.links().size() == 2);
}
