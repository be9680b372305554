#pragma once
// Text from the network, converted for Python.

#include <nanobind/nanobind.h>

#include <string>
#include <utility>

namespace innet::bindings {

/// Converts any bytes to a `str`: invalid UTF-8 is replaced (U+FFFD). A `std::string` would raise
/// UnicodeDecodeError on the caller's thread.
struct NetworkText {
    std::string bytes;
};

}  // namespace innet::bindings

namespace nanobind::detail {

template <>
struct type_caster<innet::bindings::NetworkText> {
    NB_TYPE_CASTER(innet::bindings::NetworkText, const_name("str"))

    bool from_python(handle, std::uint8_t, cleanup_list*) noexcept { return false; }

    static handle from_cpp(const innet::bindings::NetworkText& text, rv_policy,
                           cleanup_list*) noexcept {
        return PyUnicode_DecodeUTF8(text.bytes.data(), static_cast<Py_ssize_t>(text.bytes.size()),
                                    "replace");
    }
};

}  // namespace nanobind::detail
