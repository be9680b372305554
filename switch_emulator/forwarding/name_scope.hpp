#pragma once
// Names that stay near: `/localhost` on this machine, `/localhop` within one hop (NFD Developer's
// Guide, section "Scope control").

#include <cstdint>

#include "transport/wire/name.hpp"

namespace innet::forwarding {

enum class NameScope : std::uint8_t {
    kGlobal,
    kLocalhop,   ///< an Interest from another machine is not forwarded further
    kLocalhost,  ///< neither accepted from another machine nor sent there
};

NameScope scope_of(wire::NameView name);

}  // namespace innet::forwarding
