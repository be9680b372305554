#include "switch_emulator/management/face_ids.hpp"

namespace innet::management {

std::uint64_t shown_face_id(const forwarding::Node& node, FaceId face) {
    return node.is_open(face) ? shown_face_id(node.face_number(face)) : kInternalFaceId;
}

std::optional<FaceId> open_face(const forwarding::Node& node,
                                const std::optional<std::uint64_t>& face_id, FaceId from) {
    const std::uint64_t number = meant_face_id(node, face_id, from);
    return number < kFirstFaceId ? std::nullopt : node.find_face(number - kFirstFaceId);
}

std::uint64_t meant_face_id(const forwarding::Node& node,
                            const std::optional<std::uint64_t>& face_id, FaceId from) {
    return face_id.value_or(0) == 0 ? shown_face_id(node, from) : *face_id;
}

}  // namespace innet::management
