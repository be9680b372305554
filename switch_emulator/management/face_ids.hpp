#pragma once
// Numbers of faces on the wire, and which face a command means.

#include <optional>

#include "switch_emulator/forwarding/node.hpp"
#include "switch_emulator/management/module.hpp"

namespace innet::management {

/// They begin here: NFD keeps those below for itself.
inline constexpr std::uint64_t kFirstFaceId = 256;
/// NFD's for what is inside of the node; management makes no face of that number.
inline constexpr std::uint64_t kInternalFaceId = 1;

constexpr std::uint64_t shown_face_id(FaceNumber number) { return kFirstFaceId + number; }
/// Of an open face. It is never another's, so that a late command cannot mean the wrong one.
std::uint64_t shown_face_id(const forwarding::Node& node, FaceId face);

/// The open face of this number on the wire; left out or 0: the one that the command came by.
std::optional<FaceId> open_face(const forwarding::Node& node,
                                const std::optional<std::uint64_t>& face_id, FaceId from);

/// The number of the face that a command means, whether there is one or not: what is echoed.
std::uint64_t meant_face_id(const forwarding::Node& node,
                            const std::optional<std::uint64_t>& face_id, FaceId from);

}  // namespace innet::management
