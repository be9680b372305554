#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>

#include "foreign_client.hpp"
#include "switch_emulator/driver/node_thread.hpp"

using namespace innet;
using namespace innet::driver;
using namespace innet::testing;

namespace {

forwarding::NodeOptions node_options() {
    forwarding::NodeOptions options;
    options.own_name = wire::Name::from_uri("/n/h0").value();
    return options;
}

/// Nobody listens there: the port of the discard protocol, below what programs are given.
constexpr std::uint16_t kClosedPort = 9;

struct RunningNode {
    RunningNode() : thread(node_options(), {}, {}, security::make_digest_signer()) {
        thread.start();
    }
    explicit RunningNode(const LinkOptions& link)
        : thread(node_options(), {}, {}, security::make_digest_signer()) {
        std::string error;
        REQUIRE_MESSAGE(thread.add_link(link, error).has_value(), error);
        thread.start();
    }
    NodeThread thread;
};

/// An allreduce of one rank, which needs nobody else.
struct SumOfOne {
    SumOfOne() : tensor(10, 5), result(10) {}

    void prepare(NodeThread& thread) const {
        thread.call([this](Engine& engine) {
            engine.endpoint.register_producer(prefix, "0");
            engine.streams.open(1, {prefix}, 1);
        });
    }

    void submit(Engine& engine, std::uint64_t seq) {
        wire::Name own = wire::Name::from_uri("/job/g0/0/sum.u8").value();
        own.append_number(wire::kSequenceNumComponent, seq);
        FetchSpec fetch;
        fetch.targets.push_back({own, {}});
        fetch.segmentation = {1, 10, 10};
        fetch.end_segment = 1;
        fetch.tensor_elements = 10;
        fetch.into = result;
        OperationSpec spec;
        spec.publication = {prefix, kind, seq, tensor, fetch.segmentation, 10, "", true};
        spec.fetches.push_back(fetch);
        engine.streams.submit(1, {seq, seq, true, std::move(spec)}, engine.now);
    }

    wire::Name prefix = wire::Name::from_uri("/job/g0/0").value();
    wire::Name kind = wire::Name::from_uri("/sum.u8").value();
    std::vector<std::uint8_t> tensor;
    std::vector<std::uint8_t> result;
};

}  // namespace

TEST_CASE("an exception on the node's thread reaches its caller, and the node continues") {
    RunningNode node;
    CHECK_THROWS_AS(node.thread.call([](Engine& engine) {
        engine.node.reducer().install({});  // a rule without a group
    }),
                    std::invalid_argument);
    bool ran = false;
    CHECK(node.thread.call([&](Engine&) { ran = true; }));
    CHECK(ran);
}

TEST_CASE("no wake-up of an idle node is lost between concurrent callers") {
    RunningNode node;
    constexpr int kCalls = 20000;
    int ran = 0;
    const auto call_often = [&] {
        for (int i = 0; i < kCalls; ++i) node.thread.call([&](Engine&) { ++ran; });
    };
    std::thread other(call_often);
    call_often();
    other.join();
    CHECK(ran == 2 * kCalls);
}

TEST_CASE("deferred work runs before a later packet") {
    SocketPath path;
    ListeningNode node({{.uri = path.uri()}});
    ForeignClient client(path.uri());
    node.await_faces(1);
    CHECK(node.thread.post_deferred([](Engine& engine) {
        CHECK(engine.endpoint.serve_packets({engine.pool.copy_of(data_packet("/served"))}));
    }));
    client.send(interest_packet("/served", 1));
    CHECK(client.receive_name(wire::kData) == "/served");
}

TEST_CASE("deferred work runs at a flush, or once there is much of it") {
    RunningNode node;
    std::promise<void> ran;
    CHECK(node.thread.post_deferred([&](Engine&) { ran.set_value(); }));
    SUBCASE("at a flush") { node.thread.wake_up(); }
    SUBCASE("if there is more and more of it") {
        for (int i = 0; i < 1000; ++i) CHECK(node.thread.post_deferred([](Engine&) {}));
    }
    CHECK(ran.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready);
    node.thread.stop("enough");
    CHECK(!node.thread.post_deferred([](Engine&) {}));
}

TEST_CASE("operations that this node alone answers end without any event from outside") {
    RunningNode node;
    SumOfOne sum;
    constexpr std::uint64_t kOperations = 10;
    sum.prepare(node.thread);
    node.thread.call([&](Engine& engine) {
        for (std::uint64_t seq = 0; seq < kOperations; ++seq) sum.submit(engine, seq);
    });
    const auto last = node.thread.completions().wait(kOperations - 1, std::chrono::seconds(10));
    REQUIRE(last);
    CHECK(last->status == OperationStatus::kDone);
    CHECK(sum.result == sum.tensor);
}

TEST_CASE("a caller whose operations follow each other runs the node, and others still reach it") {
    RunningNode node;
    SumOfOne sum;
    sum.prepare(node.thread);
    std::atomic<bool> ended = false;
    std::atomic<std::uint64_t> calls = 0;
    std::thread other([&] {
        while (!ended) node.thread.call([&](Engine&) { ++calls; });
    });
    const auto caller = std::this_thread::get_id();
    constexpr std::uint64_t kMost = 100'000;
    int on_caller = 0;
    std::uint64_t seq = 0;
    for (; seq < kMost && (on_caller < 100 || calls == 0); ++seq) {
        CHECK(node.thread.post_deferred([&, seq](Engine& engine) {
            if (std::this_thread::get_id() == caller) ++on_caller;
            sum.submit(engine, seq);
        }));
        const auto completion = node.thread.wait_for(seq, std::chrono::seconds(10));
        REQUIRE(completion);
        REQUIRE(completion->status == OperationStatus::kDone);
    }
    ended = true;
    other.join();
    CHECK(on_caller >= 100);
    CHECK(calls > 0);
}

TEST_CASE("a caller that runs the node leaves it when the node is stopped") {
    RunningNode node;
    SumOfOne sum;
    sum.prepare(node.thread);
    const auto caller = std::this_thread::get_id();
    bool on_caller = false;
    std::uint64_t seq = 0;
    for (; seq < 100'000 && !on_caller; ++seq) {
        CHECK(node.thread.post_deferred([&, seq](Engine& engine) {
            on_caller = std::this_thread::get_id() == caller;
            sum.submit(engine, seq);
        }));
        REQUIRE(node.thread.wait_for(seq, std::chrono::seconds(10)));
    }
    CHECK(on_caller);
    std::promise<void> waits;
    CHECK(node.thread.post_deferred([&](Engine&) { waits.set_value(); }));
    std::thread stopping([&] {
        waits.get_future().wait();
        node.thread.stop("enough");
    });
    CHECK(!node.thread.wait_for(seq, std::chrono::seconds(10)));  // which is never submitted
    stopping.join();
}

TEST_CASE("a request to a closed port fails at once") {
    LinkOptions link;
    link.endpoints = {"127.0.0.1", 0, "127.0.0.1", kClosedPort};
    RunningNode node(link);
    wire::Name name = wire::Name::from_uri("/job/g0/1/sum.u8").value();
    std::vector<std::uint8_t> result(10);
    node.thread.call([&](Engine& engine) {
        engine.node.add_route(wire::Name::from_uri("/n/h1").value(), 0, 0);
        name.append_number(wire::kSequenceNumComponent, 1);
        FetchSpec fetch;
        fetch.targets.push_back({name, wire::Name::from_uri("/n/h1").value()});
        fetch.segmentation = {1, 10, 10};
        fetch.end_segment = 1;
        fetch.tensor_elements = 10;
        fetch.into = result;
        OperationSpec spec;
        spec.fetches.push_back(fetch);
        spec.deadline = engine.now + std::chrono::milliseconds(500);
        engine.endpoint.submit(1, spec, engine.now);
    });
    const auto ended = node.thread.completions().wait(1, std::chrono::seconds(10));
    REQUIRE(ended);
    CHECK(ended->status == OperationStatus::kNoRoute);
}

TEST_CASE("a stopped node refuses later operations and ends those in flight") {
    RunningNode node;
    OperationSpec spec;
    FetchSpec fetch;
    fetch.targets.push_back({wire::Name::from_uri("/job/g0/1/sum.u8/seq=1").value(), {}});
    fetch.segmentation = {1, 0, 1};
    fetch.end_segment = 1;
    spec.fetches.push_back(fetch);
    CHECK(node.thread.post([&](Engine& engine) { engine.endpoint.submit(1, spec, engine.now); }));
    node.thread.stop("enough");
    node.thread.stop("again");
    const auto ended = node.thread.completions().wait(1, Duration::zero());
    REQUIRE(ended);
    CHECK(ended->status == OperationStatus::kAborted);
    CHECK(ended->detail == "enough");
    CHECK(!node.thread.call([](Engine&) {}));
    CHECK(!node.thread.post([](Engine&) {}));
}
