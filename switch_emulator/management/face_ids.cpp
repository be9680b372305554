#include "switch_emulator/management/face_ids.hpp"

namespace innet::management {

std::optional<FaceId> open_face(const forwarding::Node& node,
                                const std::optional<std::uint64_t>& face_id, FaceId from) {
    const std::uint64_t number = meant_face_id(face_id, from);
    if (number < kFirstFaceId || number - kFirstFaceId >= node.faces()) return std::nullopt;
    const auto face = static_cast<FaceId>(number - kFirstFaceId);
    return node.is_open(face) ? std::optional(face) : std::nullopt;
}

std::uint64_t meant_face_id(const std::optional<std::uint64_t>& face_id, FaceId from) {
    return face_id.value_or(0) == 0 ? shown_face_id(from) : *face_id;
}

}  // namespace innet::management
