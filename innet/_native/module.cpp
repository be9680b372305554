#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>

#include "innet/_native/bindings.hpp"
#include "transport/version.hpp"

NB_MODULE(_core, module) {
    // PyTorch's own registries keep process groups, and what these hold, until the process ends.
    nanobind::set_leak_warnings(false);
    module.doc() = "The compiled part of innet: wire format, transport, node and drivers.";
    module.attr("__version__") = innet::version();
    innet::bindings::choose_name_hash_key();
    innet::bindings::bind_names(module);
    innet::bindings::bind_elements(module);
    innet::bindings::bind_received_packets(module);
    innet::bindings::bind_packet_encoders(module);
    innet::bindings::bind_manifests(module);
    innet::bindings::bind_operations(module);
    innet::bindings::bind_reductions(module);
    innet::bindings::bind_node(module);
    innet::bindings::bind_simulation(module);
    innet::bindings::bind_signing_speed(module);
    innet::bindings::bind_processor_speed(module);
    innet::bindings::bind_captures(module);
    innet::bindings::bind_eviction(module);
    innet::bindings::bind_block_keys(module);
    innet::bindings::bind_build_information(module);
}
