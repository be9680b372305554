// `Segmentation`, `Targets`, `PublicationSpec`, `FetchSpec`: the parts of an operation.

#include "innet/_native/operations.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>

#include "innet/_native/bindings.hpp"
#include "innet/_native/name_argument.hpp"
#include "transport/wire/text.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

wire::Name with_operation(const wire::Name& base, const wire::Name& kind, std::uint64_t seq) {
    wire::Name name = base;
    const wire::NameView view = kind.view();
    for (std::size_t i = 0; i < view.size(); ++i) {
        const wire::Element component = view.component(i);
        name.append(component.type, component.value);
    }
    return name.append_number(wire::kSequenceNumComponent, seq);
}

Targets make_targets(const std::vector<std::tuple<std::string, std::string, bool>>& entries) {
    Targets result;
    for (const auto& [name, hint, can_self_evaluate] : entries) {
        result.targets.push_back({name_from_uri(name),
                                  hint.empty() ? wire::Name() : name_from_uri(hint),
                                  can_self_evaluate});
    }
    return result;
}

OwnedPublication make_publication(const wire::Name& prefix, const wire::Name& kind,
                                  std::uint64_t seq, ReadableBytes tensor,
                                  const Segmentation& segmentation, std::uint64_t elements,
                                  std::string description, bool exclusive,
                                  const std::optional<SegmentEnds>& segment_ends,
                                  std::string earlier_calls, bool offered) {
    OwnedPublication result;
    result.spec.offered = offered;
    result.spec.prefix = prefix;
    result.spec.kind = kind;
    result.spec.seq = seq;
    result.spec.tensor = {tensor.data(), tensor.size()};
    result.spec.segmentation = segmentation;
    result.spec.tensor_elements = elements;
    result.spec.description = std::move(description);
    result.spec.exclusive_seq = exclusive;
    result.spec.earlier_calls = std::move(earlier_calls);
    result.owners.push_back(nb::cast(tensor));
    if (segment_ends) {
        result.spec.segment_ends = {segment_ends->data(), segment_ends->size()};
        result.owners.push_back(nb::cast(*segment_ends));
    }
    return result;
}

OwnedFetch make_fetch(const Targets& targets, const wire::Name& kind, std::uint64_t seq,
                      const Segmentation& segmentation, std::uint64_t first_segment,
                      std::uint64_t end_segment, std::uint64_t elements, WritableBytes into,
                      bool by_block, const std::optional<SegmentSizes>& sizes,
                      std::string earlier_calls, bool wraps) {
    OwnedFetch result;
    result.spec.wraps = wraps;
    for (const FetchTarget& target : targets.targets) {
        FetchTarget full = target;
        full.name = with_operation(target.name, kind, seq);
        result.spec.targets.push_back(std::move(full));
    }
    result.spec.shard_rule = by_block ? ShardRule::kBlock : ShardRule::kSegmentModulo;
    result.spec.segmentation = segmentation;
    result.spec.first_segment = first_segment;
    result.spec.end_segment = end_segment;
    result.spec.tensor_elements = elements;
    result.spec.into = {into.data(), into.size()};
    result.spec.earlier_calls = std::move(earlier_calls);
    result.owners.push_back(nb::cast(into));
    if (sizes) {
        result.spec.sizes = {sizes->data(), sizes->size()};
        result.owners.push_back(nb::cast(*sizes));
    }
    return result;
}

RepeatedOperation make_repeated(const OwnedPublication& publication,
                                const std::vector<const OwnedFetch*>& fetches, bool in_place,
                                StreamId stream, std::string call) {
    if (fetches.empty()) throw nb::value_error("a repeated operation needs a fetch");
    RepeatedOperation result;
    result.spec.publication = publication.spec;
    for (const OwnedFetch* fetch : fetches) {
        result.spec.fetches.push_back(fetch->spec);
        if (fetch == fetches.back()) break;
        result.owners.insert(result.owners.end(), fetch->owners.begin(), fetch->owners.end());
    }
    // The arrays of the call that is prepared here are not kept.
    result.spec.publication->tensor = {};
    result.spec.fetches.back().into = {};
    result.spec.in_place = in_place;
    result.stream = stream;
    result.call = std::move(call);
    return result;
}

}  // namespace

OperationSpec RepeatedOperation::numbered(std::uint64_t seq, std::span<const std::uint8_t> tensor,
                                          std::span<std::uint8_t> into) const {
    OperationSpec result = spec;
    result.publication->seq = seq;
    result.publication->tensor = tensor;
    for (FetchSpec& fetch : result.fetches) {
        for (FetchTarget& target : fetch.targets) {
            target.name = wire::Name(target.name.view().parent());
            target.name.append_number(wire::kSequenceNumComponent, seq);
        }
    }
    result.fetches.back().into = into;
    return result;
}

void bind_operations(nb::module_& module) {
    module.attr("MAX_EARLIER_CALLS") = wire::kMaxEarlierCalls;
    module.attr("UNKNOWN_CALLS") = std::string(wire::kUnknownCalls);
    bind_object_buffer(module);
    bind_request_guard(module);
    nb::class_<Segmentation>(module, "Segmentation", "How a tensor is cut into segments.")
        .def(
            "__init__",
            [](Segmentation* self, std::uint64_t blocks, std::uint64_t block_bytes,
               std::uint64_t segment_bytes) {
                if (blocks == 0 || segment_bytes == 0) {
                    throw nb::value_error("blocks and segment_bytes must be positive");
                }
                new (self) Segmentation{blocks, block_bytes, segment_bytes};
            },
            nb::arg("blocks"), nb::arg("block_bytes"), nb::arg("segment_bytes"))
        .def_prop_ro("segments", &Segmentation::segments)
        .def_prop_ro("segments_per_block", &Segmentation::segments_per_block);
    nb::class_<Targets>(module, "Targets", nb::is_weak_referenceable(),
                        "The nodes that answer for a value: (name, hint, is an interval).")
        .def(
            "__init__",
            [](Targets* self,
               const std::vector<std::tuple<std::string, std::string, bool>>& entries) {
                new (self) Targets(make_targets(entries));
            },
            nb::arg("entries"));
    nb::class_<OwnedPublication>(module, "PublicationSpec", "A tensor to publish under a name.")
        .def(
            "__init__",
            [](OwnedPublication* self, const wire::Name& prefix, const wire::Name& kind,
               std::uint64_t seq, ReadableBytes tensor, const Segmentation& segmentation,
               std::uint64_t elements, std::string description, bool exclusive,
               const std::optional<SegmentEnds>& segment_ends, std::string earlier_calls,
               bool offered) {
                new (self) OwnedPublication(
                    make_publication(prefix, kind, seq, std::move(tensor), segmentation, elements,
                                     std::move(description), exclusive, segment_ends,
                                     std::move(earlier_calls), offered));
            },
            nb::arg("prefix"), nb::arg("kind"), nb::arg("seq"), nb::arg("tensor"),
            nb::arg("segmentation"), nb::arg("elements"), nb::arg("description"),
            nb::arg("exclusive") = true, nb::arg("segment_ends").none() = nb::none(),
            nb::arg("earlier_calls") = "", nb::arg("offered") = false,
            "segment_ends: where segments of unequal sizes end in the tensor. earlier_calls: of "
            "this rank, which must agree with those of all others. offered: each "
            "segment goes to the node that adds it ahead of the request for its sum.");
    nb::class_<OwnedFetch>(module, "FetchSpec",
                           "Segments of a named tensor to fetch into a buffer.")
        .def(
            "__init__",
            [](OwnedFetch* self, const Targets& targets, const wire::Name& kind, std::uint64_t seq,
               const Segmentation& segmentation, std::uint64_t first_segment,
               std::uint64_t end_segment, std::uint64_t elements, WritableBytes into, bool by_block,
               const std::optional<SegmentSizes>& sizes, std::string earlier_calls, bool wraps) {
                new (self) OwnedFetch(make_fetch(targets, kind, seq, segmentation, first_segment,
                                                 end_segment, elements, std::move(into), by_block,
                                                 sizes, std::move(earlier_calls), wraps));
            },
            nb::arg("targets"), nb::arg("kind"), nb::arg("seq"), nb::arg("segmentation"),
            nb::arg("first_segment"), nb::arg("end_segment"), nb::arg("elements"), nb::arg("into"),
            nb::arg("by_block") = false, nb::arg("sizes").none() = nb::none(),
            nb::arg("earlier_calls") = "", nb::arg("wraps") = false,
            "sizes: receives the size of each segment, which may be below the segmentation's. "
            "wraps: sums of integers that left their type are taken, modulo 2^n.");
    nb::class_<RepeatedOperation>(module, "RepeatedOperation",
                                  "An operation that is called again with other arrays.")
        .def(
            "__init__",
            [](RepeatedOperation* self, const OwnedPublication& publication,
               const std::vector<const OwnedFetch*>& fetches, bool in_place, StreamId stream,
               std::string call) {
                new (self) RepeatedOperation(
                    make_repeated(publication, fetches, in_place, stream, std::move(call)));
            },
            nb::arg("publication"), nb::arg("fetches"), nb::kw_only(), nb::arg("in_place"),
            nb::arg("stream"), nb::arg("call"),
            "Of the array published and the last fetch, the sizes count, not the memory.");
}

}  // namespace innet::bindings
