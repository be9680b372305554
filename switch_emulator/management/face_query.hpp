#pragma once
// FaceStatus, the element of faces/list, and the filter of faces/query.

#include <cstdint>
#include <optional>
#include <string>

#include "switch_emulator/forwarding/node.hpp"
#include "switch_emulator/management/face_factory.hpp"
#include "switch_emulator/management/message.hpp"

namespace innet::management {

/// Bits of a face's Flags. No face has NFD's local fields or its link reliability.
inline constexpr std::uint64_t kCongestionMarkingFlag = 1U << 2U;

std::uint64_t flags_of(const FaceDescription& face);

/// What a dataset says of one face.
struct FaceStatus {
    std::uint64_t face_id = 0;
    FaceDescription description;
    FaceScope scope = FaceScope::kNonLocal;
    forwarding::FaceCounters counters;

    void write_to(Message& message) const;
};

/// A face matches when it has all that the filter names.
struct FaceQueryFilter {
    std::optional<std::uint64_t> face_id;
    std::optional<std::string> uri_scheme;  ///< of either end
    std::optional<std::string> remote_uri;
    std::optional<std::string> local_uri;
    std::optional<std::uint64_t> scope;
    std::optional<std::uint64_t> persistency;
    std::optional<std::uint64_t> link_type;

    /// From the whole element; nothing when it is malformed.
    static std::optional<FaceQueryFilter> parse(wire::ByteView element);
    bool matches(const FaceStatus& status) const;
};

}  // namespace innet::management
