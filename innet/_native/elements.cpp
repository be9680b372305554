// Type-length-value elements for formats that Python reads and writes: object metadata, parameters
// of management commands.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "innet/_native/bindings.hpp"
#include "innet/_native/byte_arguments.hpp"
#include "transport/wire/tlv.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

using TypedValue = std::pair<std::uint32_t, nb::bytes>;

nb::bytes encode_element(std::uint32_t type, const nb::bytes& value) {
    std::vector<std::uint8_t> buffer(wire::element_size(type, value.size()));
    wire::Writer writer(buffer);
    writer.element(type, view_of(value));
    return bytes_of(buffer);
}

nb::bytes encode_number_element(std::uint32_t type, std::uint64_t number) {
    std::vector<std::uint8_t> buffer(wire::element_size(type, wire::nonnegative_size(number)));
    wire::Writer writer(buffer);
    writer.nonnegative_element(type, number);
    return bytes_of(buffer);
}

std::vector<TypedValue> read_elements(const nb::bytes& bytes) {
    std::vector<TypedValue> elements;
    for (wire::Reader reader(view_of(bytes)); !reader.empty();) {
        const auto element = reader.next();
        if (!element) throw nb::value_error("malformed TLV elements");
        elements.emplace_back(element->type, bytes_of(element->value));
    }
    return elements;
}

std::uint64_t read_number(const nb::bytes& value) {
    const auto number = wire::read_nonnegative(view_of(value));
    if (!number) throw nb::value_error("a NonNegativeInteger has 1, 2, 4 or 8 bytes");
    return *number;
}

/// Takes a VAR-NUMBER if the received bytes contain all of it; throws when it is malformed.
std::optional<std::uint64_t> take_var_number(wire::ByteView& bytes) {
    if (bytes.empty()) return std::nullopt;
    const std::size_t size = bytes[0] < 253 ? 1 : bytes[0] == 253 ? 3 : bytes[0] == 254 ? 5 : 9;
    if (bytes.size() < size) return std::nullopt;
    const auto number = wire::read_var_number(bytes);
    if (!number) throw nb::value_error("a type or a length is not in its shortest form");
    return number;
}

std::optional<std::uint64_t> first_element_size(const nb::bytes& bytes) {
    wire::ByteView rest = view_of(bytes);
    const auto type = take_var_number(rest);
    if (!type) return std::nullopt;
    const auto length = take_var_number(rest);
    if (!length) return std::nullopt;
    const std::uint64_t header_size = bytes.size() - rest.size();
    if (*type == 0 || *length > UINT64_MAX - header_size) throw nb::value_error("not an element");
    return header_size + *length;
}

}  // namespace

void bind_elements(nb::module_& module) {
    module.def("encode_element", &encode_element, nb::arg("type"), nb::arg("value"),
               "One TLV element.");
    module.def("encode_number_element", &encode_number_element, nb::arg("type"), nb::arg("number"),
               "One TLV element with a NonNegativeInteger.");
    module.def("read_elements", &read_elements, nb::arg("bytes"),
               "Types and values of consecutive elements; ValueError when malformed.");
    module.def("read_number", &read_number, nb::arg("value"),
               "Value of a NonNegativeInteger; ValueError when its length is wrong.");
    module.def(
        "first_element_size", &first_element_size, nb::arg("bytes"),
        "Size of the whole element that starts here, of which the rest may still be missing; None "
        "while its header is incomplete; ValueError when this starts no element.");
}

}  // namespace innet::bindings
