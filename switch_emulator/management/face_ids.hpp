#pragma once
// Which face a command means.

#include <optional>

#include "switch_emulator/forwarding/node.hpp"
#include "switch_emulator/management/module.hpp"

namespace innet::management {

/// The open face of this number on the wire; left out or 0: the one that the command came by.
std::optional<FaceId> open_face(const forwarding::Node& node,
                                const std::optional<std::uint64_t>& face_id, FaceId from);

/// The number of the face that a command means, whether there is one or not: what is echoed.
std::uint64_t meant_face_id(const std::optional<std::uint64_t>& face_id, FaceId from);

}  // namespace innet::management
