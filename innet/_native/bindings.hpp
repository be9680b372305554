#pragma once
// The boundary between Python and the packet path. Each `bind_*` is in the file it names.

#include <nanobind/nanobind.h>

namespace innet::bindings {

/// Before any name is hashed: names cannot be chosen to crowd in one bucket of this process's
/// tables.
void choose_name_hash_key();

void bind_names(nanobind::module_& module);
void bind_elements(nanobind::module_& module);
void bind_received_packets(nanobind::module_& module);
void bind_packet_encoders(nanobind::module_& module);
void bind_manifests(nanobind::module_& module);
void bind_operations(nanobind::module_& module);
void bind_reductions(nanobind::module_& module);
void bind_node(nanobind::module_& module);
void bind_simulation(nanobind::module_& module);
void bind_signing_speed(nanobind::module_& module);
void bind_processor_speed(nanobind::module_& module);
void bind_captures(nanobind::module_& module);
void bind_eviction(nanobind::module_& module);
void bind_block_keys(nanobind::module_& module);
void bind_build_information(nanobind::module_& module);

}  // namespace innet::bindings
