#pragma once
// Names that stay near: `/localhost` on this machine, `/localhop` within one hop (NFD Developer's
// Guide, section "Scope control").

#include <cstdint>

#include "transport/wire/name.hpp"

namespace innet::forwarding {

enum class NameScope : std::uint8_t {
    kGlobal,
    kLocalhop,   ///< an Interest from another machine goes no further than here
    kLocalhost,  ///< neither comes from another machine nor goes there
};

NameScope scope_of(wire::NameView name);

}  // namespace innet::forwarding
