#pragma once
// Routes to prefixes that other nodes of this network serve; the operator of the network sets them.

#include <cstdint>
#include <span>

#include "switch_emulator/forwarding/node.hpp"
#include "switch_emulator/management/rib.hpp"
#include "switch_emulator/tables/fib.hpp"

namespace innet::management {

/// The routes of a RIB with the network's origin that lead to other nodes. They capture, like those
/// of a routing daemon, so that next hops of shorter prefixes do not take precedence.
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
