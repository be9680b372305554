#pragma once
// A Data packet that Python holds.

#include <nanobind/nanobind.h>

#include "transport/wire/data.hpp"

namespace innet::bindings {

struct ReceivedData {
    /// Throws ValueError (in Python) when it is malformed.
    explicit ReceivedData(nanobind::bytes packet);

    nanobind::bytes wire;
    wire::DataView view;  ///< into `wire`
};

}  // namespace innet::bindings
