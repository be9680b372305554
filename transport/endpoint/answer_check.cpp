#include "transport/endpoint/answer_check.hpp"

#include <string_view>

#include "transport/wire/text.hpp"

namespace innet {

namespace {

OperationStatus status_of(std::uint64_t error) {
    switch (static_cast<wire::TensorErrorCode>(error)) {
        case wire::TensorErrorCode::kMismatch:
            return OperationStatus::kMismatch;
        case wire::TensorErrorCode::kOverflow:
            return OperationStatus::kOverflow;
        case wire::TensorErrorCode::kFailed:
            return OperationStatus::kPeerFailed;
        case wire::TensorErrorCode::kAborted:
            break;
    }
    return OperationStatus::kAborted;
}

std::string difference(const wire::DataView& data, const std::string& expected,
                       const std::string& found) {
    return data.name().to_uri() + " has " + found + ", and " + expected + " were expected here";
}

}  // namespace

AnswerCheck check_answer(const FetchSpec& spec, std::uint64_t segment, const wire::DataView& data) {
    if (const auto error = data.tensor_error()) {
        const std::string_view text = wire::text_of(data.content());
        return {status_of(*error), std::string(wire::cut_text(text, wire::kMaxErrorText))};
    }
    const std::string_view earlier = wire::text_of(data.earlier_calls());
    if (!wire::earlier_calls_agree(earlier, spec.earlier_calls)) {
        return {OperationStatus::kMismatch,
                wire::earlier_calls_differ(data.name().to_uri(), earlier, "this rank",
                                           spec.earlier_calls)};
    }
    if (data.sum_carry().value_or(0) != 0 && !spec.wraps) {
        return {OperationStatus::kOverflow,
                "the sum " + data.name().to_uri() + " leaves the range of its integer type"};
    }
    const auto elements = data.tensor_elements();
    if (elements && *elements != spec.tensor_elements) {
        return {OperationStatus::kMismatch,
                difference(data, std::to_string(spec.tensor_elements) + " elements",
                           std::to_string(*elements) + " elements")};
    }
    const std::uint64_t size = spec.segmentation.size_of(segment);
    if (!spec.sizes.empty() ? data.content().size() > size : data.content().size() != size) {
        return {OperationStatus::kMismatch,
                difference(data, std::to_string(size) + " bytes",
                           std::to_string(data.content().size()) + " bytes")};
    }
    return {};
}

}  // namespace innet
