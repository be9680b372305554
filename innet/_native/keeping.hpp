#pragma once
// What a node keeps by itself because others ask it to, and what Python hears of it.

#include <nanobind/nanobind.h>

#include "innet/_native/node_handle.hpp"

namespace innet::bindings {

/// `take_objects_asked` as Python has it: pairs of a name and `None`, a `KeptObject`, or a list of
/// how fetches ended.
nanobind::list asked_objects(NodeHandle& self);

void bind_kept_object(nanobind::module_& module);
void bind_keeping_of(nanobind::class_<NodeHandle>& node);

}  // namespace innet::bindings
