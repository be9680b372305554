#pragma once
// Is this Data the segment that a fetch expects?

#include <string>

#include "transport/endpoint/operation.hpp"
#include "transport/wire/data.hpp"

namespace innet {

struct AnswerCheck {
    OperationStatus status = OperationStatus::kDone;  ///< kDone: it is
    std::string detail;
};

/// Compares an answer's size and its publisher's element count with the fetch's, and turns a
/// TensorError into the status that it stands for. Plain NDN producers give no element count; their
/// segments are checked by size.
AnswerCheck check_answer(const FetchSpec& spec, std::uint64_t segment, const wire::DataView& data);

}  // namespace innet
