#include <doctest/doctest.h>

#include "transport/endpoint/operation_streams.hpp"
#include "transport/fetch/flow_table.hpp"
#include "virtual_network.hpp"

using namespace innet;
using namespace innet::testing;

namespace {

/// Host 0 in groups that come and go, each with a peer of its own that does not answer.
struct Groups {
    void live_and_end(std::uint64_t group) {
        const std::string prefix = "/job/g" + std::to_string(group);
        const wire::Name own = name(prefix + "/0");
        first.endpoint().register_producer(own, "0");
        streams.open(static_cast<StreamId>(group), {own}, 2);
        for (std::uint64_t seq = 0; seq < 4; ++seq) submit(group, prefix, own, seq);
        network.run_for(1ms);
        streams.abort(name(prefix), "the group is gone", network.now());
        streams.close(static_cast<StreamId>(group));
        first.endpoint().unregister_producer(own);
        streams.take_completions(ended, network.now());
        first.expressed_uris.clear();
    }

    void submit(std::uint64_t group, const std::string& prefix, const wire::Name& own,
                std::uint64_t seq) {
        OperationSpec spec;
        spec.deadline = network.now() + 1h;
        spec.publication.emplace();
        spec.publication->prefix = own;
        spec.publication->kind = name("/sum.u8");
        spec.publication->seq = seq;
        spec.publication->tensor = tensor;
        spec.publication->segmentation = {1, tensor.size(), tensor.size()};
        FetchSpec& fetch = spec.fetches.emplace_back();
        fetch.targets.push_back({name(prefix + "/1/sum.u8/seq=" + std::to_string(seq)),
                                 name("/n/peer" + std::to_string(group))});
        fetch.segmentation = {1, tensor.size(), tensor.size()};
        fetch.end_segment = 1;
        fetch.into = result;
        streams.submit(static_cast<StreamId>(group), {next_id++, seq, true, std::move(spec), 0},
                       network.now());
    }

    VirtualNetwork network{PathModel{}};
    Host& first = network.add_host("/n/h0");
    OperationStreams streams{first.endpoint()};
    std::vector<std::uint8_t> tensor = std::vector<std::uint8_t>(100, 5);
    std::vector<std::uint8_t> result = std::vector<std::uint8_t>(100);
    std::vector<OperationCompletion> ended;
    OperationId next_id = 0;
};

}  // namespace

TEST_CASE("ended groups and peers leave no state behind") {
    Groups groups;
    for (std::uint64_t group = 0; group < 3000; ++group) groups.live_and_end(group);
    REQUIRE(groups.ended.size() == 12000);
    Endpoint& endpoint = groups.first.endpoint();
    CHECK(endpoint.counters().flows == FlowTable<int>::kKept);
    CHECK(endpoint.counters().retained_bytes == 0);
    CHECK(endpoint.describe_operations().empty());
    CHECK(endpoint.next_deadline() == kNever);
    CHECK(groups.first.pool().bytes_in_use() == 0);
    CHECK(groups.first.pending() == 0);
}

TEST_CASE("active peers keep their flows, however many there are") {
    Groups groups;
    constexpr std::uint64_t kPeers = 2 * FlowTable<int>::kKept;
    const wire::Name own = name("/job/g0/0");
    groups.first.endpoint().register_producer(own, "0");
    for (std::uint64_t peer = 0; peer < kPeers; ++peer) {
        groups.streams.open(static_cast<StreamId>(peer), {own}, 2);
        groups.submit(peer, "/job/g0", own, peer);
    }
    // One more is the flow of self-evaluation.
    CHECK(groups.first.endpoint().counters().flows == kPeers + 1);
    groups.streams.abort(wire::Name(), "the end", groups.network.now());
    for (std::uint64_t peer = 0; peer < kPeers; ++peer) groups.submit(0, "/job/g0", own, peer);
    CHECK(groups.first.endpoint().counters().flows == kPeers + 1);
}
