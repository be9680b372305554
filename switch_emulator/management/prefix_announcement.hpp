#pragma once
// Prefix announcements: Data that say "I serve this prefix" (NFD's "PrefixAnnouncement").

#include <cstdint>
#include <variant>

#include "switch_emulator/management/control_response.hpp"

namespace innet::management {

/// What registers the announced prefix: the parameters of a rib/register. A refusal when the packet
/// is no prefix announcement (400), or one that has expired or is not valid yet (416).
/// `wall_time_ms`: since 1970.
std::variant<ControlParameters, ControlResponse> read_prefix_announcement(
    wire::ByteView packet, std::uint64_t wall_time_ms);

}  // namespace innet::management
