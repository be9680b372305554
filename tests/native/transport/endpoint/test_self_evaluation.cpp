// Going round a node that refuses or is silent: the requester's own node evaluates the name. On the
// virtual network, "own node" means routing by name, to a host that has the sums.

#include <doctest/doctest.h>

#include <algorithm>

#include "virtual_network.hpp"

using namespace innet;
using namespace innet::testing;

namespace {

constexpr std::size_t kSegments = 200;

/// A requester, the aggregator that it is told to ask, and what its own node would evaluate.
struct Detour {
    Detour()
        : network({}),
          requester(network.add_host("/n/h0")),
          own_evaluation(network.add_host("/n/own")),
          aggregator(network.add_host("/n/s0")),
          tensor(kSegments * 100, std::uint8_t{7}) {
        for (Host* host : {&own_evaluation, &aggregator}) {
            host->produce_at("/job/g0/0-1", "3");
        }
    }

    void publish(std::uint64_t seq) {
        for (Host* host : {&own_evaluation, &aggregator}) {
            PublicationSpec spec;
            spec.prefix = name("/job/g0/0-1");
            spec.kind = name("/sum.u8");
            spec.seq = seq;
            spec.tensor = tensor;
            spec.segmentation = {1, tensor.size(), 100};
            spec.tensor_elements = tensor.size();
            OperationSpec operation;
            operation.publication = spec;
            host->endpoint().submit(seq, operation, network.now());
        }
    }

    void fetch(std::uint64_t seq, bool can_self_evaluate = true) {
        FetchSpec spec;
        spec.targets.push_back({name("/job/g0/0-1/sum.u8/seq=" + std::to_string(seq)),
                                name("/n/s0"), can_self_evaluate});
        spec.segmentation = {1, tensor.size(), 100};
        spec.end_segment = kSegments;
        spec.tensor_elements = tensor.size();
        into.assign(tensor.size(), 0);
        spec.into = into;
        OperationSpec operation;
        operation.fetches.push_back(spec);
        requester.endpoint().submit(seq, operation, network.now());
    }

    /// Publishes and fetches operation `seq`; how long it took.
    Duration run(std::uint64_t seq) {
        const TimePoint start = network.now();
        publish(seq);
        fetch(seq);
        REQUIRE(network.run_until([&] { return requester.completion(seq) != nullptr; }, 30s));
        CHECK(requester.completion(seq)->status == OperationStatus::kDone);
        CHECK(into == tensor);
        CHECK(requester.pending() == 0);
        return network.now() - start;
    }

    std::size_t asked(const std::string& hint) {
        return static_cast<std::size_t>(std::ranges::count_if(
            requester.expressed_uris,
            [&](const std::string& uri) { return uri.ends_with("via " + hint); }));
    }
    const EndpointCounters& counters() { return requester.endpoint().counters(); }

    VirtualNetwork network;
    Host& requester;
    Host& own_evaluation;
    Host& aggregator;
    std::vector<std::uint8_t> tensor;
    std::vector<std::uint8_t> into;
};

}  // namespace

TEST_CASE("only the reducing node receives the Interest") {
    Detour detour;
    detour.run(0);
    CHECK(detour.asked("/n/s0") == kSegments);
    CHECK(detour.counters().self_evaluations == 0);
}

TEST_CASE("a node without the rule is abandoned after one window and probed once a second") {
    // No sum can be absent: a link that damages packets made kNoData of one of the others.
    for (const auto reason :
         {wire::NackReason::kNoRule, wire::NackReason::kNoRoute, wire::NackReason::kNoData}) {
        Detour detour;
        detour.aggregator.refuse_all(reason);
        CHECK(detour.run(0) < 50ms);
        CHECK(detour.counters().self_evaluations == kSegments);
        CHECK(detour.asked("/n/s0") == 16);
        detour.network.run_for(1s);
        detour.run(1);
        detour.run(2);
        CHECK(detour.asked("/n/s0") == 17);
    }
}

TEST_CASE("a probe that is answered ends the detour") {
    Detour detour;
    detour.aggregator.refuse_all(wire::NackReason::kNoRule);
    detour.run(0);
    detour.aggregator.refuse_all(std::nullopt);
    detour.run(1);
    CHECK(detour.asked("/n/s0") == 16);
    detour.network.run_for(1s);
    detour.run(2);
    detour.run(3);
    CHECK(detour.asked("/n/s0") > 16 + kSegments);
}

TEST_CASE("a node without free slots is retried, then abandoned") {
    Detour detour;
    detour.aggregator.refuse_all(wire::NackReason::kNoSlot);
    CHECK(detour.run(0) < 100ms);
    CHECK(detour.counters().self_evaluations == kSegments);
    CHECK(detour.asked("/n/s0") > 16);
    CHECK(detour.asked("/n/s0") < 100);
    CHECK(detour.run(1) < 50ms);
}

TEST_CASE("a slot that becomes free in time causes no detour") {
    Detour detour;
    detour.publish(0);
    detour.aggregator.refuse_all(wire::NackReason::kNoSlot);
    detour.fetch(0);
    detour.network.run_for(2ms);
    CHECK(detour.counters().nacks_received > 0);
    detour.aggregator.refuse_all(std::nullopt);
    REQUIRE(
        detour.network.run_until([&] { return detour.requester.completion(0) != nullptr; }, 1s));
    CHECK(detour.into == detour.tensor);
    CHECK(detour.counters().self_evaluations == 0);
}

TEST_CASE("a dead node is abandoned after a few timeouts and costs little afterwards") {
    Detour detour;
    detour.run(0);
    detour.aggregator.unplug();
    CHECK(detour.run(1) < 1s);
    CHECK(detour.run(2) < 50ms);
    detour.network.run_for(2s);
    // One probe, which waits for one ordinary timeout.
    CHECK(detour.run(3) < 100ms);
    detour.aggregator.plug_in();
    detour.network.run_for(1s);
    detour.run(4);
    const std::size_t before = detour.asked("/n/s0");
    detour.run(5);
    CHECK(detour.asked("/n/s0") == before + kSegments);
}

TEST_CASE("a late rank does not cause a detour") {
    Detour detour;
    detour.fetch(0);
    detour.network.run_for(5s);
    detour.publish(0);
    REQUIRE(
        detour.network.run_until([&] { return detour.requester.completion(0) != nullptr; }, 1s));
    CHECK(detour.into == detour.tensor);
    CHECK(detour.counters().self_evaluations == 0);
}

TEST_CASE("a name without a local rule is retried until it is answered") {
    Detour detour;
    detour.publish(0);
    detour.aggregator.refuse_all(wire::NackReason::kNoSlot);
    detour.fetch(0, false);
    detour.network.run_for(2s);
    CHECK(detour.counters().nacks_received < 16 * 20);
    detour.aggregator.refuse_all(std::nullopt);
    REQUIRE(
        detour.network.run_until([&] { return detour.requester.completion(0) != nullptr; }, 2s));
    CHECK(detour.into == detour.tensor);
    CHECK(detour.counters().self_evaluations == 0);
}

TEST_CASE("when neither node can evaluate, both are retried at a falling rate") {
    Detour detour;
    detour.publish(0);
    detour.aggregator.refuse_all(wire::NackReason::kNoRule);
    detour.own_evaluation.refuse_all(wire::NackReason::kNoRule);
    detour.fetch(0);
    detour.network.run_for(3s);
    CHECK(detour.counters().nacks_received < 16 * 25);
    detour.own_evaluation.refuse_all(std::nullopt);
    REQUIRE(
        detour.network.run_until([&] { return detour.requester.completion(0) != nullptr; }, 2s));
    CHECK(detour.into == detour.tensor);
}
