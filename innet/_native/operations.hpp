#pragma once
// Operations as Python describes them: buffers with their owners, names without sequence numbers.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/endpoint/operation.hpp"
#include "transport/endpoint/operation_streams.hpp"
#include "transport/object/object_memory.hpp"

namespace innet::bindings {

using ReadableBytes = nanobind::ndarray<const std::uint8_t, nanobind::ndim<1>, nanobind::c_contig,
                                        nanobind::device::cpu>;
using WritableBytes =
    nanobind::ndarray<std::uint8_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

using SegmentEnds = nanobind::ndarray<const std::uint64_t, nanobind::ndim<1>, nanobind::c_contig,
                                      nanobind::device::cpu>;
using SegmentSizes =
    nanobind::ndarray<std::uint32_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

/// The nodes that answer for one value, by shard; made once per group and reused by every
/// operation.
struct Targets {
    std::vector<FetchTarget> targets;  ///< names without kind and sequence number
};

/// A spec from Python, with the Python objects that own its buffers.
template <class Spec>
struct Owned {
    Spec spec;
    std::vector<nanobind::object> owners;
};

using OwnedPublication = Owned<PublicationSpec>;
using OwnedFetch = Owned<FetchSpec>;

/// An operation that is called again and again with other numbers and arrays: it publishes one
/// array, and its last fetch fills another.
struct RepeatedOperation {
    OperationSpec spec;                    ///< with the buffers of all fetches but the last
    std::vector<nanobind::object> owners;  ///< of those buffers
    std::string call;                      ///< as in StreamedOperation
    StreamId stream = 0;

    /// The operation with the number `seq`.
    OperationSpec numbered(std::uint64_t seq, std::span<const std::uint8_t> tensor,
                           std::span<std::uint8_t> into) const;
};

/// Destination of a fetched object, for Python: `memory`, and its owner when it is the caller's.
struct ObjectBuffer {
    std::shared_ptr<ObjectMemory> memory;
    nanobind::object owner;
};

void bind_object_buffer(nanobind::module_& module);
void bind_request_guard(nanobind::module_& module);

}  // namespace innet::bindings
