// What programs serve here, and what is served elsewhere in the network.

#include <doctest/doctest.h>

#include "managed_node.hpp"
#include "switch_emulator/management/face_ids.hpp"

using namespace innet;
using namespace innet::testing;
using tables::NextHop;

namespace {

constexpr FaceId kLink = 9;
constexpr FaceId kOtherLink = 10;
constexpr std::size_t kAll = 100;

/// Faces 9 and 10 lead to other nodes.
struct NodeOfNetwork : ManagedNode {
    NodeOfNetwork() {
        REQUIRE(node.node.add_face() == kLink);
        REQUIRE(node.node.add_face() == kOtherLink);
        management.registered().listen([this] { ++changes; });
    }

    void serve(FaceId face, std::string_view uri, std::uint64_t origin = 0) {
        auto parameters = named(uri);
        parameters.origin = origin;
        REQUIRE(command(face, "rib/register", parameters).code == 200);
    }

    void serve_no_more(FaceId face, std::string_view uri) {
        REQUIRE(command(face, "rib/unregister", named(uri)).code == 200);
    }

    std::vector<std::string> registered() {
        std::vector<std::string> uris;
        for (const wire::Name& prefix : management.registered().take(kAll)) {
            uris.push_back(prefix.view().to_uri());
        }
        return uris;
    }

    void set(std::string_view uri, const std::vector<NextHop>& hops) {
        management.network_routes().set(name(uri), hops);
    }

    int changes = 0;
};

using Uris = std::vector<std::string>;

}  // namespace

TEST_CASE("a prefix is served while at least one program serves it") {
    NodeOfNetwork f;
    f.serve(0, "/sum");
    f.serve(1, "/sum", 129);
    f.serve(1, "/data/x");
    CHECK(f.registered() == Uris{"/sum", "/data/x"});
    f.serve_no_more(0, "/sum");
    CHECK(f.registered() == Uris{"/sum", "/data/x"});
    f.node.node.close_face(1, f.node.now);
    CHECK(f.registered().empty());
}

TEST_CASE("a listener is notified once until it has drained the queue") {
    NodeOfNetwork f;
    for (int i = 0; i < 10; ++i) {
        f.serve(0, "/a");
        f.serve_no_more(0, "/a");
    }
    CHECK(f.changes == 1);
    CHECK(f.registered().empty());
    f.serve(0, "/a");
    CHECK(f.changes == 2);
    f.serve(1, "/a");
    CHECK(f.registered() == Uris{"/a"});
    f.serve_no_more(1, "/a");
    CHECK(f.changes == 2);
}

TEST_CASE("routes to other nodes and of routing daemons are not local services") {
    NodeOfNetwork f;
    f.set("/far", {{kLink, 2}});
    f.serve(0, "/learnt", management::kNetworkOrigin);
    auto by_hand = named("/by/hand");
    by_hand.face_id = management::shown_face_id(f.node.node, kLink);
    REQUIRE(f.command(0, "rib/register", by_hand).code == 200);
    CHECK(f.registered().empty());
    CHECK(f.changes == 0);
}

TEST_CASE("remote prefixes have the last next hops that were set, beside local programs'") {
    NodeOfNetwork f;
    f.serve(0, "/sum");
    f.set("/sum", {{kLink, 2}, {kOtherLink, 4}});
    CHECK(f.routes() == Uris{"/sum>0/0", "/sum>9/2", "/sum>10/4"});
    f.set("/sum", {{kOtherLink, 3}});
    CHECK(f.routes() == Uris{"/sum>0/0", "/sum>10/3"});
    f.management.network_routes().clear();
    CHECK(f.routes() == Uris{"/sum>0/0"});
}

TEST_CASE("a program's own routes of the network's origin stay when the network's change") {
    NodeOfNetwork f;
    f.serve(0, "/learnt", management::kNetworkOrigin);
    f.set("/learnt", {{kLink, 2}});
    f.set("/learnt", {});
    CHECK(f.routes() == Uris{"/learnt>0/0"});
    f.management.network_routes().clear();
    CHECK(f.routes() == Uris{"/learnt>0/0"});
}

TEST_CASE("no shorter prefix's next hops come before those of the network") {
    NodeOfNetwork f;
    f.serve(0, "/");
    f.set("/sum", {{kLink, 2}});
    CHECK(f.routes() == Uris{"/>0/0", "/sum>9/2"});
}
