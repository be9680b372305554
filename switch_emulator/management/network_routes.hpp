#pragma once
// Routes to what is served elsewhere in this node's network, as whoever runs the network gives
// them.

#include <cstdint>
#include <span>

#include "switch_emulator/forwarding/node.hpp"
#include "switch_emulator/management/rib.hpp"
#include "switch_emulator/tables/fib.hpp"

namespace innet::management {

/// Those routes of a RIB that have the network's origin and lead to other nodes: as a routing
/// daemon's they capture, so that no shorter prefix's next hops come before them.
class NetworkRoutes {
  public:
    NetworkRoutes(Rib& rib, const forwarding::Node& node) : rib_(rib), node_(node) {}

    /// From now on `prefix` is served at these next hops, and at no others; none: nowhere else.
    void set(const wire::Name& prefix, std::span<const tables::NextHop> hops);
    /// Nothing is served elsewhere.
    void clear();

  private:
    bool is_ours(const RibRoute& route) const;
    void remove_all_but(const wire::Name& prefix, std::span<const tables::NextHop> hops);

    Rib& rib_;
    const forwarding::Node& node_;
};

}  // namespace innet::management
