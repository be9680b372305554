#pragma once
// Routes and rules of a simulation's nodes, as Python functions know them.

#include <nanobind/nanobind.h>

#include "switch_emulator/simulation/simulation.hpp"

namespace innet::bindings {

/// Calls `route(node, name)` for `(prefix, face)` and `rule(node, group, interval)` for `[(operand,
/// hint), …]`, or None. Exceptions are printed, and count as None: the packet path has no caller to
/// raise them to.
class PythonTables final : public simulation::SharedTables {
  public:
    PythonTables(nanobind::callable route, nanobind::callable rule);

    std::optional<forwarding::Route> route_to(simulation::NodeIndex node,
                                              wire::NameView name) override;
    std::optional<reduction::Rule> rule_for(simulation::NodeIndex node, wire::NameView group,
                                            wire::ByteView interval) override;

  private:
    nanobind::callable route_;
    nanobind::callable rule_;
};

}  // namespace innet::bindings
