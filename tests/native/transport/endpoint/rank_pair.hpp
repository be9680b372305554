#pragma once
// Two ranks of a group that publish and fetch tensors, each with an endpoint.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "virtual_network.hpp"

namespace innet::testing {

inline std::vector<std::uint8_t> pattern(std::size_t size, std::uint8_t salt) {
    std::vector<std::uint8_t> bytes(size);
    for (std::size_t i = 0; i < size; ++i) {
        bytes[i] = static_cast<std::uint8_t>((i * 131 + (i >> 8U) + salt) & 0xffU);
    }
    return bytes;
}

inline Segmentation cut(std::size_t size, std::size_t segment_bytes = 1000) {
    return {1, size, segment_bytes};
}

inline PublicationSpec publication(int rank, std::uint64_t seq,
                                   std::span<const std::uint8_t> tensor) {
    PublicationSpec spec;
    spec.prefix = name("/job/g0/" + std::to_string(rank));
    spec.kind = name("/sum.u8");
    spec.seq = seq;
    spec.tensor = tensor;
    spec.segmentation = cut(tensor.size());
    spec.tensor_elements = tensor.size();
    spec.description = "rank " + std::to_string(rank) + ": allreduce(sum.u8, " +
                       std::to_string(tensor.size()) + " elements)";
    return spec;
}

inline FetchSpec fetch(int rank, std::uint64_t seq, std::span<std::uint8_t> into) {
    FetchSpec spec;
    spec.targets.push_back(
        {name("/job/g0/" + std::to_string(rank) + "/sum.u8/seq=" + std::to_string(seq)),
         name("/n/h" + std::to_string(rank))});
    spec.segmentation = cut(into.size());
    spec.end_segment = spec.segmentation.segments();
    spec.tensor_elements = into.size();
    spec.into = into;
    return spec;
}

inline OperationSpec publish_only(PublicationSpec spec) {
    OperationSpec operation;
    operation.publication = std::move(spec);
    return operation;
}

inline OperationSpec fetch_only(FetchSpec spec, TimePoint deadline = kNever) {
    OperationSpec operation;
    operation.fetches.push_back(std::move(spec));
    operation.deadline = deadline;
    return operation;
}

/// Two hosts that are ranks 0 and 1 of a group.
struct RankPair {
    explicit RankPair(PathModel path = {}, std::uint32_t seed = 1, EndpointOptions options = {})
        : network(path, seed),
          first(network.add_host("/n/h0", options)),
          second(network.add_host("/n/h1", options)) {
        first.produce_at("/job/g0/0", "rank 0");
        second.produce_at("/job/g0/1", "rank 1");
    }

    bool run_until_complete(Host& host, OperationId id, Duration limit = 20s) {
        return network.run_until([&] { return host.completion(id) != nullptr; }, limit);
    }
    const EndpointCounters& counters() { return first.endpoint().counters(); }
    /// Begins operation 1 of a rank: it sends `tensor` ahead, and fetches the other's as if that
    /// were the sum.
    void begin_ahead(int rank, std::span<const std::uint8_t> tensor, std::span<std::uint8_t> into,
                     bool in_place = false, TimePoint deadline = kNever) {
        OperationSpec spec = publish_only(publication(rank, 0, tensor));
        spec.publication->offered = true;
        spec.in_place = in_place;
        spec.deadline = deadline;
        spec.fetches.push_back(fetch(1 - rank, 0, into));
        Host& host = rank == 0 ? first : second;
        host.endpoint().set_signer(
            name("/job"), security::make_gmac_signer(name("/job/KEY/g0/v=1"),
                                                     std::vector<std::uint8_t>(16, 7), {}));
        host.endpoint().unregister_producer(spec.publication->prefix);
        host.endpoint().register_producer(spec.publication->prefix, "a rank");
        host.endpoint().submit(1, std::move(spec), network.now());
    }

    VirtualNetwork network;
    Host& first;
    Host& second;
};

}  // namespace innet::testing
