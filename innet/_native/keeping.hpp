#pragma once
// Keep requests that a node serves by itself, and their reports to Python.

#include <nanobind/nanobind.h>

#include "innet/_native/node_handle.hpp"

namespace innet::bindings {

/// `take_requested_objects` for Python: pairs of a name and `None`, a `KeptObject`, or a list of
/// fetch results.
nanobind::list requested_objects(NodeHandle& self);

void bind_kept_object(nanobind::module_& module);
void bind_keeping_of(nanobind::class_<NodeHandle>& node);

}  // namespace innet::bindings
