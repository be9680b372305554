#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>

#include "switch_emulator/management/rib.hpp"

using namespace innet;
using namespace std::chrono_literals;
using management::kCapture;
using management::kChildInherit;
using management::Rib;
using management::RibRoute;

namespace {

wire::Name name(std::string_view uri) { return wire::Name::from_uri(uri).value(); }

/// What the FIB would hold.
class RecordedHops final : public management::NextHopSink {
  public:
    void add_next_hop(const wire::Name& prefix, FaceId face, std::uint32_t cost) override {
        hops[prefix.view().to_uri()][face] = cost;
        ++changes;
    }
    void remove_next_hop(const wire::Name& prefix, FaceId face) override {
        auto& of_prefix = hops.at(prefix.view().to_uri());
        REQUIRE(of_prefix.erase(face) == 1);
        if (of_prefix.empty()) hops.erase(prefix.view().to_uri());
        ++changes;
    }

    using Hops = std::map<std::string, std::map<FaceId, std::uint32_t>>;
    Hops hops;
    int changes = 0;
};

RibRoute route(FaceId face, std::uint32_t cost, std::uint64_t flags = kChildInherit,
               std::uint64_t origin = 0, TimePoint expiry = kNever) {
    return {.face = face, .origin = origin, .cost = cost, .flags = flags, .expiry = expiry};
}

}  // namespace

TEST_CASE("a face is a next hop at the lowest cost among its routes of all origins") {
    RecordedHops sink;
    Rib rib(sink);
    rib.put(name("/a"), route(1, 20, 0, 0));
    rib.put(name("/a"), route(1, 10, 0, 255));
    rib.put(name("/a"), route(2, 5, 0, 0));
    CHECK(sink.hops == RecordedHops::Hops{{"/a", {{1, 10}, {2, 5}}}});
    CHECK(rib.routes() == 3);
    CHECK(rib.remove(name("/a"), 1, 255));
    CHECK_FALSE(rib.remove(name("/a"), 1, 255));
    CHECK(sink.hops == RecordedHops::Hops{{"/a", {{1, 20}, {2, 5}}}});
    CHECK(rib.remove(name("/a"), 1, 0));
    CHECK(rib.remove(name("/a"), 2, 0));
    CHECK(sink.hops.empty());
    CHECK(rib.routes() == 0);
}

TEST_CASE("a longer prefix inherits next hops, of the nearest shorter prefix first") {
    RecordedHops sink;
    Rib rib(sink);
    rib.put(name("/a/b/c"), route(1, 1));
    rib.put(name("/a"), route(1, 50));
    rib.put(name("/a"), route(2, 50));
    rib.put(name("/a/b"), route(2, 30));
    rib.put(name("/ab"), route(9, 1));
    CHECK(sink.hops["/a/b/c"] == std::map<FaceId, std::uint32_t>{{1, 1}, {2, 30}});
    CHECK(sink.hops["/a/b"] == std::map<FaceId, std::uint32_t>{{1, 50}, {2, 30}});
    CHECK(sink.hops["/ab"] == std::map<FaceId, std::uint32_t>{{9, 1}});
    rib.remove(name("/a/b"), 2, 0);
    CHECK(sink.hops["/a/b/c"] == std::map<FaceId, std::uint32_t>{{1, 1}, {2, 50}});
    CHECK_FALSE(sink.hops.contains("/a/b"));
}

TEST_CASE("a capture route inherits nothing and hides shorter ones; inheritance is per route") {
    RecordedHops sink;
    Rib rib(sink);
    rib.put(name("/"), route(3, 0));
    rib.put(name("/a"), route(1, 1, kCapture));
    rib.put(name("/a/b"), route(2, 2));
    CHECK(sink.hops["/a"] == std::map<FaceId, std::uint32_t>{{1, 1}});
    CHECK(sink.hops["/a/b"] == std::map<FaceId, std::uint32_t>{{2, 2}});
    rib.put(name("/a"), route(1, 1, kCapture | kChildInherit));
    CHECK(sink.hops["/a/b"] == std::map<FaceId, std::uint32_t>{{1, 1}, {2, 2}});
    rib.remove(name("/a"), 1, 0);
    CHECK(sink.hops["/a/b"] == std::map<FaceId, std::uint32_t>{{2, 2}, {3, 0}});
}

TEST_CASE("routes expire unless they are registered again") {
    RecordedHops sink;
    Rib rib(sink);
    const TimePoint start{1h};
    rib.put(name("/a"), route(1, 1, 0, 0, start + 10s));
    rib.put(name("/b"), route(1, 1, 0, 0, start + 20s));
    CHECK(rib.next_expiry() == start + 10s);
    rib.put(name("/a"), route(1, 1, 0, 0, start + 30s));
    CHECK(rib.next_expiry() == start + 20s);
    rib.expire(start + 20s);
    CHECK(sink.hops == RecordedHops::Hops{{"/a", {{1, 1}}}});
    rib.put(name("/a"), route(1, 1));
    CHECK(rib.next_expiry() == kNever);
}

TEST_CASE("a face's end removes its routes and no others") {
    RecordedHops sink;
    Rib rib(sink);
    rib.put(name("/"), route(1, 7));
    rib.put(name("/a"), route(1, 1, 0, 0));
    rib.put(name("/a"), route(1, 2, 0, 255, TimePoint(5s)));
    rib.put(name("/a"), route(2, 3, 0));
    rib.remove_face(1);
    CHECK(sink.hops == RecordedHops::Hops{{"/a", {{2, 3}}}});
    CHECK(rib.routes() == 1);
    CHECK(rib.next_expiry() == kNever);
    rib.remove_face(1);
    CHECK(rib.routes() == 1);
}

TEST_CASE("a registration that changes no next hop touches nothing") {
    RecordedHops sink;
    Rib rib(sink);
    rib.put(name("/a"), route(1, 1));
    const int before = sink.changes;
    rib.put(name("/a"), route(1, 1, kChildInherit, 0, TimePoint(5s)));
    CHECK(sink.changes == before);
}

TEST_CASE("after random changes the next hops equal those of a fresh RIB") {
    std::mt19937_64 random(20260);
    const std::vector<std::string> prefixes = {"/", "/a", "/a/b", "/a/b/c", "/a/d", "/e"};
    for (int round = 0; round < 40; ++round) {
        RecordedHops sink;
        Rib rib(sink);
        for (int step = 0; step < 60; ++step) {
            const wire::Name prefix = name(prefixes[random() % prefixes.size()]);
            const auto face = static_cast<FaceId>(random() % 3);
            const std::uint64_t origin = random() % 2;
            switch (random() % 5) {
                case 0:
                    rib.remove(prefix, face, origin);
                    break;
                case 1:
                    if (random() % 4 == 0) rib.remove_face(face);
                    break;
                default:
                    rib.put(prefix, route(face, static_cast<std::uint32_t>(random() % 9),
                                          random() % 4, origin));
            }
        }
        RecordedHops fresh_sink;
        Rib fresh(fresh_sink);
        rib.for_each([&](const wire::Name& prefix, const std::vector<RibRoute>& routes) {
            for (const RibRoute& known : routes) fresh.put(prefix, known);
        });
        CHECK(sink.hops == fresh_sink.hops);
    }
}
