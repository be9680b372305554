#pragma once
// Operations as Python describes them: buffers with their owners, names without sequence numbers.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <vector>

#include "transport/endpoint/operation.hpp"

namespace innet::bindings {

using ReadableBytes = nanobind::ndarray<const std::uint8_t, nanobind::ndim<1>, nanobind::c_contig,
                                        nanobind::device::cpu>;
using WritableBytes =
    nanobind::ndarray<std::uint8_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

/// The nodes that answer for one value, by shard; made once per group and reused by every
/// operation.
struct Targets {
    std::vector<FetchTarget> targets;  ///< names without kind and sequence number
};

/// A publication or a fetch, and the Python object whose memory it shows.
struct Publication {
    PublicationSpec spec;
    nanobind::object owner;
};

struct Fetch {
    FetchSpec spec;
    nanobind::object owner;
};

}  // namespace innet::bindings
