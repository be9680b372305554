// `reduce`: one reduction as a node computes it, outside of any network; and the q8 encoding.

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "innet/_native/bindings.hpp"
#include "innet/_native/operations.hpp"
#include "switch_emulator/reduction/formats/block_scaled/q8.hpp"
#include "switch_emulator/reduction/formats/pairs/pairs.hpp"
#include "switch_emulator/reduction/formats/registry.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

using reduction::Format;
using reduction::ReduceStatus;

/// The checks of a reducer before it reduces.
void check_operands(const Format& format, const std::vector<wire::ByteView>& operands) {
    if (operands.empty() || operands.size() > reduction::kMaxOperands) {
        throw nb::value_error("a reduction has 1 to 32768 operands");
    }
    for (const wire::ByteView operand : operands) {
        const auto fault = format.find_fault(operand);
        if (fault) {
            throw nb::value_error(
                ("an operand of " + std::to_string(operand.size()) + " bytes, " + *fault).c_str());
        }
        if (format.has_fixed_size() && operand.size() != operands.front().size()) {
            throw nb::value_error("operands differ in size");
        }
    }
}

std::pair<nb::bytes, std::uint64_t> reduce(const std::string& kind,
                                           const std::vector<ReadableBytes>& arrays) {
    const Format* format = reduction::find_format(kind);
    if (format == nullptr) throw nb::value_error(("no reduction is called " + kind).c_str());
    std::vector<wire::ByteView> operands;
    for (const ReadableBytes& array : arrays) operands.emplace_back(array.data(), array.size());
    check_operands(*format, operands);
    std::vector<std::uint8_t> result(format->max_result_size(operands));
    const reduction::Reduced reduced = format->reduce(operands, result);
    if (reduced.status != ReduceStatus::kOk) throw nb::value_error("the result fits in no packet");
    return {nb::bytes(result.data(), reduced.size), reduced.carry};
}

using ReadableFloats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using WritableFloats = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void require_q8_size(std::size_t bytes, std::size_t elements) {
    if (bytes != reduction::q8_encoded_size(elements)) {
        throw nb::value_error(("q8 of " + std::to_string(elements) + " elements has " +
                               std::to_string(reduction::q8_encoded_size(elements)) +
                               " bytes, not " + std::to_string(bytes))
                                  .c_str());
    }
}

void q8_encode(const ReadableFloats& numbers, const WritableBytes& encoded,
               const std::optional<WritableFloats>& lost) {
    require_q8_size(encoded.size(), numbers.size());
    if (lost && lost->size() != numbers.size()) throw nb::value_error("lost has another size");
    const nb::gil_scoped_release released;
    reduction::q8_encode({numbers.data(), numbers.size()}, {encoded.data(), encoded.size()},
                         lost ? std::span(lost->data(), lost->size()) : std::span<float>());
}

void q8_decode(const ReadableBytes& encoded, const WritableFloats& numbers) {
    require_q8_size(encoded.size(), numbers.size());
    const nb::gil_scoped_release released;
    reduction::q8_decode({encoded.data(), encoded.size()}, {numbers.data(), numbers.size()});
}

}  // namespace

void bind_reductions(nb::module_& module) {
    module.def("reduce", &reduce, nb::arg("kind"), nb::arg("operands"),
               "The reduction `kind`, such as sum.f32, of operands given as arrays of bytes, from "
               "left to right, as a node computes it, and what sums of integers left out, as one "
               "number. Raises ValueError for what a node refuses.");
    module.attr("Q8_BLOCK_ELEMENTS") = reduction::kQ8BlockElements;
    module.attr("Q8_BLOCK_BYTES") = reduction::kQ8BlockBytes;
    module.attr("SPARSE_BLOCK_ELEMENTS") = reduction::kSparseBlockElements;
    module.def("q8_encode", &q8_encode, nb::arg("numbers"), nb::arg("encoded"),
               nb::arg("lost") = nb::none(),
               "Encode float32 numbers in blocks with a scale; `lost` gets what that took away.");
    module.def("q8_decode", &q8_decode, nb::arg("encoded"), nb::arg("numbers"),
               "Decode blocks with a scale into float32 numbers.");
}

}  // namespace innet::bindings
