#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "switch_emulator/simulation/simulation.hpp"

using namespace innet;
using namespace innet::simulation;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kTensorBytes = 40'000;
constexpr std::size_t kSegmentBytes = 1000;

wire::Name name_of(std::string_view uri) {
    const auto name = wire::Name::from_uri(uri);
    REQUIRE(name);
    return *name;
}

NodeMakings makings(const std::string& name) {
    NodeMakings result;
    result.node.own_name = name_of("/n/" + name);
    result.node.cache_bytes = 1 << 20;
    result.keyring.accept_digest(true);
    result.signer = security::make_digest_signer();
    return result;
}

LinkOptions link_options() {
    LinkOptions options;
    options.port.rate_bps = 1e8;
    options.port.delay = 1ms;
    return options;
}

/// Two hosts; "a" fetches a tensor that "b" publishes.
class Pair {
  public:
    Pair() : a_(simulation.add_node(makings("a"))), b_(simulation.add_node(makings("b"))) {
        connection = simulation.connect(a_, b_, link_options(), link_options());
        simulation.call(a_, [this](driver::Engine& engine) {
            engine.node.add_route(name_of("/n/b"), connection.first_face, 0);
        });
    }

    void publish() {
        simulation.call(b_, [this](driver::Engine& engine) {
            engine.endpoint.register_producer(name_of("/j/g/1"), "1");
            OperationSpec spec;
            spec.publication = PublicationSpec{};
            spec.publication->prefix = name_of("/j/g/1");
            spec.publication->kind = name_of("/x.u8");
            spec.publication->seq = 1;
            spec.publication->tensor = tensor_;
            spec.publication->segmentation = segmentation();
            spec.publication->tensor_elements = kTensorBytes;
            engine.endpoint.submit(1, std::move(spec), engine.now);
        });
    }
    void fetch(Duration timeout = 10s) {
        simulation.call(a_, [this, timeout](driver::Engine& engine) {
            FetchSpec fetch;
            fetch.targets = {{name_of("/j/g/1/x.u8/seq=1"), name_of("/n/b"), false}};
            fetch.segmentation = segmentation();
            fetch.end_segment = fetch.segmentation.segments();
            fetch.tensor_elements = kTensorBytes;
            fetch.into = into_;
            OperationSpec spec;
            spec.fetches.push_back(std::move(fetch));
            spec.deadline = engine.now + timeout;
            engine.endpoint.submit(2, std::move(spec), engine.now);
        });
    }
    /// How the fetch ended; kCancelled when it did not, by `until`.
    OperationStatus run(Duration until) {
        while (simulation.run(until, ~std::uint64_t{0} / 2) == Stop::kEnded) {
            for (const auto& [node, completion] : simulation.take_ended()) {
                if (completion.id == 2) {
                    return completion.status;
                }
            }
        }
        return OperationStatus::kCancelled;
    }
    bool is_whole() const { return std::ranges::equal(tensor_, into_); }
    NodeIndex a() const { return a_; }
    NodeIndex b() const { return b_; }

    Simulation simulation;
    Connection connection;

  private:
    static Segmentation segmentation() {
        Segmentation result;
        result.block_bytes = kTensorBytes;
        result.segment_bytes = kSegmentBytes;
        return result;
    }

    NodeIndex a_;
    NodeIndex b_;
    std::vector<std::uint8_t> tensor_ = std::vector<std::uint8_t>(kTensorBytes, 7);
    std::vector<std::uint8_t> into_ = std::vector<std::uint8_t>(kTensorBytes, 0);
};

}  // namespace

TEST_CASE("a tensor crosses a simulated link in the time that its rate and delay take") {
    Pair pair;
    pair.publish();
    pair.fetch();
    CHECK(pair.run(20s) == OperationStatus::kDone);
    CHECK(pair.is_whole());
    CHECK(pair.simulation.now() > 3200us + 2ms);  // 40 kB at 100 Mbit/s, and a round trip
    CHECK(pair.simulation.now() < 20ms);
}

TEST_CASE("the same calls give the same events; other links give others") {
    const auto digest = [](Duration delay) {
        Pair pair;
        LinkOptions changed = link_options();
        changed.port.delay = delay;
        pair.simulation.change_link(pair.connection.forth, changed);
        pair.publish();
        pair.fetch();
        CHECK(pair.run(20s) == OperationStatus::kDone);
        return pair.simulation.counters().digest;
    };
    CHECK(digest(1ms) == digest(1ms));
    CHECK(digest(1ms) != digest(2ms));
}

TEST_CASE("time without events advances at once to the requested time") {
    Pair pair;
    CHECK(pair.simulation.run(3600s, 1000) == Stop::kTime);
    CHECK(pair.simulation.now() == 3600s);
    CHECK(pair.simulation.idle());
}

TEST_CASE("a run stops after the packets that it was given") {
    Pair pair;
    pair.publish();
    pair.fetch();
    Stop stop = Stop::kEnded;
    while ((stop = pair.simulation.run(20s, 5)) == Stop::kEnded) {
        pair.simulation.take_ended();
    }
    CHECK(stop == Stop::kSlice);
    CHECK(pair.simulation.counters().packets >= 5);
    CHECK(pair.simulation.counters().packets < 40);
}

TEST_CASE("a paused node answers after it resumes") {
    Pair pair;
    pair.publish();
    pair.simulation.pause(pair.b());
    pair.fetch();
    CHECK(pair.run(100ms) == OperationStatus::kCancelled);
    const std::uint64_t packets = pair.simulation.counters().packets;
    CHECK(packets > 0);
    CHECK(pair.simulation.counters().dropped_paused == 0);
    pair.simulation.resume(pair.b());
    CHECK(pair.run(20s) == OperationStatus::kDone);
    CHECK(pair.is_whole());
}

TEST_CASE("a crashed node answers only after it has restarted and published again") {
    Pair pair;
    pair.publish();
    pair.fetch();
    CHECK(pair.run(2ms) == OperationStatus::kCancelled);
    pair.simulation.crash(pair.b(), "b crashed");
    CHECK_FALSE(pair.simulation.is_alive(pair.b()));
    CHECK(pair.run(1s) == OperationStatus::kCancelled);
    CHECK(pair.simulation.counters().dropped_dead > 0);
    pair.simulation.restart(pair.b(), makings("b"));
    pair.publish();
    CHECK(pair.run(20s) == OperationStatus::kDone);
    CHECK(pair.is_whole());
}

TEST_CASE("a crashing node ends its own operations with the reason") {
    Pair pair;
    pair.fetch();
    CHECK(pair.run(1ms) == OperationStatus::kCancelled);
    pair.simulation.crash(pair.a(), "a crashed");
    const auto ended = pair.simulation.take_ended();
    REQUIRE(ended.size() == 1);
    CHECK(ended[0].first == pair.a());
    CHECK(ended[0].second.status == OperationStatus::kAborted);
    CHECK(ended[0].second.detail.find("a crashed") != std::string::npos);
}

TEST_CASE("a clock jump brings forward the deadlines of its own node only") {
    Pair pair;
    pair.fetch(10s);  // from nobody
    pair.simulation.set_link_up(pair.connection.forth, false);
    CHECK(pair.run(1s) == OperationStatus::kCancelled);
    pair.simulation.advance_clock(pair.a(), 8s);
    CHECK(pair.run(60s) != OperationStatus::kCancelled);
    CHECK(pair.simulation.now() == 2s);
}

TEST_CASE("a node reads missing notifications from the shared tables once") {
    class Tables final : public SharedTables {
      public:
        std::optional<forwarding::Route> route_to(NodeIndex node, wire::NameView name) override {
            ++asked[node];
            return forwarding::Route{wire::Name(name), 0, 0};
        }
        std::optional<reduction::Rule> rule_for(NodeIndex, wire::NameView,
                                                wire::ByteView) override {
            return std::nullopt;
        }
        std::map<NodeIndex, int> asked;
    };
    Tables tables;
    Simulation simulation(&tables);
    const NodeIndex a = simulation.add_node(makings("a"));
    const NodeIndex b = simulation.add_node(makings("b"));
    simulation.connect(a, b, link_options(), link_options());
    for (int turn = 0; turn < 2; ++turn) {
        simulation.call(a, [turn](driver::Engine& engine) {
            const wire::Name name = name_of("/x/" + std::to_string(turn));
            engine.node.express(RequesterId::kApplication, name.view(), name_of("/n/b").view(), 1s);
        });
        simulation.run(simulation.now() + 10ms, 1000);
    }
    CHECK(tables.asked[a] == 1);
}
