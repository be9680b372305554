#pragma once
// Bytes between Python and the wire format.

#include <nanobind/nanobind.h>

#include "transport/wire/tlv.hpp"

namespace innet::bindings {

inline wire::ByteView view_of(const nanobind::bytes& bytes) {
    return {static_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

inline nanobind::bytes bytes_of(wire::ByteView view) {
    return nanobind::bytes(view.data(), view.size());
}

}  // namespace innet::bindings
